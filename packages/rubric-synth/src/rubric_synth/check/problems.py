"""What a check found: the first problems in words, all of them counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN: Final = 200


class CheckReport(BaseModel):
    """The result of a check."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: dict[str, int]
    """Tasks read, by split."""
    problems: tuple[str, ...]
    """One line per problem, the first of them; empty for a sound dataset."""
    problem_count: int = 0
    """How many problems there are."""


class Problems:
    """Problems as they are found; only the first are kept in words."""

    def __init__(self) -> None:
        """Begin without one."""
        self._shown: list[str] = []
        self._count = 0

    def add(self, problem: str) -> None:
        """Note one problem."""
        self._count += 1
        if len(self._shown) < _SHOWN:
            self._shown.append(problem)

    def extend(self, problems: Iterable[str]) -> None:
        """Note several."""
        for problem in problems:
            self.add(problem)

    def report(self, tasks: dict[str, int]) -> CheckReport:
        """Return what was found, with a last line for what is not shown."""
        left = self._count - len(self._shown)
        more = [f"… and {left} more"] if left else []
        return CheckReport(tasks=tasks, problems=(*self._shown, *more), problem_count=self._count)
