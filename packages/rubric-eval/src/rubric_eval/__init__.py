"""Held-out evaluation with confidence intervals.

`judge_heldout` gives the held-out reward of one policy; `compare` sets several side by side with
paired intervals, and beside the controls that a gain must beat before it is claimed.
Axes: N questions, K responses to each.
"""

from rubric_core.lazy import attach

__version__ = "0.1.0"

__getattr__, __all__ = attach(__name__, __file__)
