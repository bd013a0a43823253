"""lm-eval's own tasks over the same items as ours.

Prompts, examples, filters and metrics are lm-eval's. Three things are not: documents come from our
readers, so that local copies can be named; GPQA's choices have the order that is drawn once for
each question; and answers may be longer than lm-eval's 256 tokens.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rubric_eval.lm_tasks.items import Item
    from rubric_eval.transfer.suites import Benchmark


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
    choices = {f"choice{number}": text for number, text in enumerate(item.choices, start=1)}
    answer = f"({item.target})"
    return {
        **row,
        **choices,
        "Question": item.question,
        "choices": list(item.choices),
        "answer": answer,
    }
