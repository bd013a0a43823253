"""The application, and what its commands read and write."""

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rubric_core import ConfigError, Task, read_tasks
from rubric_core.files import write_text
from rubric_judge.ui.console import command, progress
from rubric_judge.ui.page.links import Leads
from rubric_judge.ui.page.tables import Report

app = command.command_app("rubric-judge", summary="Judge responses against rubrics.")


def tasks_by_id(path: Path) -> dict[str, Task]:
    """Read a file of tasks; return each by its id."""
    return {task.task_id: task for task in read_tasks(path)}


def write_report(
    out: Path,
    name: str,
    report: Report,
    draw: Callable[[Path], Sequence[Path]],
    *more: str,
    leads: Leads | None = None,
) -> str:
    """Write a report as JSON, Markdown and HTML with figures; return the names of all files.

    Args:
        out: the folder.
        name: of both files.
        report: what was found.
        draw: draws the figures into the folder; the Markdown shows each `.png`.
        more: names of other files in the folder; a page of the report's own among them.
        leads: ways from the page to the samples behind it.
    """
    with progress.current().phase("drawing the figures"):
        pictures = [path.name for path in draw(out) if path.suffix == ".png"]
    write_text(out / f"{name}.json", report.model_dump_json(indent=2) + "\n")
    write_text(out / f"{name}.md", report.markdown(pictures))
    if (page := f"{name}.html") not in more:
        from rubric_judge.ui.page.rendering import write_plain_page

        write_plain_page(report, out / page, leads)
        more = (page, *more)
    return ", ".join([str(out / f"{name}.md"), f"{name}.json", *more, *pictures])


def say(message: str) -> None:
    """Tell on standard error what the command found."""
    print(f"rubric-judge: {message}", file=sys.stderr)


def flag_error(flag: str, problem: str) -> ConfigError:
    """Return the error of an option, whose name begins the message."""
    return ConfigError(f"--{flag}{problem}", location=flag)


def make_folder(out: Path) -> None:
    """Make the folder of `--out`, which a command is to fill; what is in it stays there.

    Raises:
        ConfigError: it cannot be made, or not be written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise flag_error(
            "out",
            f" {out}: cannot be made a folder to write to ({error.strerror}): name "
            "another folder",
        ) from None
