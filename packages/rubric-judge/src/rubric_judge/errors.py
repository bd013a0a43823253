"""Errors of rubric_judge. A judge reports what a model or a network does as a `JudgeResult`.

RubricError (rubric_core)
├── VerificationError(ValueError)      a verification method that only starts as a directive
├── SandboxError(RuntimeError)         a check that cannot be run as confined as it has to be, here
├── LedgerError(RuntimeError)          a ledger that cannot be opened, read or trusted
├── EventLoopError(RuntimeError)       a pool, judge or limiter asked from two event loops at once
├── JudgeSetupError(ValueError)        a judge that cannot be called at all, such as without its key
├── LogprobsError(ValueError)          log-probabilities of a reply that cannot be read
├── SampleShapeError(ValueError)        values of a sample that do not fit together
└── JudgeTransportError(RuntimeError)  a call that brought no answer; between a client and its judge
"""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Self

from rubric_core import Reason, RubricError, Usage


class VerificationError(RubricError, ValueError):
    """A criterion's verification method names a directive that cannot be executed as written.

    Attributes:
        problem: what is wrong and what to write; never the text of the criterion.
        criterion_id: the criterion, empty while only the method is known.
    """

    def __init__(self, problem: str, *, criterion_id: str = "") -> None:
        self.problem = problem
        self.criterion_id = criterion_id
        where = f"criterion {criterion_id!r}: " if criterion_id else ""
        super().__init__(f"{where}verification_method: {problem}")

    @classmethod
    def of(cls, head: str, problem: str) -> Self:
        """Return the error of what follows a head, such as `numeric:`."""
        return cls(f"`{head}` {problem}")


class LogprobsError(RubricError, ValueError):
    """Log-probabilities of a reply's first token that cannot be read: why, and what to do."""


class SampleShapeError(RubricError, ValueError):
    """Values of a sample do not fit together: their number, their axes, or one is infinite."""


class SandboxError(RubricError, RuntimeError):
    """A check cannot be run here as confined as it has to be: what is missing, and what to set."""


class EventLoopError(RubricError, RuntimeError):
    """A pool, judge or limiter was asked from two event loops at once, and would have hung."""


class JudgeSetupError(RubricError, ValueError):
    """A judge was asked for that cannot be called: what is missing, and where to put it."""


class JudgeContractError(RubricError, RuntimeError):
    """A judge answers outside of its contract too often for its rewards to mean anything."""


@dataclass(eq=False, repr=False)
class JudgeTransportError(RubricError, RuntimeError):
    """A call of a model brought no answer."""

    reason: Reason
    """Why, one of the reasons for `unavailable`."""
    detail: str
    """Type, status and remedy; nothing that was sent or received."""
    _: KW_ONLY
    retry_after_s: float | None = None
    """How long the server asks to wait, where it says so."""
    attempts: int = 1
    """Calls made so far; 0 where there could be none."""
    usage: Usage | None = None
    """Usage of the calls, where the server reports it all the same."""
    latency_s: float | None = None
    """Seconds since the first of them; None for a single attempt."""
    refused: str = ""
    """The field of the request that it was refused for, where that is known."""
    instead: str = ""
    """The field that is wanted in its place."""

    def __post_init__(self) -> None:
        super().__init__(
            f"{self.reason.value} after {self.attempts} attempt(s): {self.detail}"
        )


class LedgerError(RubricError, RuntimeError):
    """A ledger that cannot be opened, read or trusted. It is never repaired or replaced unasked.

    Attributes:
        path: the file.
    """

    def __init__(self, problem: str, *, path: Path) -> None:
        self.path = path
        super().__init__(f"ledger {path}: {problem}")
