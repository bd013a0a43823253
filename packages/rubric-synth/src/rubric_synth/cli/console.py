"""Console of the commands: the application, tables, lines and messages."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import rubric_synth
from rubric_judge.ui.console import command

app = command.command_app(
    "rubric-synth", summary="From technical documents to tasks with rubrics."
)


def print_table(
    title: str,
    names: Sequence[str],
    figures: Sequence[str],
    rows: Iterable[Sequence[str]],
) -> None:
    """Print a table of names and the figures behind them, unless it has no rows."""
    command.print_rows((*names, *figures), rows, title)


def print_counts(title: str, counts: Mapping[str, int]) -> None:
    """Print counts as a table, unless there are none."""
    rows = [(name, str(count)) for name, count in counts.items()]
    print_table(title, ("",), ("count",), rows)


def print_left_out(folder: Path, reasons: Mapping[str, tuple[str, int]]) -> None:
    """Print how many were left out for each reason, advice, and the first of them.

    Args:
        folder: Folder of a collection or a dataset.
        reasons: Advice and number by reason; the name of a reason may follow that of its stage.
    """
    from rubric_synth.run.dataset.folder import REJECTED_FILE, read_rejections

    if not reasons:
        return
    path = folder / REJECTED_FILE
    examples: dict[str, str] = {}
    for _, rejection in read_rejections(path):
        if rejection is None:
            continue
        texts = [text for text in (rejection.source, rejection.detail) if text]
        examples.setdefault(rejection.reason, ", ".join(texts))
    rows: list[tuple[str, str, str]] = []
    for name, (advice, count) in reasons.items():
        _, _, reason = name.rpartition(" ")
        texts = [text for text in (advice, examples.get(reason)) if text]
        row = (name, "\n".join(texts), str(count))
        rows.append(row)
    print_table(
        f"Left out, line by line in {path}",
        names=("", "what to do; the first of them"),
        figures=("count",),
        rows=rows,
    )


def print_fallbacks(total: rubric_synth.CallTotals) -> None:
    """Say how many answers are of another model than the one that was asked, if any are."""
    if total.fallback_calls:
        calls = f"{total.fallback_calls} of {total.calls} calls"
        print_line(f"by a fallback of litellm_config: {calls}")


def print_line(text: str) -> None:
    """Print one line whole: names in it are not broken."""
    command.console().print(text, soft_wrap=True)


def warn(message: str) -> None:
    """Print one message on standard error."""
    command.say_on_stderr(f"rubric-synth: {message}", style="yellow")


def fail(message: str, *, status: int = command.FAILED) -> NoReturn:
    """Print one message on standard error and end."""
    command.fail(app.name[0], message, status=status)
