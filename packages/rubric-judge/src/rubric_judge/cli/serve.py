"""`rubric-judge serve`: a judge over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import Parameter

from rubric_core import Task
from rubric_judge.cli import judging
from rubric_judge.cli.app import tasks_by_id
from rubric_judge.serve.config import ServeConfig
from rubric_judge.ui.console.command import FAILED, Flag, Positive, configure_log

if TYPE_CHECKING:
    from rubric_judge.pool.pool import JudgePool


_DEFAULTS = ServeConfig()


def serve(
    *,
    judge: Path,
    tasks: Path | None = None,
    ledger: Path | None = None,
    workers: Positive = 32,
    bounds: Annotated[ServeConfig, Parameter(name="*")] = _DEFAULTS,
    verbose: Flag = False,
) -> int:
    """Serve a judge over HTTP until SIGTERM, then answer what is waiting.

    Asks the judge one small question before it listens.

    Example: rubric-judge serve --judge claims.yaml --tasks test.jsonl --port 8000

    Args:
        judge: The judge's configuration, YAML.
        tasks: Tasks that requests may name by id; without it, each brings its own.
        ledger: Ledger to look judgements up in and to record them in.
        workers: Judge workers; each holds up to four responses.
        bounds: Address, token and bounds of the service.
        verbose: Log every request and every judge call to stderr.

    Returns:
        Exit status: 1 when responses were left without an answer, or the ledger could not be
        written.
    """
    configure_log(verbose=verbose)
    by_id = tasks_by_id(tasks) if tasks else {}
    asked = judging.read_judge(judge, workers=workers)
    with judging.opened(ledger) as books:
        unanswered = anyio.run(_run, asked.pool(books), by_id, bounds)
    return FAILED if judging.say_unwritten(books) or unanswered else 0


async def _run(pool: JudgePool, tasks: Mapping[str, Task], bounds: ServeConfig) -> int:
    from rubric_judge.serve import JudgeService
    from rubric_judge.serve import serve as answer

    try:
        service = JudgeService(pool, tasks, config=bounds)
        await judging.check_replicas(pool)
        return await answer(
            service,
            on_start=lambda url: print(f"rubric-judge serves on {url}", flush=True),
        )
    finally:
        await pool.aclose()
