"""The judges: of claims, of terms, by a language model, by programs, and cascades of them."""
