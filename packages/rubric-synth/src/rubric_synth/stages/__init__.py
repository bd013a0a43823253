"""What a synthesiser does with a document, and the two that come with the package."""
