"""The pool over Ray: judges in actors of their own, everything else as in `JudgePool`.

An actor is a replica whose `judge` is a remote call. Schedule, deadline, hedging, ledger and counts
are the pool's own, and stay in the process that calls it.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import Any, Self

from rubric_core import MissingExtraError
from rubric_core.errors import install_command
from rubric_judge.config import HybridConfig, JudgeConfig, JudgeSpec, LexicalConfig, PluginConfig
from rubric_judge.errors import JudgeSetupError
from rubric_judge.ledger import Ledger
from rubric_judge.pool.pool import JudgePool
from rubric_judge.pool.ray_actors import LimiterActor, SharedLimiter
from rubric_judge.pool.ray_judge import RemoteJudge
from rubric_judge.pool.schedule import Hedging
from rubric_judge.provider.model_config import LimitsConfig


class RayJudgePool(JudgePool):
    """Judges many responses in Ray actors, each with a judge and a client of its own.

    It connects to the cluster that is there (`RAY_ADDRESS`, or one on this machine), or starts one
    here. Each actor holds up to `micro_batch` responses, the responses to one task stay with one
    actor, and one limiter serves them all. An actor that dies is replaced, and what it had not
    finished is given to the new one, once.

    The judge's configuration crosses to the workers; keys do not. An actor reads them from its own
    worker's environment, so they must be set on every node before Ray starts there.
    """

    def __init__(
        self,
        spec: JudgeSpec,
        *,
        actors: int = 32,
        micro_batch: int = 4,
        hedge: Hedging | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """Start the actors; takes seconds.

        Args:
            spec: the judge's configuration.
            actors: number of actors, at least 1.
            micro_batch: responses that an actor holds at once, at least 1.
            hedge: when to ask another actor for a straggler; never when left out.
            ledger: where judgements are looked up before they are asked for, and kept.

        Raises:
            MissingExtraError: Ray is not installed.
            JudgeSetupError, ConfigError, PluginError: the judge cannot be built in a worker.
            ValueError: `actors` or `micro_batch` is below 1.
        """
        if actors < 1 or micro_batch < 1:
            msg = f"actors={actors!r} and micro_batch={micro_batch!r} must both be at least 1"
            raise ValueError(msg)
        _check_spec(spec)
        self._ray = _ray()
        self._started_ray = not self._ray.is_initialized()
        if self._started_ray:
            with warnings.catch_warnings():
                # A tip on accelerators in later releases; none is used here.
                warnings.simplefilter("ignore", FutureWarning)
                self._ray.init(
                    include_dashboard=False, log_to_driver=False, configure_logging=False
                )
        # Its counts are lost with it, and that is all: it is started again.
        self._limiting = self._ray.remote(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=100_000
        )(LimiterActor).remote(_limits(spec))
        self._limiter = SharedLimiter(self._limiting)
        self._judges = tuple(
            RemoteJudge(self._ray, spec, self._limiter, number=number, micro_batch=micro_batch)
            for number in range(actors)
        )
        try:
            self._describe()
        except BaseException:
            self._end()
            raise
        super().__init__(
            self._judges,
            workers=actors,
            micro_batch=micro_batch,
            hedge=hedge,
            ledger=ledger,
            replica_limit=micro_batch,
        )

    async def check(self) -> list[JudgeSetupError]:
        """Let one actor ask whether the endpoint is there; see `JudgePool.check`."""
        await self._judges[0].check()
        return []

    @property
    def replaced(self) -> int:
        """Actors that died and were replaced."""
        return sum(judge.replaced for judge in self._judges)

    async def aclose(self) -> None:
        """Close the judges, end the actors, and the cluster where it was started here."""
        await asyncio.gather(*(judge.aclose() for judge in self._judges))
        self._limiter.close()
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _describe(self) -> None:
        try:
            described = self._ray.get(self._judges[0].actor.describe.remote())
        except self._ray.exceptions.RayTaskError as error:
            # Ray's error quotes the worker's stack; the cause is what was raised there.
            raise error.cause from None
        for judge in self._judges:
            judge.name, judge.fingerprint, judge.warm_call = described

    def _end(self) -> None:
        for judge in self._judges:
            self._ray.kill(judge.actor)
        self._ray.kill(self._limiting)
        if self._started_ray:
            self._ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError(
            f"RayJudgePool needs Ray: {install_command('rubric-judge', 'ray')}"
        ) from None
    return ray


def _check_spec(spec: object) -> None:
    if not isinstance(spec, JudgeConfig | LexicalConfig | PluginConfig | HybridConfig):
        raise JudgeSetupError(
            f"spec={type(spec).__name__}: give the judge's configuration, such as JudgeConfig or "
            "what read_judge_spec returns; each actor makes a judge of it"
        )


def _limits(spec: JudgeSpec) -> LimitsConfig:
    if isinstance(spec, HybridConfig):
        return _limits(spec.judge)
    return spec.limits if isinstance(spec, JudgeConfig) else LimitsConfig()
