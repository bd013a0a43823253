"""The report of `rubric-judge criteria` and `rubric-train criteria`: its notes, printing, JSON."""

from collections.abc import Sequence
from pathlib import Path

from rubric_core.files import write_text
from rubric_judge.quality.calibration.record import read_calibration
from rubric_judge.quality.criteria.report import CriteriaReport
from rubric_judge.ui.console.command import (
    console,
    print_tables,
    say_on_stderr,
    typed_command,
)

_NOTHING = (
    "No group holds two answers that were scored, so that there was nothing to compare: spread, "
    "dead, held down and gradient are of groups"
)

_OURS = ("run", "ledger", "judged")
"""Formats of files of the judge's side, beside which a page of judgements is written."""


def finish(report: CriteriaReport, notes: Sequence[str]) -> CriteriaReport:
    """Return a report with the notes on its log, and one more if nothing could be compared.

    Args:
        report: the figures.
        notes: what a reader should know of the log.
    """
    more = [] if report.cells else [_NOTHING]
    return report.model_copy(update={"notes": (*report.notes, *notes, *more)})


def noise_of(calibration: Path | None) -> dict[str, float]:
    """Return the variance of each pool's z over repeated judgements, as calibrated.

    Args:
        calibration: a calibration.json; nothing is known if None.

    Raises:
        ConfigError: the file is no calibration.
    """
    if calibration is None:
        return {}
    return {
        row.criterion: row.noise.value
        for row in read_calibration(calibration).criteria
        if row.noise.value is not None
    }


def print_report(
    report: CriteriaReport, logs: Sequence[Path], tasks: Sequence[Path] = ()
) -> None:
    """Print the tables on standard output, and the notes on standard error.

    Args:
        report: the figures.
        logs: what they are of, for the command that shows the answers behind a row.
        tasks: files of the tasks, for the same.
    """
    console().print(f"{report.summary()}\n", markup=False, soft_wrap=True)
    more = len(report.rows) - len(report.table_shown().rows)
    footer = report.method()
    if more > 0:
        footer = f"{more} rows more are in --json. {footer}"
    print_tables(report.tables(), footer=footer)
    if report.rows:
        command = samples_command(report.source, logs, tasks)
        name = "" if report.by == "prompt" else f"#criterion={report.rows[0].name}"
        where = f", whose page opens there at {name}" if name else ""
        console().print(
            f"\nanswers behind a row: {command}{where}", markup=False, soft_wrap=True
        )
    for note in report.notes:
        say_on_stderr(note)


def samples_command(source: str, logs: Sequence[Path], tasks: Sequence[Path]) -> str:
    """Return the command that shows the answers of a log.

    Args:
        source: format of the log.
        logs: the log.
        tasks: files of its tasks.
    """
    words = ["view", *map(str, logs)]
    for path in tasks:
        words += ["--tasks", str(path)]
    if source not in _OURS:
        words += ["--out", "judgements.html"]
    return typed_command("rubric-judge", words)


def write_json(path: Path, report: CriteriaReport) -> None:
    """Write all figures of a report as one JSON document.

    Raises:
        OSError: the file cannot be written.
    """
    write_text(path, report.model_dump_json(indent=2) + "\n")
