"""Cascades: a cheap judge first, a better one where it is unsure, and a bound on the risk."""
