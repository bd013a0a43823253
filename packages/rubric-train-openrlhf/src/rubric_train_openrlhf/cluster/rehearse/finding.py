"""What a rehearsal finds, one line a check and more where it finds more, and its table."""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console


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
        return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"

    def of(self, check: str) -> Iterator[Finding]:
        """Findings of one check."""
        return (found for found in self.findings if found.check == check)


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


_STYLE: Final = {
    Status.PASSED: "green",
    Status.FAILED: "bold red",
    Status.WARNING: "yellow",
    Status.UNCHECKED: "cyan",
}


def print_report(report: Report, console: Console, *, folder: Path) -> None:
    """Print what stood in, a table of all findings, and each failure once more with its remedy.

    Args:
        report: what was found.
        console: where to.
        folder: of the rehearsal, to be named.
    """
    for stand_in in report.stand_ins:
        console.print(Text(f"stand-in: {stand_in}", style="cyan"))
    console.print(findings_table(report))
    for found in report.failures:
        console.print(failure_text(found))
    console.print(Text(f"report and logs: {folder}", style="dim"))
    counts = ", ".join(
        f"{number} {_counted(status, number)}" for status, number in report.counts.items()
    )
    verdict = "passed" if report.passed else "FAILED"
    style = "bold green" if report.passed else "bold red"
    what = "" if report.has_run else ", without the two steps"
    console.print(
        Text(f"rehearsal {verdict} in {report.wall_s:.0f} s{what}: ", style=style) + Text(counts)
    )


def findings_table(report: Report) -> Table:
    """One row a finding; the name of a check stands at its first."""
    table = Table(
        title=f"rehearsal of {report.config}", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1)
    )
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("found", overflow="fold")
    table.add_column("s", justify="right", no_wrap=True)
    last = ""
    for found in report.findings:
        first = found.check != last
        table.add_row(
            Text(found.check if first else ""),
            Text(found.status.value, style=_STYLE[found.status]),
            # Failures are told below with theirs.
            Text(_said(found)) if found.status is Status.FAILED else _advised(found),
            Text(f"{found.seconds:.1f}" if first else ""),
        )
        last = found.check
    return table


def failure_text(found: Finding) -> Text:
    """A failure and what to do about it."""
    return Text(f"✗ {found.check}: ", style="bold red") + _advised(found)


def _advised(found: Finding) -> Text:
    remedy = Text(f"\n  → {found.remedy}", style="dim") if found.remedy else Text()
    return Text(_said(found)) + remedy


def _counted(status: str, number: int) -> str:
    return f"{status}s" if status == Status.WARNING and number > 1 else status


def _said(found: Finding) -> str:
    """What was found behind its key, which it may name itself."""
    if not found.where or found.where in found.detail:
        return found.detail
    return f"{found.where}: {found.detail}"
