"""What the commands share: consoles, settings, tables and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rubric_judge.console import Progress
from rubric_judge.console.command import FAILED, say_on_stderr
from rubric_judge.console.command import fail as end_with
from rubric_synth.cli.app import app
from rubric_synth.config import SynthConfig, load_config
from rubric_synth.remedies import what_to_do

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rubric_synth.calls import CallTotals

out_console = Console()
err_console = Console(stderr=True)


def working() -> Progress:
    """Return what is entered around the work of a command, and left before results are printed."""
    return Progress.of(app.name[0])


def read_settings(path: Path | None) -> SynthConfig:
    """Read a configuration file, or take the defaults."""
    return load_config(path) if path is not None else SynthConfig()


def print_counts(title: str, counts: Mapping[str, int]) -> None:
    """Print counts as a table, unless there are none."""
    table = Table("", "count", title=escape(title), title_justify="left")
    for name, count in counts.items():
        table.add_row(escape(name), str(count))  # a model may have made the name up
    if counts:
        out_console.print(table)


def print_reasons(title: str, counts: Mapping[str, int], config: SynthConfig) -> None:
    """Print the reasons for leaving out, each with what to do about it, unless there are none."""
    table = Table("", "count", "what to do", title=escape(title), title_justify="left")
    for reason, count in counts.items():
        table.add_row(reason, str(count), what_to_do(reason, config))
    if counts:
        out_console.print(table)


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
