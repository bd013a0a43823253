"""The report of `rubric-judge criteria` and `rubric-train criteria`: its notes, printing, JSON."""

from collections.abc import Sequence
from pathlib import Path

from rubric_core.files import write_text
from rubric_judge.quality.calibration.record import read_calibration
from rubric_judge.quality.criteria.report import CriteriaReport
from rubric_judge.ui.console.command import console, print_tables, say_on_stderr

_NOTHING = (
    "No group holds two answers that were scored, so that there was nothing to compare: spread, "
    "dead, held down and gradient are of groups"
)


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


def print_report(report: CriteriaReport) -> None:
    """Print the tables on standard output, and the notes on standard error."""
    console().print(f"{report.summary()}\n", markup=False, soft_wrap=True)
    more = len(report.rows) - len(report.table_shown().rows)
    footer = report.method()
    if more > 0:
        footer = f"{more} rows more are in --json. {footer}"
    print_tables(report.tables(), footer=footer)
    for note in report.notes:
        say_on_stderr(note)


def write_json(path: Path, report: CriteriaReport) -> None:
    """Write all figures of a report as one JSON document.

    Raises:
        OSError: the file cannot be written.
    """
    write_text(path, report.model_dump_json(indent=2) + "\n")
