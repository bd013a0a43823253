"""A pool over Ray: judges in actors of their own, everything else as in `JudgePool`.

An actor is a replica whose `judge` is a remote call. Schedule, deadline, hedging, ledger and counts
are those of the pool, and stay in the process that calls it.
"""

import asyncio
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import count
from typing import Any, cast, get_args

import anyio

from rubric_core import JudgeResult, JudgeView, Reason
from rubric_core.errors import needing_extra
from rubric_judge.config import (
    CascadeConfig,
    HybridConfig,
    JudgeSpec,
    ModelJudgeConfig,
    PanelConfig,
)
from rubric_judge.errors import JudgeSetupError
from rubric_judge.models import chat, model_config
from rubric_judge.pool import ray_actors
from rubric_judge.pool.calls import without_answer
from rubric_judge.pool.ledger.store import Ledger
from rubric_judge.pool.pool import JudgePool
from rubric_judge.pool.ray_actors import Described, SharedLimiter
from rubric_judge.pool.ray_start import start_ray
from rubric_judge.pool.step import Hedging

_MOST_ACTORS = 2
"""Actors that get one judgement before the judgement itself is taken for the cause of death."""
_CLOSE_WITHIN_S = 10.0


class RemoteJudge:
    """A `Judge` that runs in an actor.

    A dead actor is replaced, and its unfinished judgements are given to the new one, once.
    """

    def __init__(
        self, ray: Any, spec: JudgeSpec, limiter: SharedLimiter, *, number: int
    ) -> None:
        """Start an actor.

        Args:
            ray: Ray's module.
            spec: the judge's configuration.
            limiter: the limiter of all the pool's actors.
            number: the actor's number in the pool.
        """
        self._ray = ray
        self._spec = spec
        self.limiter = limiter
        """The limiter of all actors."""
        self._number = number
        self._numbers = count(1)
        self.replaced = 0
        """Number of actors that died."""
        # One actor reports the next four for all of them, before the first judgement.
        self.name = ""
        self.fingerprint = ""
        self.warm_call = False
        self.reads_excerpts = False
        self.fails_apart = False
        self.actor: Any = self._new_actor()

    def take(self, described: Described) -> None:
        """Take what one actor reports for all; of a judge of groups this is one too."""
        self.name = described.name
        self.fingerprint = described.fingerprint
        self.warm_call = described.warm_call
        self.reads_excerpts = described.reads_excerpts
        if described.max_group is not None:
            self.max_group = described.max_group
            self.fails_apart = described.fails_apart
            self.judge_group = self._judge_together

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response."""
        (result,) = await self._judge_together((view,))
        return result

    async def _judge_together(self, views: Sequence[JudgeView]) -> list[JudgeResult]:
        """Judge views in one call of the actor."""
        for _ in range(_MOST_ACTORS):
            actor = self.actor
            try:
                return [*await self._ask(actor, tuple(views))]
            except self._ray.exceptions.RayActorError:
                self._replace(actor)
        detail = f"{_MOST_ACTORS} Ray actors died with this judgement; see their logs"
        lost = without_answer(
            len(views),
            Reason.JUDGE_ERROR,
            judge=self.name,
            detail=detail,
            attempts=_MOST_ACTORS,
        )
        return [*lost]

    def refuse_excerpt(self, view: JudgeView) -> str:
        """Return why no part of a trace can be judged; the judge in the actor says the rest."""
        del view
        if self.reads_excerpts:
            return ""
        return (
            f"the judge {self.name!r} judges single responses, without turns and tools"
        )

    async def check(self) -> None:
        """Let the actor check that its endpoint is available.

        Raises:
            JudgeSetupError: it is not available.
        """
        try:
            await self.actor.check.remote()
        except self._ray.exceptions.RayTaskError as error:
            # Ray's error quotes the worker's stack; the cause is the exception raised there.
            raise error.cause from None

    async def aclose(self) -> None:
        """Close the judge in the actor."""
        with anyio.move_on_after(_CLOSE_WITHIN_S):
            try:
                await self.actor.aclose.remote()
            except self._ray.exceptions.RayError:
                return  # a dead actor has closed everything

    def _new_actor(self) -> Any:
        owner = f"{self._number}.{self.replaced}"
        limiter = self.limiter.of(owner)
        actor_class = self._ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(
            ray_actors.JudgeActor
        )
        return actor_class.remote(self._spec, limiter)

    async def _ask(
        self, actor: Any, views: tuple[JudgeView, ...]
    ) -> Sequence[JudgeResult]:
        number = next(self._numbers)
        *earlier, last = ray_actors.pieces_of(views)
        try:
            taking = [
                actor.take.remote(number, place, piece)
                for place, piece in enumerate(earlier)
            ]
            await asyncio.gather(*taking)
            first, left = cast(
                "tuple[bytes, int]", await actor.judge.remote(number, last)
            )
            giving = [actor.give.remote(number, place) for place in range(left)]
            rest = await asyncio.gather(*giving)
            return ray_actors.joined([first, *rest])
        except asyncio.CancelledError:
            actor.abandon.remote(number)
            raise

    def _replace(self, actor: object) -> None:
        if actor is not self.actor:
            return  # another of its judgements has replaced it already
        self.limiter.forget(f"{self._number}.{self.replaced}")
        self.replaced += 1
        self.actor: Any = self._new_actor()


class RayJudgePool(JudgePool, chat.ClosesItself):
    """Judges many responses in Ray actors, each with a judge and a client of its own.

    It connects to a running cluster (`RAY_ADDRESS`, or one on this machine), or starts one here.
    Each actor holds up to `micro_batch` responses, the responses to one task stay with one actor,
    and one limiter serves them all. A `GroupJudge` gets the responses to a task in one call. A dead
    actor is replaced, and its unfinished judgements are given to the new one, once.

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
        """Start the actors; this takes seconds.

        Args:
            spec: the judge's configuration.
            actors: number of actors, at least 1.
            micro_batch: responses that an actor holds at once, at least 1.
            hedge: when to ask another actor for a straggler; by default never.
            ledger: where judgements are looked up before they are asked for, and stored.

        Raises:
            MissingExtraError: Ray is not installed.
            JudgeSetupError, ConfigError, PluginError: the judge cannot be built in a worker.
            ValueError: `actors` or `micro_batch` is below 1.
        """
        if actors < 1 or micro_batch < 1:
            raise ValueError(
                f"actors={actors!r} and micro_batch={micro_batch!r} must both be at least 1"
            )
        _check_spec(spec)
        self._ray = _ray()
        self._started_ray = not self._ray.is_initialized()
        if self._started_ray:
            with warnings.catch_warnings():
                # Ray warns of a change for accelerators in later releases; none is used here.
                warnings.simplefilter("ignore", FutureWarning)
                start_ray(
                    self._ray,
                    include_dashboard=False,
                    log_to_driver=False,
                    configure_logging=False,
                )
        # If the limiter's actor dies it is started again; only its counts are lost.
        self._limiting = self._ray.remote(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=100_000
        )(ray_actors.LimiterActor).remote(shared_limits(spec))
        self._limiter = SharedLimiter(self._limiting)
        self._judges = tuple(
            RemoteJudge(self._ray, spec, self._limiter, number=number)
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
        """Let one actor check that the endpoint is available; see `JudgePool.check`."""
        await self._judges[0].check()
        return []

    @property
    def replaced(self) -> int:
        """Number of actors that died and were replaced."""
        return sum(judge.replaced for judge in self._judges)

    async def aclose(self) -> None:
        """Close the judges, end the actors, and end the cluster if it was started here."""
        await asyncio.gather(*(judge.aclose() for judge in self._judges))
        self._limiter.close()
        self._end()

    def _describe(self) -> None:
        try:
            described: Described = self._ray.get(
                self._judges[0].actor.describe.remote()
            )
        except self._ray.exceptions.RayTaskError as error:
            # Ray's error quotes the worker's stack; the cause is the exception raised there.
            raise error.cause from None
        for judge in self._judges:
            judge.take(described)

    def _end(self) -> None:
        for judge in self._judges:
            self._ray.kill(judge.actor)
        self._ray.kill(self._limiting)
        if self._started_ray:
            self._ray.shutdown()


def _ray() -> Any:
    with needing_extra("rubric-judge", "ray", by="RayJudgePool"):
        return import_module("ray")


def _check_spec(spec: object) -> None:
    if not isinstance(spec, get_args(get_args(JudgeSpec)[0])):
        raise JudgeSetupError(
            f"spec={type(spec).__name__}: give the judge's configuration, such as JudgeConfig "
            "or what read_judge_spec returns; each actor makes a judge of it"
        )


def shared_limits(spec: JudgeSpec) -> model_config.LimitsConfig:
    """Return the limits that all actors of a pool keep together.

    Args:
        spec: the judge's configuration. Of several judges the tightest of each limit is taken, as
            one limiter serves all their endpoints; a judge that asks no model has none.
    """
    match spec:
        case ModelJudgeConfig():
            return spec.limits
        case HybridConfig():
            return shared_limits(spec.judge)
        case CascadeConfig() | PanelConfig():
            limits = [shared_limits(judge) for judge in spec.judges]
            return model_config.LimitsConfig(
                max_in_flight=_lowest(config.max_in_flight for config in limits),
                rpm=_lowest(config.rpm for config in limits),
                tpm=_lowest(config.tpm for config in limits),
                adaptive=any(config.adaptive for config in limits),
            )
        case _:
            return model_config.LimitsConfig()


def _lowest(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
