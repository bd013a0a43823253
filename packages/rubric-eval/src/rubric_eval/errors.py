"""Errors of evaluations, and counts of failures by reason.

RubricError
└── EvalError
    ├── EvalConfigError (ConfigError)     a command or a file asks for something impossible
    ├── EvalShapeError (ValueError)       arrays, tasks or responses that do not fit together
    ├── ComparisonError (ValueError)      evaluations that cannot be set side by side
    ├── SelectionLeakError (ValueError)   a choice made on the questions that it is judged by
    ├── EvalFolderError (ValueError)      a folder that is not the evaluation that is meant
    │   └── EvalEditedError               an evaluation that is not as its run left it
    ├── EvalWriteError (RuntimeError)     a file of an evaluation that could not be written
    ├── BenchmarkDataError (ValueError)   a benchmark's data that is missing or not well formed
    └── EvalAbortError (RuntimeError)     too many answers or judgements are missing
        ├── TransferAbortError            too many items of a benchmark without an answer
        └── HeldoutAbortError             too many responses without a judgement

Messages hold numbers, ids and names, never a passage, a criterion or a response.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from rubric_core import ConfigError, JudgeResult, Outcome, RubricError
from rubric_core.errors import AtPathError, shortened


class EvalError(RubricError):
    """Base of all errors of this package."""


class EvalConfigError(EvalError, ConfigError):
    """A command or a file asks for something that cannot be done."""


class EvalShapeError(EvalError, ValueError):
    """Arrays, tasks or responses that do not fit together."""


class ComparisonError(EvalError, ValueError):
    """Evaluations that cannot be set side by side."""


class SelectionLeakError(EvalError, ValueError):
    """A choice made on the questions that it is judged by."""

    def __init__(self, message: str, *, task_ids: tuple[str, ...] = ()) -> None:
        """Keep the questions that both sides hold."""
        super().__init__(message)
        self.task_ids = task_ids


class EvalFolderError(EvalError, ValueError):
    """A folder that holds no evaluation, an unfinished one, or one of something else."""


class EvalEditedError(EvalFolderError):
    """A finished evaluation whose files are not as its run left them, or contradict each other."""

    def __init__(self, message: str, *, found: tuple[str, ...] = ()) -> None:
        """Store the problems that were found."""
        super().__init__(message)
        self.found = found


class EvalWriteError(AtPathError, EvalError, RuntimeError):
    """A file of an evaluation that could not be written; what was written before is kept."""


class BenchmarkDataError(EvalError, ValueError):
    """A benchmark's data that is missing or not well formed."""


@dataclass(eq=False, repr=False)
class EvalAbortError(EvalError, RuntimeError):
    """Too many answers or judgements are missing for a result."""

    message: str
    _: KW_ONLY
    unavailable_frac: float = 0.0
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of missing ones, by reason."""


class TransferAbortError(EvalAbortError):
    """Too many items of a benchmark that a model gave no answer to."""


class HeldoutAbortError(EvalAbortError):
    """Too many responses for which no judge could be reached."""


_MOST_CHARS = 300
"""Characters of a message that is repeated; a server's may be a page long."""


class Failures:
    """Counter of failures; its text says what a user must know to fix them."""

    def __init__(self) -> None:
        """Start without failures."""
        self.by_reason: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, reason: str, detail: str = "") -> None:
        """Count one.

        Args:
            reason: reason of the failure.
            detail: message of the failure, which holds neither question nor answer nor passage.
        """
        self.by_reason[reason] += 1
        if detail:
            self._first.setdefault(
                reason, shortened(" ".join(detail.split()), _MOST_CHARS)
            )

    @property
    def total(self) -> int:
        """Number of all failures."""
        return self.by_reason.total()

    def share(self, of: int) -> float:
        """Return the share of failures among `of` results."""
        return self.total / max(of, 1)

    def exceed(self, allowed: float, *, of: int) -> bool:
        """Return whether more than the allowed share of the results, or all of them, failed.

        Args:
            allowed: the largest share.
            of: number of results.
        """
        return self.share(of) > allowed or self.total == of

    def __str__(self) -> str:
        """List the reasons, most frequent first, each with the message of its first failure."""
        parts: list[str] = []
        for reason, count in self.by_reason.most_common():
            part = f"{reason} {count}"
            if reason in self._first:
                part += f" (first: {self._first[reason]})"
            parts.append(part)
        return "; ".join(parts)


def unavailable(results: Iterable[JudgeResult]) -> Failures:
    """Count the judgements that are missing, by reason."""
    failures = Failures()
    for result in results:
        if result.outcome is Outcome.UNAVAILABLE:
            failures.add(str(result.reason), result.detail)
    return failures
