"""Judges and an endpoint for tests: real code paths, chosen behaviour."""

from rubric_core.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
