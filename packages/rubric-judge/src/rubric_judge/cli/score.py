"""`rubric-judge score`: one judgement for each response of a file."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import anyio
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from rubric_core import ConfigError, Judge, JudgeResult, JudgeView, read_tasks
from rubric_judge.capabilities import close
from rubric_judge.cli.app import FAILED, configure_log, progress_bar
from rubric_judge.config import read_judge_spec
from rubric_judge.load import load_judge
from rubric_judge.pool import JudgePool, PoolStatistics
from rubric_judge.responses import JudgedResponse, read_responses, write_judgements

__all__ = ["score"]


def score(
    tasks: Path,
    responses: Path,
    *,
    judge: Path,
    out: Path,
    workers: int = 32,
    verbose: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Score responses and write one judgement for each.

    Example: rubric-judge score test.jsonl answers.jsonl --judge lexical.yaml --out judged.jsonl

    Args:
        tasks: Tasks, JSON Lines in the paper's schema (or Parquet).
        responses: JSON Lines with `task_id` and `response`.
        judge: The judge's configuration, YAML.
        out: File to write: line, task id, reward and the whole result, in the order of RESPONSES.
        workers: Judge workers; each holds up to four responses.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when not a single response could be judged.
    """
    if workers < 1:
        raise ConfigError(f"--workers is {workers}: give at least 1", location="workers")
    configure_log(verbose=verbose)
    judging = load_judge(read_judge_spec(judge))
    by_id = {task.task_id: task for task in read_tasks(tasks)}
    numbered = read_responses(responses, by_id)
    views = [view for _, view in numbered]
    results, statistics = anyio.run(_judge_all, judging, views, workers)
    judged = [
        JudgedResponse(line=line, view=view, result=result)
        for (line, view), result in zip(numbered, results, strict=True)
    ]
    write_judgements(out, judged)
    _report(judged, statistics, out=out)
    return FAILED if judged and all(row.reward is None for row in judged) else 0


async def _judge_all(
    judge: Judge, views: Sequence[JudgeView], workers: int
) -> tuple[list[JudgeResult], PoolStatistics]:
    pool = JudgePool(judge, workers=workers)
    try:
        with progress_bar() as progress:
            bar = progress.add_task("judging", total=len(views))

            def advance(position: int, result: JudgeResult) -> None:
                del position, result
                progress.advance(bar)

            results = await pool.judge_all(views, on_result=advance)
    finally:
        await close(judge)
    return results, pool.statistics()


def _report(judged: Sequence[JudgedResponse], statistics: PoolStatistics, *, out: Path) -> None:
    rewards = [row.reward for row in judged if row.reward is not None]
    table = Table(show_header=False)
    table.add_row("responses", str(len(judged)))
    if rewards:
        table.add_row("mean reward", f"{sum(rewards) / len(rewards):.4f}")
    for outcome, count in statistics.by_outcome.items():
        table.add_row(outcome.value, str(count))
    for reason, count in statistics.by_reason.items():
        table.add_row(f"  {reason.value}", str(count))
    if statistics.latency is not None:
        table.add_row("seconds, median", f"{statistics.latency.p50_s:.3g}")
        table.add_row("seconds, 99 %", f"{statistics.latency.p99_s:.3g}")
    if statistics.usage.prompt_tokens:
        table.add_row("prompt tokens", str(statistics.usage.prompt_tokens))
        table.add_row("  of them cached", str(statistics.usage.cached_tokens))
        table.add_row("completion tokens", str(statistics.usage.completion_tokens))
    table.add_row("written", str(out))
    Console().print(table)
    details = Counter(row.result.detail for row in judged if row.reward is None)
    for detail, count in details.most_common(3):
        print(f"not judged ({count}): {detail}", file=sys.stderr)
