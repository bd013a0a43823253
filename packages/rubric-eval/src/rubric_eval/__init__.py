"""Held-out evaluation with confidence intervals."""
