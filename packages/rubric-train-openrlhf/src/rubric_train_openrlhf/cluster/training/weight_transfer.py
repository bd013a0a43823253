"""Weights on their way from the policy to the engines, any of which may die over them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import ray
import structlog
from ray.exceptions import RayActorError, RayError

from rubric_train_openrlhf.cluster import cpu, failure
from rubric_train_openrlhf.errors import ClusterError

_SETTLE_S = cpu.JOIN_TIMEOUT.total_seconds() + 30
"""For engines to give up a transfer that another one's death has ended."""

_log = structlog.get_logger()


class WeightTransfer:
    """One transfer, as OpenRLHF's loop over the parameters sees it.

    The loop is one of all ranks together, so it goes on to its end when an engine dies: nothing is
    sent any more from then on, and `ends_well` says so.
    """

    def __init__(self, engines: Sequence[Any]) -> None:
        """Take the engines, Ray's handles."""
        self.engines = [
            _EngineProxy(self, engine, number) for number, engine in enumerate(engines)
        ]
        self.group: Any = None
        """Group of the policy's rank 0 and the engines, called as vLLM's communicator; None once it
        is broken, on other ranks, and where engines read the GPU's memory."""
        self.calls: dict[Any, int] = {}
        """The engine of each call."""
        self._error: Exception | None = None
        self._lost: set[int] = set()

    @property
    def is_broken(self) -> bool:
        """Whether nothing is sent any more."""
        return self._error is not None

    def attempt(self, meet: Callable[[], None]) -> None:
        """Open a group anew, with engines that were started again among its members."""
        try:
            meet()
        # A store or a socket may raise anything: `ends_well` tells whether an engine died of it.
        except Exception as error:  # noqa: BLE001
            self._break(error)

    def broadcast(self, tensor: Any, src: int, stream: Any = None) -> None:
        """Stand in for the group."""
        if self.is_broken:
            return
        try:
            self.group.broadcast(tensor, src=src, stream=stream)
        except RuntimeError as error:  # of gloo, whose other end is gone
            self._break(error)

    def __getattr__(self, name: str) -> Any:
        """Stand in for Ray, but for `get`."""
        return getattr(ray, name)

    def get(self, refs: Sequence[Any]) -> None:
        """Stand in for `ray.get`: wait for calls of engines, also of those that are dead."""
        waiting = [ref for ref in refs if ref is not None]
        while waiting:
            within_s = _SETTLE_S if self.is_broken else None
            done, waiting = ray.wait(waiting, num_returns=1, timeout=within_s)
            if not done:
                return
            self._take(done[0])

    def ends_well(self) -> bool:
        """Tell whether every engine has all weights, after the loop.

        Returns:
            False where an engine died over them; every other has let go of the transfer.

        Raises:
            Exception: what broke the transfer, where that was no engine's death.
        """
        if self._error is None:
            return True
        self.get(list(self.calls))
        if not self._lost:
            raise self._error
        _log.warning("train.weights.interrupted", engines=sorted(self._lost))
        return False

    def _take(self, ref: Any) -> None:
        number = self.calls.pop(ref, None)
        try:
            ray.get(ref)
        except RayActorError as error:
            if number is not None:
                self._lost.add(number)
            self._break(error)
        except RayError as error:
            # Of many that complain, one has a reason and the others miss its part.
            _log.warning(
                "train.weights.refused", engine=number, error=failure.last_line(error)
            )
            self._break(error)

    def _break(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        group = self.group
        self.group = None
        if isinstance(group, cpu.GlooGroup):
            # Engines that wait for their part learn of it by the end of the connection.
            group.close()
        elif group is not None:
            engines = (
                f"engine {min(self._lost)} died" if self._lost else "a call failed"
            )
            raise ClusterError(
                f"{engines} while the policy sent its weights, and NCCL waits on the GPUs for "
                "what will not come; continue with --resume"
            ) from error


@dataclass(frozen=True)
class _EngineProxy:
    """An engine's handle, which is called no more once the transfer is broken."""

    transfer: WeightTransfer
    engine: Any
    number: int

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(remote=partial(self._call, name))

    def _call(self, name: str, *words: Any, **named: Any) -> Any:
        if self.transfer.is_broken:
            return None
        ref = getattr(self.engine, name).remote(*words, **named)
        self.transfer.calls[ref] = self.number
        return ref
