"""Estimates and tests of evaluations; the statistics themselves are those of `rubric_judge`.

intervals    a mean, a share, a paired difference and a score with their intervals, as files hold
             them
scores       a model's score, with what explains it
"""

from rubric_core.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
