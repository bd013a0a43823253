"""The application, and what its commands read and write."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rubric_core import Task, read_tasks
from rubric_core.errors import ConfigError
from rubric_core.files import write_text
from rubric_judge.ui.console import command, progress

if TYPE_CHECKING:
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


def require_writable(
    out: Path, *, flag: str, inputs: tuple[Path | None, ...] = ()
) -> None:
    """Refuse a file that could not be written at the end.

    Args:
        out: the file, which may be a pipe.
        flag: how the command line calls it.
        inputs: what the command reads, which it must not write over.

    Raises:
        ConfigError: it is a folder or an input, or its folder is missing or closed.
    """
    if problem := _problem(out, inputs):
        raise ConfigError(f"{flag} {out}: {problem}", location=flag.lstrip("-"))


def _problem(out: Path, inputs: tuple[Path | None, ...]) -> str | None:
    file = out.resolve()
    if out.is_dir():
        return "this is a folder: name a file in it"
    if any(path is not None and path.resolve() == file for path in inputs):
        return "this command reads the same file: write to another one"
    if out.exists() and not out.is_file():  # a pipe is written straight to
        return (
            None
            if os.access(out, os.W_OK)
            else "it is not open for writing: name a file"
        )
    if not file.parent.is_dir():
        return f"there is no folder {out.parent}: create it, or write elsewhere"
    if not os.access(file.parent, os.W_OK | os.X_OK):
        return (
            f"the folder {out.parent} cannot be written to: open it, or write elsewhere"
        )
    return None
