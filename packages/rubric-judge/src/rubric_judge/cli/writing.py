"""`rubric-judge label --write --model`: a language model writes answers of known truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from rubric_core import Task
from rubric_judge.cli.app import app, say
from rubric_judge.ui.console import command, progress

if TYPE_CHECKING:
    from rubric_judge.quality.labels.model_writer import ByModel
    from rubric_judge.quality.labels.writing import WrittenStore


def write_with_model(
    model: Path, drawn: Sequence[Task], store: WrittenStore, out: Path, *, workers: int
) -> int:
    """Have a model write both answers to each task that has not both by it, and say what came.

    Args:
        model: its configuration.
        drawn: the tasks.
        store: keeps the answers.
        out: its file, as it is called.
        workers: most tasks at once.

    Returns:
        Exit status: 1 when it was asked and wrote not a single pair.

    Raises:
        ConfigError: the configuration cannot be used.
        JudgeSetupError: the model is not there.
        RubricFileError, OSError: an answer could not be written.
    """
    from rubric_judge.config import read_model_config
    from rubric_judge.models.chat_model import ChatModel
    from rubric_judge.quality.labels.model_writer import open_tasks, write_by_model

    config = read_model_config(model)

    async def ask() -> tuple[int, ByModel]:
        async with ChatModel(config) as asked:
            with progress.current().phase("asking the model whether it is there"):
                await asked.check()
                todo = await open_tasks(asked, config, drawn, store)
            with progress.current().phase("writing answers", total=len(drawn)) as phase:
                phase.start_at(len(drawn) - len(todo))
                model = await write_by_model(
                    asked,
                    todo,
                    store,
                    workers=min(workers, len(todo)),
                    on_task=phase.advance,
                )
            return len(drawn) - len(todo), model

    with command.working(app):
        there, by_model = anyio.run(ask)
    _report(by_model, there, out)
    return command.FAILED if by_model.failed and not by_model.written else 0


def _report(by_model: ByModel, there: int, out: Path) -> None:
    usage = by_model.usage
    figures: list[tuple[str, object]] = [
        ("tasks with both answers", by_model.written),
        *((f"  by {name}", count) for name, count in by_model.authors.items()),
        ("had them already", there),
        ("without", by_model.failed.total()),
        *((f"  {reason}", count) for reason, count in by_model.failed.most_common()),
        ("prompt tokens", usage.prompt_tokens),
        ("completion tokens", usage.completion_tokens),
    ]
    if usage.cost_usd is not None:
        figures.append(("cost", f"${usage.cost_usd:.4f}"))
    command.print_pairs([*figures, ("written", out)])
    for reason, detail in by_model.details.items():
        say(f"{reason}, the first time: {detail}")
