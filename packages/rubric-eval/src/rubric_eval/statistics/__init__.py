"""Estimates and tests of evaluations; the statistics themselves are those of `rubric_judge`.

intervals    a mean, a share, a paired difference and a model's score with their intervals, as files
             hold them
"""

from rubric_core.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
