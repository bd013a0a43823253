"""The fake endpoint in a process of its own, so that a client's CPU can be measured apart."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Literal, Self, TypedDict, Unpack, cast

from rubric_judge.testing.calls import Award, CallRecord, FakeCall, Keep
from rubric_judge.testing.endpoint import FakeEndpoint
from rubric_judge.testing.faults import Fault, Faults, Latency
from rubric_judge.testing.replies import ServedModel

_Question = Literal["calls", "records", "counts", "cpu_s"]
_STOP_WITHIN_S = 10.0


class _Options(TypedDict, total=False):
    """Arguments of a `FakeEndpoint`."""

    faults: Faults
    latency: Latency | float
    retry_after_s: float
    seed: int
    served: ServedModel | None
    port: int


class FakeEndpointProcess:
    """`FakeEndpoint` with the same arguments and the same attributes, in another process.

    `award`, `latency` and a served `answer` must be values, or functions of a module that can be
    imported there. The process ends with the `with` block, and by itself when its parent is gone,
    even by kill -9.
    """

    def __init__(
        self,
        award: Award | float = 1.0,
        *,
        keep: Keep = "records",
        **options: Unpack[_Options],
    ) -> None:
        """Set the behaviour; see `FakeEndpoint`."""
        self.url = ""
        """Base address, set while the server runs."""
        self._make = partial(FakeEndpoint, award, keep=keep, **options)
        # A fork would copy this process's threads half-way through whatever they do.
        self._context = multiprocessing.get_context("spawn")
        self._process: BaseProcess | None = None
        self._pipe: Connection[_Question, Any] | None = None

    def __enter__(self) -> Self:
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(
            target=_serve, args=(theirs, self._make), name="fake-endpoint", daemon=True
        )
        self._process.start()
        theirs.close()
        try:
            self.url = cast("str", self._pipe.recv())
        except EOFError:
            raise RuntimeError(
                "the endpoint's process ended before it served; its own error is on stderr"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._pipe is None or self._process is None:
            return
        self._pipe.close()  # it serves until nobody asks any more
        self._process.join(_STOP_WITHIN_S)
        self._process.kill()
        self._process.join()
        self._process.close()

    @property
    def calls(self) -> list[FakeCall]:
        """Requests in the order of arrival, with `keep="calls"`."""
        return self._ask("calls")

    @property
    def records(self) -> list[CallRecord]:
        """Record of each call, in the order of the answers."""
        return self._ask("records")

    @property
    def counts(self) -> Counter[Fault | None]:
        """Calls by fault."""
        return self._ask("counts")

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the process, its start included."""
        return self._ask("cpu_s")

    def _ask(self, question: _Question) -> Any:
        if self._pipe is None:
            raise RuntimeError(
                f"`{question}` is known while the endpoint runs: use `with`"
            )
        self._pipe.send(question)
        return self._pipe.recv()


def _serve(pipe: Connection[Any, _Question], make: Callable[[], FakeEndpoint]) -> None:
    with make() as endpoint:
        pipe.send(endpoint.url)
        with suppress(EOFError):  # nobody asks any more
            while True:
                asked = pipe.recv()
                pipe.send(
                    time.process_time()
                    if asked == "cpu_s"
                    else getattr(endpoint, asked)
                )
