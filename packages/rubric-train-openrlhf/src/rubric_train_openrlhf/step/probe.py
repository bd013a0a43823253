"""Check that the judge of a run can be made and answers, before anything is trained."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, suppress

import anyio
import structlog
from anyio.from_thread import start_blocking_portal

from rubric_core import RubricError
from rubric_judge import JudgePool, JudgeSetupError, JudgeSpec, load_replicas
from rubric_judge.config import is_program
from rubric_train_openrlhf.config.train import TrainConfig

_TRIES = 4
_AGAIN_S = 2.0

_log = structlog.get_logger()


async def wait_for_judge(check: Callable[[], Awaitable[object]]) -> None:
    """Ask the judge a question of one line, and retry if it fails, as it may occasionally.

    Args:
        check: check of the judge's pool.

    Raises:
        JudgeSetupError: the judge does not answer.
    """
    for _ in range(_TRIES - 1):
        with suppress(JudgeSetupError):
            await check()
            return
        await anyio.sleep(_AGAIN_S)
    await check()


def probe_judge(config: TrainConfig) -> None:
    """Check within seconds that the judge of a run answers and accepts the key.

    The processes of a running cluster have an environment and a network of their own: there only
    the judge coordinator asks, as it does on any cluster.

    Raises:
        JudgeSetupError: no replica of the judge answers; the error says why, and what to do.
        ConfigError, PluginError: the judge cannot be built.
    """
    _probe(config, config.judge.spec)


def probe_audit_judge(config: TrainConfig) -> None:
    """Check the same of the audit judge, if there is one that is not a program.

    Raises:
        JudgeSetupError: it does not answer.
        ConfigError, PluginError: it cannot be built.
    """
    if config.audit is not None and not is_program(config.audit.spec):
        try:
            _probe(config, config.audit.spec)
        except JudgeSetupError as error:
            raise JudgeSetupError(f"the audit judge (audit.spec): {error}") from error


def _probe(config: TrainConfig, spec: JudgeSpec) -> None:
    async def probe() -> None:
        async with aclosing(JudgePool(load_replicas(spec))) as pool:
            await wait_for_judge(pool.check)
        _log.info("train.judge.there", judge=spec.type)

    if config.backend == "local" or config.cluster.ray.is_own:
        # In a thread, as the caller may have a loop, such as a notebook's.
        with start_blocking_portal() as portal:
            portal.call(probe)


def judge_lines(config: TrainConfig) -> Iterator[str]:
    """Say for a plan why the judge cannot be made here, if so; it is not asked anything."""
    try:
        load_replicas(config.judge.spec)
    except RubricError as error:
        yield f"judge: cannot be made here, and a run does not start without it: {error}"
    if config.audit is None:
        return
    try:
        load_replicas(config.audit.spec)
    except RubricError as error:
        yield f"audit: its judge cannot be made here, and a run does not start without: {error}"
