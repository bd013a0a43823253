"""Errors of rubric_judge. A judge reports what a model or a network does as a `JudgeResult`.

RubricError (rubric_core)
├── VerificationError(ValueError)   a verification method that starts as a directive and is not one
└── JudgeSetupError(ValueError)     a judge that cannot be called at all: no key, no such model
"""

from __future__ import annotations

from rubric_core import RubricError

__all__ = ["JudgeSetupError", "VerificationError"]


class VerificationError(RubricError, ValueError):
    """A criterion's verification method names a directive that cannot be executed as written."""

    def __init__(self, problem: str, *, criterion_id: str = "") -> None:
        """Keep the parts of the message.

        Args:
            problem: what is wrong and what to write; never the text of the criterion.
            criterion_id: the criterion, empty while only the method is known.
        """
        self.problem = problem
        self.criterion_id = criterion_id
        where = f"criterion {criterion_id!r}: " if criterion_id else ""
        super().__init__(f"{where}verification_method: {problem}")

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the parts, because the message is not an argument."""
        return _rebuild_verification_error, (self.problem, self.criterion_id)


class JudgeSetupError(RubricError, ValueError):
    """A judge was asked for that cannot be called: what is missing, and where to put it."""


def _rebuild_verification_error(problem: str, criterion_id: str) -> VerificationError:
    return VerificationError(problem, criterion_id=criterion_id)
