"""What the YAML files name as `custom_dataset`: documents for lm-eval.

lm-eval calls these with the metadata of the run, which holds every argument of the model too; only
`data` and `questions` are read.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from rubric_core import read_tasks
from rubric_eval.errors import BenchmarkDataError
from rubric_eval.lm_tasks.sources import load_items

_Documents = dict[str, Any]


def gsm8k(data: str | None = None, **_: object) -> _Documents:
    """GSM8K's test split."""
    return benchmark_documents("gsm8k", data)


def math(data: str | None = None, **_: object) -> _Documents:
    """MATH's test split, or the part of it that is in the folder."""
    return benchmark_documents("math", data)


def gpqa_main(data: str | None = None, **_: object) -> _Documents:
    """GPQA Main."""
    return benchmark_documents("gpqa_main", data)


def gpqa_diamond(data: str | None = None, **_: object) -> _Documents:
    """GPQA Diamond."""
    return benchmark_documents("gpqa_diamond", data)


def heldout(questions: str | None = None, **_: object) -> _Documents:
    """Questions of a file of tasks: ids and questions alone, for lm-eval logs its documents.

    Raises:
        BenchmarkDataError: no file is named, or it holds no task, or one twice.
        RubricFileError: it holds something else.
    """
    if not questions:
        raise BenchmarkDataError(
            "rubric_heldout has no questions: name the file of tasks, "
            "`--metadata questions=test.jsonl judge=judge.yaml`"
        )
    rows: list[dict[str, Any]] = [
        {"task_id": task.task_id, "doc_hash": task.doc_hash, "question": task.question}
        for task in read_tasks(Path(questions))
    ]
    if not rows:
        raise BenchmarkDataError(f"{questions} holds no task; give the held-out questions")
    first: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        if first.setdefault(row["task_id"], number) != number:
            raise BenchmarkDataError(
                f"{questions}: task {row['task_id']!r} is there twice, as number "
                f"{first[row['task_id']]} and {number}; drop the copies, which would count twice"
            )
    return _documents(rows)


def benchmark_documents(benchmark: str, data: str | None) -> _Documents:
    """Documents of a benchmark, in memory: nothing of them is mapped, or cached by its name."""
    loaded = load_items(benchmark, data)
    return _documents([item.document() for item in loaded.items])


def _documents(rows: list[dict[str, Any]]) -> _Documents:
    return {"test": import_module("datasets").Dataset.from_list(rows)}
