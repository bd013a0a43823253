"""Judges that score a response against a rubric.

A judge is a `rubric_core.Judge`: `async judge(view) -> JudgeResult`. It never raises for what a
model or a network does; such things are outcomes with a reason.
"""

from rubric_core.lazy import attach

__version__ = "0.1.0"

__getattr__, __all__ = attach(__name__, __file__)
