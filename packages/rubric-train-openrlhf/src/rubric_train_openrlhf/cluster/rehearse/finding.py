"""What a rehearsal finds: one line a check, and several where a check finds several things."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Iterator

TWO_STEPS: Final = "two steps"
"""The check that runs them."""


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    """The run would stop on the cluster, or train on something wrong."""
    WARNING = "warning"
    """The run would go on, but perhaps not as meant."""
    UNCHECKED = "not checkable here"
    """Nothing on this machine can tell; the detail says why."""


class Finding(BaseModel):
    """One thing that a check has to say; texts of tasks and keys never stand in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str = ""
    """Name of the check; set by whoever runs it."""
    status: Status
    detail: str
    """What was found, with its value."""
    where: str = ""
    """Key of the configuration, or file and line."""
    remedy: str = ""
    """What to do; empty where nothing is to be done."""
    seconds: float = 0.0
    """Time of the whole check."""


class Report(BaseModel):
    """All that a rehearsal found: rehearse.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: str
    """The production configuration."""
    stand_ins: tuple[str, ...] = ()
    """What took the place of something that is not on this machine, or was chosen to."""
    findings: tuple[Finding, ...]
    wall_s: float

    @property
    def failures(self) -> tuple[Finding, ...]:
        """What has to be repaired before the run."""
        return tuple(found for found in self.findings if found.status is Status.FAILED)

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def has_run(self) -> bool:
        """Whether the two steps were tried."""
        return any(found.status is not Status.UNCHECKED for found in self.of(TWO_STEPS))

    @property
    def counts(self) -> dict[str, int]:
        """Findings by status, those that occur."""
        counted = Counter(found.status for found in self.findings)
        return {status.value: counted[status] for status in Status if status in counted}

    def to_json(self) -> str:
        """Write the report as one JSON object, with the verdict and the counts first."""
        fields = self.model_dump(mode="json")
        whole = {"passed": self.passed, "counts": self.counts, **fields}
        return _Json.model_validate(whole).model_dump_json(indent=2) + "\n"

    def of(self, check: str) -> Iterator[Finding]:
        """Findings of one check."""
        return (found for found in self.findings if found.check == check)


class _Json(BaseModel):
    """A report with its derived fields, in the order in which a reader wants them."""

    passed: bool
    counts: dict[str, int]
    config: str
    stand_ins: tuple[str, ...]
    wall_s: float
    findings: tuple[Finding, ...]


def passed(detail: str, *, where: str = "") -> Finding:
    """A check that found nothing wrong."""
    return Finding(status=Status.PASSED, detail=detail, where=where)


def failed(detail: str, *, where: str = "", remedy: str = "") -> Finding:
    """Something that would stop the run or spoil it."""
    return Finding(status=Status.FAILED, detail=detail, where=where, remedy=remedy)


def warning(detail: str, *, where: str = "", remedy: str = "") -> Finding:
    """Something to look at."""
    return Finding(status=Status.WARNING, detail=detail, where=where, remedy=remedy)


def unchecked(why: str, *, where: str = "", remedy: str = "") -> Finding:
    """Something that this machine cannot tell."""
    return Finding(status=Status.UNCHECKED, detail=why, where=where, remedy=remedy)
