"""Judging in the background, while the next prompts are sampled."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio.from_thread import start_blocking_portal

from rubric_judge import JudgePool
from rubric_judge.capabilities import close, fingerprint, wants_warm_call
from rubric_train_openrlhf.errors import JudgeAbortError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from concurrent.futures import Future

    from anyio.from_thread import BlockingPortal

    from rubric_core import Judge, JudgeResult, JudgeView
    from rubric_judge import Ledger
    from rubric_train_openrlhf.config import JudgingConfig


@dataclass(frozen=True)
class Judged:
    """Results in the order of their views, and how long they took together."""

    results: tuple[JudgeResult, ...]
    judge_s: float


class BackgroundJudge:
    """One pool on an event loop in a thread of its own."""

    def __init__(
        self, pool: JudgePool, *, portal: BlockingPortal, deadline_s: float | None
    ) -> None:
        """Use `background_judge`, which opens and closes the portal."""
        self._pool = pool
        self._portal = portal
        self._deadline_s = deadline_s

    def submit(self, views: Sequence[JudgeView]) -> Future[Judged]:
        """Start judging and return at once."""
        return self._portal.start_task_soon(self._judge, views)

    async def _judge(self, views: Sequence[JudgeView]) -> Judged:
        started = time.perf_counter()
        results = await self._pool.judge_all(views, deadline_s=self._deadline_s)
        if len(results) != len(views):
            raise JudgeAbortError(
                f"the judge gave {len(results)} results for {len(views)} responses, so which is "
                "whose is not known; repair the judge and continue with --resume"
            )
        return Judged(tuple(results), time.perf_counter() - started)


class _Contained:
    """A judge that cannot end the thread that it is run in.

    The pool counts what is raised here instead as a failed judgement.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name = judge.name
        self.fingerprint = fingerprint(judge)
        self.warm_call = wants_warm_call(judge)

    async def judge(self, view: JudgeView) -> JudgeResult:
        try:
            return await self._judge.judge(view)
        except (SystemExit, KeyboardInterrupt) as exc:
            # Ctrl-C reaches the main thread alone: here both are something that the judge did.
            raise RuntimeError(type(exc).__name__) from exc


@contextmanager
def background_judge(
    *replicas: Judge, config: JudgingConfig, ledger: Ledger | None = None
) -> Generator[BackgroundJudge]:
    """Open a pool on a background event loop; leaving cancels what is still being judged.

    Args:
        replicas: the judge, or several replicas of it; closed at the end.
        config: how wide, and when to ask twice or give up.
        ledger: what it holds is not judged again.
    """
    with start_blocking_portal() as portal:
        pool = JudgePool(
            [_Contained(judge) for judge in replicas],
            workers=config.workers,
            micro_batch=config.micro_batch,
            hedge=config.hedge,
            ledger=ledger,
        )
        try:
            yield BackgroundJudge(pool, portal=portal, deadline_s=config.deadline_s)
        finally:
            for judge in replicas:
                portal.call(close, judge)
