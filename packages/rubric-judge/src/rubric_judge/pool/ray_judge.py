"""A judge in a Ray actor, as its callers see it: a `Judge` like any other."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from typing import Any, cast

import anyio

from rubric_core import JudgeResult, JudgeView, Reason
from rubric_judge.config import JudgeSpec
from rubric_judge.pool.ray_actors import JudgeActor, SharedLimiter, joined, pieces_of

_LIVES = 2
"""Actors that one judgement is given to, before it is taken for what kills them."""
_CLOSE_WITHIN_S = 10.0


class _ActorDiedError(Exception):
    """The actor died before this judgement was done."""


class RemoteJudge:
    """A `Judge` in an actor: gathers what is asked at one moment into micro-batches.

    An actor that dies is replaced, and what it had not finished is given to the new one, once.
    """

    def __init__(
        self, ray: Any, spec: JudgeSpec, limiter: SharedLimiter, *, number: int, micro_batch: int
    ) -> None:
        """Start an actor.

        Args:
            ray: Ray's module.
            spec: the judge's configuration.
            limiter: of all the pool's actors.
            number: which of the pool's actors this is.
            micro_batch: most responses in one remote call.
        """
        self._ray = ray
        self._spec = spec
        self.limiter = limiter
        """Of all actors."""
        self._number = number
        self._micro_batch = micro_batch
        self._gathered: list[tuple[JudgeView, asyncio.Future[JudgeResult]]] = []
        self._batches = set[asyncio.Task[None]]()
        self._numbers = count(1)
        self.replaced = 0
        """Actors that died."""
        # Said by one actor for all of them, before the first judgement.
        self.name = self.fingerprint = ""
        self.warm_call = False
        self.actor: Any = self._new_actor()

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response, in a micro-batch with others."""
        for _ in range(_LIVES):
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            # What a loop that ended had gathered is nobody's any more.
            self._gathered = [one for one in self._gathered if one[1].get_loop() is loop]
            self._gathered.append((view, future))
            if len(self._gathered) >= self._micro_batch:
                self._send()
            elif len(self._gathered) == 1:
                # What else is to start now is gathered before this runs.
                loop.call_soon(self._send)
            try:
                return await future
            except _ActorDiedError:
                continue
        return JudgeResult.unavailable(
            Reason.JUDGE_ERROR,
            judge=self.name,
            attempts=_LIVES,
            detail=f"{_LIVES} Ray actors died with this judgement; see their logs",
        )

    async def check(self) -> None:
        """Let the actor ask whether its endpoint is there.

        Raises:
            JudgeSetupError: it is not.
        """
        try:
            await self.actor.check.remote()
        except self._ray.exceptions.RayTaskError as error:
            # Ray's error quotes the worker's stack; the cause is what was raised there.
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
        options = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
        limiter = self.limiter.of(owner)
        return self._ray.remote(**options)(JudgeActor).remote(self._spec, limiter)

    def _send(self) -> None:
        gathered, self._gathered = self._gathered, []
        if batch := [one for one in gathered if not one[1].done()]:
            task = asyncio.get_running_loop().create_task(self._carry(batch))
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)

    async def _carry(self, batch: list[tuple[JudgeView, asyncio.Future[JudgeResult]]]) -> None:
        actor = self.actor
        futures = [future for _, future in batch]
        error: Exception = _ActorDiedError()
        try:
            await self._receive(actor, [view for view, _ in batch], futures)
        except self._ray.exceptions.RayActorError:
            self._replace(actor)
        # Whatever it is, those who wait must be told; the pool makes a failed judgement of it.
        except Exception as other:  # noqa: BLE001
            error = other
        for future in futures:
            if not future.done():
                future.set_exception(error)

    async def _receive(
        self, actor: Any, views: list[JudgeView], futures: list[asyncio.Future[JudgeResult]]
    ) -> None:
        *begun, last = pieces_of(views)
        parcel = next(self._numbers)
        await asyncio.gather(
            *(actor.take.remote(parcel, place, piece) for place, piece in enumerate(begun))
        )
        batch = next(self._numbers)  # the actor sees numbers rise from call to call
        judge_batch = actor.judge_batch.options(num_returns="streaming")
        answers: Any = judge_batch.remote(batch, parcel, last)

        def abandon_if_unwanted(number: int, future: asyncio.Future[JudgeResult]) -> None:
            if future.cancelled():
                actor.abandon.remote(batch, number)

        for number, future in enumerate(futures):
            future.add_done_callback(partial(abandon_if_unwanted, number))
        pieces: list[bytes] = []
        async for answer in answers:
            piece, is_last = cast("tuple[bytes, bool]", await answer)
            pieces.append(piece)
            if not is_last:
                continue
            number, result = cast("tuple[int, JudgeResult]", joined(pieces))
            pieces.clear()
            if not futures[number].done():
                futures[number].set_result(result)

    def _replace(self, actor: object) -> None:
        if actor is not self.actor:
            return  # another of its batches has done so
        self.limiter.forget(f"{self._number}.{self.replaced}")
        self.replaced += 1
        self.actor: Any = self._new_actor()
