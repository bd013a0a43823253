"""Other rewards beside a rubric's, as one reward of TRL.

TRL sums what reward functions give for a response and counts a missing one as 0, so that a lost
judgement would push its response down. One function that sums leaves it out.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from math import fsum, isfinite, isinf, isnan
from statistics import fmean
from typing import Any, NamedTuple, TypeVar, cast

from rubric_core import ConfigError, RewardError, RewardShapeError
from rubric_judge.adapters.ties import tied_reward

Reward = Callable[..., Any]
"""A reward function as TRL takes it: `def` or `async def`, one number or None a completion."""
Rewards = list[float | None]

_T = TypeVar("_T")
_KINDS = "a list of pairs (reward function, weight)"


class Weighted(NamedTuple):
    """A reward function with its weight and name."""

    reward: Reward
    weight: float
    name: str


def weighted(beside: object, *, name: str) -> tuple[Weighted, ...]:
    """Check the user's reward functions and weights.

    Args:
        beside: should be pairs of a reward function and its weight.
        name: name of the rubric's reward, which no other may have.

    Raises:
        ConfigError: something else, or a name that stands for two rewards.
    """
    pairs: Sequence[object] = (beside,)
    if isinstance(beside, Sequence):
        pairs = cast("Sequence[object]", beside)
    functions = [_pair(pair) for pair in pairs]
    names = [name, *(function.name for function in functions)]
    twice = sorted({other for other in names if names.count(other) > 1})
    if twice:
        raise ConfigError(
            f"two rewards are called {twice[0]!r}: give the rubric's a name of its own, "
            "`rubric_reward(name=...)`",
            location="beside",
        )
    return tuple(functions)


def _pair(pair: object) -> Weighted:
    parts = cast("Sequence[object]", pair) if isinstance(pair, tuple | list) else ()
    match parts:
        case [reward, int() | float() as weight] if callable(reward) and isfinite(
            weight
        ):
            named = reward
            while isinstance(named, partial):
                named = cast("partial[object]", named).func
            name = getattr(named, "__name__", type(named).__name__)
            return Weighted(cast("Reward", reward), float(weight), name)
        case _:
            received = _shown(cast("object", pair))
            if parts:
                received = f"({', '.join(map(_shown, parts))})"
            raise ConfigError(
                f"{_KINDS} is needed, such as beside=[(other, 0.5)], not {received}",
                location="beside",
            )


def _shown(value: object) -> str:
    return (
        repr(value) if isinstance(value, int | float) else f"a {type(value).__name__}"
    )


class CombinedReward:
    """Weighted sum of the rubric's reward and others; None where a judgement is missing.

    TRL takes it for a plain function, and calls those in its main thread: the other plain functions
    run there too, as they do in TRL, while judges and coroutines are waited for.
    """

    def __init__(
        self,
        rubric: Reward,
        others: Sequence[Weighted],
        *,
        name: str,
        masking: Sequence[bool],
    ) -> None:
        """Keep the functions.

        Args:
            rubric: the rubric's reward, of weight 1.
            others: the rewards beside it.
            name: name of the sum in TRL.
            masking: for each of the others, whether its None is a missing judgement, too.
        """
        self.__name__ = name
        self._functions = (Weighted(rubric, 1.0, name), *others)
        self._masking = tuple(masking)
        self._lane = _Lane()

    def __call__(
        self,
        prompts: Sequence[object],
        completions: Sequence[object],
        *,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: object,
    ) -> Rewards:
        """Reward a batch.

        Raises:
            RewardShapeError: a function that does not give one reward for each completion.
            ConfigError, SchemaError: as the rubric's reward.
        """
        arguments = {"prompts": prompts, "completions": completions, **columns}
        if log_metric is not None:
            arguments["log_metric"] = log_metric
        rubric, *others = (
            _checked(function, rewards, count=len(completions))
            for function, rewards in zip(
                self._functions, self._called(arguments), strict=True
            )
        )
        for function, rewards in zip(self._functions[1:], others, strict=True):
            applied = [reward for reward in rewards if reward is not None]
            if applied and log_metric is not None:
                # The name that TRL itself would give it.
                log_metric(f"rewards/{function.name}/mean", fmean(applied))
        rows = zip(*others, strict=True) if others else ((),) * len(rubric)
        return [
            self._sum(judged, rest) for judged, rest in zip(rubric, rows, strict=True)
        ]

    def _called(self, arguments: Mapping[str, object]) -> list[Any]:
        """Call all functions, and return their rewards in order."""
        is_async = [_is_async(function.reward) for function in self._functions]

        async def gathered() -> list[Any]:
            coroutines = [
                function.reward(**arguments)
                for function, waits in zip(self._functions, is_async, strict=True)
                if waits
            ]
            return await asyncio.gather(*coroutines)

        results: list[Any] = []
        with self._lane.running(gathered()) as future:
            for function, waits in zip(self._functions, is_async, strict=True):
                results.append(None if waits else function.reward(**arguments))
            awaited = iter(future.result())
        for place, waits in enumerate(is_async):
            if waits:
                results[place] = next(awaited)
        return results

    def _sum(
        self, judged: float | None, others: Sequence[float | None]
    ) -> float | None:
        lost = (
            masks and reward is None
            for masks, reward in zip(self._masking, others, strict=True)
        )
        if judged is None or any(lost):
            return None
        terms = [
            function.weight * reward
            for function, reward in zip(self._functions[1:], others, strict=True)
            if reward is not None
        ]
        return tied_reward(fsum([judged, *terms]))


def _is_async(reward: Reward) -> bool:
    while isinstance(reward, partial):
        reward = cast("Reward", cast("partial[object]", reward).func)
    return inspect.iscoroutinefunction(reward) or inspect.iscoroutinefunction(
        getattr(reward, "__call__", None)  # noqa: B004  # an instance with an `async def` in it
    )


def _checked(function: Weighted, rewards: Any, *, count: int) -> Rewards:
    """Return a function's rewards, with None for NaN: TRL reads both as "does not apply"."""
    numbers = [None if reward is None else float(reward) for reward in rewards]
    if len(numbers) != count:
        raise RewardShapeError(
            f"{function.name!r} of `beside` gave {len(numbers)} rewards for {count} completions: "
            "one each is needed"
        )
    if any(reward is not None and isinf(reward) for reward in numbers):
        raise RewardError(
            f"{function.name!r} of `beside` gave an infinite reward: return None where there "
            "is none"
        )
    return [None if reward is None or isnan(reward) else reward for reward in numbers]


class _Lane:
    """One event loop in a thread of its own, which the clients of coroutines belong to."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    @contextmanager
    def running(self, coroutine: Coroutine[Any, Any, _T]) -> Generator[Future[_T]]:
        """Start a coroutine, and cancel it at the end of the `with` if it is not done."""
        # A forked process does not have its parent's thread.
        if self._loop is None or self._pid != os.getpid():
            self._loop = asyncio.new_event_loop()
            self._pid = os.getpid()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            yield future
        finally:
            future.cancel()

    def __reduce__(self) -> tuple[type[_Lane], tuple[()]]:
        """Begin anew in another process."""
        return _Lane, ()
