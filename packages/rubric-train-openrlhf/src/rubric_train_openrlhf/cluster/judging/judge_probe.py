"""Whether the judge answers, asked before what takes minutes to start."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio
import structlog

from rubric_judge import JudgePool, JudgeSetupError, load_replicas

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rubric_judge import JudgeSpec
    from rubric_train_openrlhf.config import TrainConfig

_TRIES = 4
_AGAIN_S = 2.0

_log = structlog.get_logger()


async def until_there(check: Callable[[], Awaitable[object]]) -> None:
    """Ask the judge a question of one line, and again where it fails, as it may now and then.

    Args:
        check: of the judge's pool.

    Raises:
        JudgeSetupError: it does not answer.
    """
    for left in reversed(range(_TRIES)):
        try:
            await check()
        except JudgeSetupError:
            if not left:
                raise
            await asyncio.sleep(_AGAIN_S)
        else:
            return


def probe_judge(config: TrainConfig) -> None:
    """Ask the judge of a run whether it answers and takes the key, within seconds.

    The processes of a cluster that runs already have an environment and a network of their own:
    there the judge's desk alone asks, as it does on any cluster.

    Raises:
        JudgeSetupError: no replica of the judge answers; says why, and what to do.
        ConfigError, PluginError: the judge cannot be built.
    """
    if config.cluster.ray.address is None and config.cluster.ray.dashboard is None:
        anyio.run(_probe, config.judge.spec)


async def _probe(spec: JudgeSpec) -> None:
    pool = JudgePool(load_replicas(spec))
    try:
        await until_there(pool.check)
    finally:
        await pool.aclose()
    _log.info("train.judge.there", judge=spec.type)
