"""`rubric-eval tasks-path` and `validate`: what lm-eval is given, and whether it can be built."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from rubric_eval.cli.app import working
from rubric_judge.console.command import FAILED


def tasks_path() -> int:
    """Print the folder of our tasks, for lm-eval's own `--include_path`.

    Example: lm-eval run --include_path "$(rubric-eval tasks-path)" --tasks rubric_gsm8k …

    Returns:
        Exit status.
    """
    from rubric_eval.lm_tasks import TASKS_PATH  # noqa: PLC0415

    print(TASKS_PATH)
    return 0


def validate(
    *, data: str | None = None, tasks: Path | None = None, judge: Path | None = None
) -> int:
    """Build every task of both suites and rubric_heldout, with data and prompts; say what lacks.

    Example: rubric-eval validate --data small

    Args:
        data: Folder with local copies of the benchmarks (gsm8k_test.jsonl, math_test.jsonl or
            math500_test.jsonl, gpqa_main.csv, gpqa_diamond.csv), or `small` for the set that comes
            with this package. Left out, the Hugging Face Hub is asked.
        tasks: Held-out questions for rubric_heldout. Left out, one question stands for any.
        judge: YAML file of its judge, which is asked whether it is there. Left out, the lexical
            judge is taken.

    Returns:
        Exit status: 1 where a task cannot be built.
    """
    from rubric_eval.transfer.validation import validate as build_all  # noqa: PLC0415

    with working() as progress, progress.phase("building the tasks"):
        rows = build_all(data=data, tasks=tasks, judge=judge)
    table = Table("task", "items", "source, or what is missing", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row.task, "-" if row.items is None else str(row.items), row.source)
    Console(markup=False, highlight=False).print(table)
    return FAILED if any(row.items is None for row in rows) else 0
