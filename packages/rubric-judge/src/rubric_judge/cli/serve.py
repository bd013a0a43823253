"""`rubric-judge serve`: a judge over HTTP."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import anyio
from cyclopts import Parameter

from rubric_core import read_tasks
from rubric_judge.capabilities import close
from rubric_judge.cli.app import FAILED, configure_log
from rubric_judge.serve.config import ServeConfig

__all__ = ["serve"]

_DEFAULTS = ServeConfig()


def serve(
    judge: Path,
    *,
    tasks: Path | None = None,
    ledger: Path | None = None,
    workers: int = 32,
    bounds: Annotated[ServeConfig, Parameter(name="*")] = _DEFAULTS,
    verbose: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Serve a judge over HTTP until SIGTERM, then answer what is waiting.

    Example: rubric-judge serve lexical.yaml --tasks test.jsonl --port 8000

    Args:
        judge: The judge's configuration, YAML.
        tasks: Tasks that requests may name by id; without it, each brings its own.
        ledger: Ledger to look judgements up in and to record them in.
        workers: Judge workers; each holds up to four responses.
        bounds: Address, token and bounds of the service.
        verbose: Log every request and every judge call to stderr.

    Returns:
        Exit status: 1 when responses were left without an answer.
    """
    from rubric_judge.config import read_judge_spec  # noqa: PLC0415
    from rubric_judge.ledger import Ledger  # noqa: PLC0415
    from rubric_judge.load import load_replicas  # noqa: PLC0415
    from rubric_judge.pool import JudgePool  # noqa: PLC0415
    from rubric_judge.serve import JudgeService  # noqa: PLC0415
    from rubric_judge.serve import serve as answer  # noqa: PLC0415

    configure_log(verbose=verbose)
    by_id = {task.task_id: task for task in read_tasks(tasks)} if tasks else {}
    with ExitStack() as stack:
        book = stack.enter_context(Ledger(ledger)) if ledger else None
        judges = load_replicas(read_judge_spec(judge))
        pool = JudgePool(judges, workers=workers, ledger=book)

        async def run() -> int:
            try:
                service = JudgeService(pool, by_id, config=bounds)
                return await answer(service, on_start=_say_where)
            finally:
                for one in judges:
                    await close(one)

        unanswered = anyio.run(run)
        unwritten = book.unwritten if book else 0
    return FAILED if unanswered or unwritten else 0


def _say_where(address: str) -> None:
    print(f"rubric-judge serves on {address}", flush=True)
