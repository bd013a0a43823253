"""A report on a terminal: failures last, where the reader's eye is when the command ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from rubric_train_openrlhf.cluster.rehearse.finding import Status

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from rubric_train_openrlhf.cluster.rehearse.finding import Finding, Report

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
