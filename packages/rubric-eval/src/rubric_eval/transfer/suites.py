"""The benchmarks of Table 2: our own pinned tasks, in two suites, and lm-eval's as another."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from rubric_core.files import toml_beside
from rubric_eval.lm_tasks.sources import Item


class SuiteName(StrEnum):
    """A set of benchmarks that are run together."""

    PAPER = "paper"
    """Ours: one question, no examples, an answer that may be long, and rules for reading it."""

    LIKELIHOOD = "likelihood"
    """GPQA by which letter the model finds likeliest; no word is generated."""

    STOCK = "stock"
    """lm-eval's own prompts and scoring, with choices and token budgets that are fixed."""


@dataclass(frozen=True)
class Benchmark:
    """One column of the table."""

    task: str
    """Name of the task, which is the benchmark's in records."""

    title: str
    data: str
    """Which rows: "gsm8k", "math", "gpqa_main" or "gpqa_diamond"."""

    max_tokens: int
    """Tokens of an answer; lm-eval's 256 would cut most of them."""

    chance: float | None = None
    """Accuracy of guessing."""

    filter: str = "none"
    """Which of the task's filters is scored."""

    stock_yaml: str | None = None
    """File of lm-eval's that the task is from, below its `tasks`."""

    @property
    def is_unpublished(self) -> bool:
        """Whether its authors ask that its questions appear nowhere in plain text."""
        return self.data.startswith("gpqa")


_TABLE: Final = toml_beside(__file__, "suites.toml")
SUITES: Final = {
    SuiteName(suite): tuple(Benchmark(**fields) for fields in benchmarks)
    for suite, benchmarks in _TABLE.items()
}
"""Benchmarks of each suite, in the order of the table."""


def suite_of(task: str) -> SuiteName | None:
    """Return the suite that has a benchmark of this name; None for one that is in no suite."""
    known = benchmark_of(task)
    return next((name for name, suite in SUITES.items() if known in suite), None)


def benchmark_of(task: str) -> Benchmark | None:
    """Return the benchmark with this name; None for one that is in no suite."""
    return next(
        (
            benchmark
            for suite in SUITES.values()
            for benchmark in suite
            if benchmark.task == task
        ),
        None,
    )


def benchmark_title(task: str) -> str:
    """How a benchmark is written; names that are not ours stay as they are."""
    known = benchmark_of(task)
    return "Held-out questions" if task == "heldout" else known.title if known else task


def stock_config(
    benchmark: Benchmark, items: Sequence[Item], *, folder: Path
) -> dict[str, Any] | None:
    """Return the configuration of a task of lm-eval's; None for one of ours.

    Args:
        benchmark: which.
        items: its items.
        folder: lm-eval's tasks.
    """
    if benchmark.stock_yaml is None:
        return None
    load_yaml = import_module("lm_eval.tasks._yaml_loader").load_yaml
    config: dict[str, Any] = load_yaml(folder / benchmark.stock_yaml)
    documents = [_document(benchmark.data, item) for item in items]

    def dataset(**_: object) -> dict[str, Any]:
        return {"test": import_module("datasets").Dataset.from_list(documents)}

    config.update(
        task=benchmark.task,
        custom_dataset=dataset,
        dataset_path=None,
        dataset_name=None,
        training_split=None,
        validation_split=None,
        test_split="test",
    )
    if benchmark.data.startswith("gpqa"):
        config["process_docs"] = None
    return config


def _document(data: str, item: Item) -> dict[str, object]:
    row: dict[str, object] = {"item_id": item.item_id, "group": item.group}
    if data == "gsm8k":
        return {**row, "question": item.question, "answer": f"#### {item.target}"}
    if data == "math":
        solution = f"$\\boxed{{{item.target}}}$"
        return {**row, "problem": item.question, "solution": solution}
    choices = {
        f"choice{number}": text for number, text in enumerate(item.choices, start=1)
    }
    asked = {"Question": item.question, "choices": list(item.choices)}
    return {**row, **choices, **asked, "answer": f"({item.target})"}
