"""Why answers or judgements are missing: how many by reason, and what the first of each said."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rubric_core import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubric_core import JudgeResult

_MOST_CHARS: Final = 300
"""Of a message that is repeated; a server's may be a page."""


class Failures:
    """Counts failures; as a text it is what a person must know to mend them."""

    def __init__(self) -> None:
        """Start at none."""
        self.by_reason: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, reason: str, detail: str = "") -> None:
        """Count one.

        Args:
            reason: what kind it is of.
            detail: its own message, which holds neither question nor answer nor passage.
        """
        self.by_reason[reason] += 1
        if detail:
            self._first.setdefault(reason, " ".join(detail.split())[:_MOST_CHARS])

    @property
    def total(self) -> int:
        """All of them."""
        return self.by_reason.total()

    def __str__(self) -> str:
        """Most frequent first, each with the message of its first."""
        return "; ".join(
            f"{reason} {count}"
            + (f" (first: {self._first[reason]})" if reason in self._first else "")
            for reason, count in self.by_reason.most_common()
        )


def unavailable(results: Iterable[JudgeResult]) -> Failures:
    """Count the judgements that never came."""
    found = Failures()
    for result in results:
        if result.outcome is Outcome.UNAVAILABLE:
            found.add(str(result.reason), result.detail)
    return found
