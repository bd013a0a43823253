"""`rubric-synth show`: tasks and refused drafts to read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rubric_synth.cli.app import app
from rubric_synth.cli.console import out_console
from rubric_synth.stats import chosen_rejections, chosen_tasks, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_synth.stats import Example


@app.command
def show(
    dataset: Path,
    *,
    split: Literal["train", "validation", "test"] = "train",
    limit: Annotated[int, Parameter(validator=Number(gte=1))] = 3,
    seed: int = 0,
    rejected: Annotated[bool, Parameter(negative="")] = False,
    reveal_grounding: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Show some tasks: question, rubric and reference answer. It is for the judge's side.

    Args:
        dataset: Dataset folder.
        split: Split to choose from.
        limit: Show at most this many.
        seed: Choose others.
        rejected: Show what was left out, of all splits: stage, reason, detail and draft.
        reveal_grounding: Show the passages too.
    """
    if rejected:
        examples = chosen_rejections(
            dataset, limit=limit, seed=seed, reveal_grounding=reveal_grounding
        )
    else:
        examples = chosen_tasks(
            dataset, split=split, limit=limit, seed=seed, reveal_grounding=reveal_grounding
        )
    for example in examples:
        _print_example(example)
    if not examples:
        nothing = "nothing was left out" if rejected else f"{split} holds no task"
        out_console.print(nothing, highlight=False)


def _print_example(example: Example) -> None:
    # `Text` is shown as it is: what looks like markup in it is none.
    heading = " · ".join(visible(part) for part in (*example.tags, example.origin))
    out_console.print(Rule(Text(heading), align="left"))
    _print_part("Left out because", example.detail)
    _print_part("Question", example.question)
    if example.criteria:
        out_console.print(_rubric(example))
    _print_part("Reference answer", example.reference)
    _print_part("Passage", example.passage or "")
    out_console.print()


def _print_part(title: str, text: str) -> None:
    if text:
        out_console.print(Text(title, style="bold"))
        out_console.print(Padding(Text(visible(text)), (0, 0, 0, 2)))


def _rubric(example: Example) -> Table:
    table = Table(
        title=Text(f"Rubric, total weight {example.total_weight:g}", style="bold"),
        title_justify="left",
        show_lines=True,
    )
    table.add_column("weight", justify="right")
    for column in ("name", "description", "required elements", "check"):
        table.add_column(column, overflow="fold", ratio=1 if column == "name" else 2)
    for criterion in example.criteria:
        table.add_row(*map(Text, map(visible, _cells(criterion))))
    return table


def _cells(criterion: Mapping[str, object]) -> tuple[str, ...]:
    weight, required = criterion["weight"], cast("list[str]", criterion["required_elements"])
    return (
        f"{weight:g}" if isinstance(weight, float) else str(weight),
        str(criterion["name"] or criterion["id"]),
        str(criterion["description"]),
        ", ".join(required),
        str(criterion["verification_method"]),
    )
