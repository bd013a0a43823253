"""What the commands share: consoles, settings, tables and messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rubric_judge.console.command import FAILED, command_app, say_on_stderr
from rubric_judge.console.command import fail as end_with
from rubric_judge.console.progress import Progress
from rubric_synth.calls import CallTotals
from rubric_synth.collect.folder import REJECTED_FILE
from rubric_synth.config import SynthConfig, load_config
from rubric_synth.rejection import what_to_do

app = command_app("rubric-synth", summary="From technical documents to tasks with rubrics.")


out_console = Console()


def working() -> Progress:
    """Return what is entered around the work of a command, and left before results are printed."""
    return Progress.of(app.name[0])


def read_settings(path: Path | None) -> SynthConfig:
    """Read a configuration file, or take the defaults."""
    return load_config(path) if path is not None else SynthConfig()


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, unless it has no rows; a model may have made names in it up."""
    table = Table(*columns, title=escape(title), title_justify="left")
    for cells in rows:
        table.add_row(*map(escape, cells))
    if table.row_count:
        out_console.print(table)


def print_counts(title: str, counts: Mapping[str, int]) -> None:
    """Print counts as a table, unless there are none."""
    print_table(title, ("", "count"), ((name, str(count)) for name, count in counts.items()))


def print_reasons(folder: Path, counts: Mapping[str, int], config: SynthConfig) -> None:
    """Print the reasons for leaving out, each with what to do about it, unless there are none."""
    print_table(
        f"Left out, line by line in {folder / REJECTED_FILE}",
        ("", "count", "what to do"),
        ((reason, str(count), what_to_do(reason, config)) for reason, count in counts.items()),
    )


def print_fallbacks(total: CallTotals) -> None:
    """Say how many answers are of another model than the one that was asked, if any are."""
    if total.fallback_calls:
        print_line(
            f"by a fallback of litellm_config: {total.fallback_calls} of {total.calls} calls"
        )


def print_line(text: str) -> None:
    """Print one line whole: names in it are no markup, and are not broken."""
    out_console.print(text, markup=False, highlight=False, soft_wrap=True)


def warn(message: str) -> None:
    """Print one message on standard error."""
    say_on_stderr(f"rubric-synth: {message}", style="yellow")


def fail(message: str, *, status: int = FAILED) -> NoReturn:
    """Print one message on standard error and end."""
    end_with(app.name[0], message, status=status)
