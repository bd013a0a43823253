"""Figures of an environment's card: its test, its controls and attacks on its judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rubric_judge.quality.fixtures.checking import FixtureReport


@dataclass(frozen=True)
class Family:
    """Attacks of one kind, and how many the judge paid for."""

    name: str
    scored: int
    over_credited: int


@dataclass(frozen=True)
class Figures:
    """Figures of an environment's judge and rubrics, for its card."""

    judge: str
    report: FixtureReport
    """Test of all tasks with fixtures, before any was left out."""
    left_out: int = 0
    """Tasks that were left out because a fixture of theirs failed."""
    controls: Sequence[tuple[str, str, float]] = ()
    """Name, description and mean reward of each control; of a judge that is a program."""
    attacks: Sequence[Family] = ()
    """Attacks by family; of a judge that is a program, where they can be made."""

    @property
    def tested(self) -> int:
        """Number of tasks with fixtures."""
        return len({entry.fixture.task_id for entry in self.report.checked})

    @property
    def reasons(self) -> list[tuple[str, str, int]]:
        """Kind of answer, what was wrong with its reward, and for how many tasks."""
        counts = Counter(
            (entry.fixture.name, entry.problem) for entry in self.report.failed
        )
        return [(name, problem, count) for (name, problem), count in counts.items()]

    @property
    def is_failed(self) -> bool:
        """Whether a task that is exported fails its test, or could not be tested."""
        return bool(self.report.unavailable) or (
            bool(self.report.failed) and not self.left_out
        )

    @property
    def youden(self) -> float | None:
        """J: share of criteria met by right answers, less that met by false ones."""
        rates = self.report.rates()
        return None if rates is None else rates[0] - rates[1]
