"""The benchmarks of Table 2: our own pinned tasks, in two suites, and lm-eval's as another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

from rubric_core.files import toml_beside
from rubric_eval.lm_tasks.sources import Item


class SuiteName(StrEnum):
    """A set of benchmarks that are run together."""

    PAPER = "paper"
    """Our tasks: one question, no examples, an answer that may be long, and rules to read it."""

    LIKELIHOOD = "likelihood"
    """GPQA, answered by the letter that the model finds likeliest; no text is generated."""

    STOCK = "stock"
    """lm-eval's own prompts and scoring, with fixed choices and token budgets."""


@dataclass(frozen=True)
class Benchmark:
    """One column of the table."""

    task: str
    """Name of the task, which stands for the benchmark in records."""

    title: str
    data: str
    """Name of its rows: "gsm8k", "math", "gpqa_main" or "gpqa_diamond"."""

    max_tokens: int
    """Tokens of an answer at most; lm-eval's 256 would cut most answers."""

    chance: float | None = None
    """Accuracy of guessing."""

    filter: str = "none"
    """Name of the filter of the task that is scored."""

    stock_yaml: str | None = None
    """File of lm-eval's that defines the task, below its `tasks`."""

    @property
    def is_unpublished(self) -> bool:
        """Whether its authors ask that its questions appear nowhere in plain text."""
        return self.data.startswith("gpqa")


_TABLE = toml_beside(__file__, "suites.toml")
SUITES = {
    SuiteName(suite): tuple(Benchmark(**fields) for fields in benchmarks)
    for suite, benchmarks in _TABLE.items()
}
"""Benchmarks of each suite, in the order of the table."""
TITLES: Mapping[str, str] = {
    "heldout": "Held-out questions",
    **{
        benchmark.task: benchmark.title
        for suite in SUITES.values()
        for benchmark in suite
    },
}
"""Titles of what models are scored on, by its name in records."""


def suite_of(task: str) -> SuiteName | None:
    """Return the suite that has a benchmark of this name; None if no suite has it."""
    benchmark = benchmark_of(task)
    for name, suite in SUITES.items():
        if benchmark in suite:
            return name
    return None


def benchmark_of(task: str) -> Benchmark | None:
    """Return the benchmark with this name; None if no suite has it."""
    for suite in SUITES.values():
        for benchmark in suite:
            if benchmark.task == task:
                return benchmark
    return None


def stock_config(
    benchmark: Benchmark, items: Sequence[Item], *, folder: Path
) -> dict[str, Any] | None:
    """Return the configuration of a task of lm-eval's; None for one of ours.

    Args:
        benchmark: benchmark of the task.
        items: items of the benchmark.
        folder: folder of lm-eval's tasks.
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
    for number, text in enumerate(item.choices, start=1):
        row[f"choice{number}"] = text
    row["Question"] = item.question
    row["choices"] = list(item.choices)
    row["answer"] = f"({item.target})"
    return row
