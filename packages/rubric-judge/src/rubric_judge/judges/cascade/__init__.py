"""Cascades: a cheap judge first, a better one where it matters, and a bound on the risk."""
