"""The actors of Ray: each is one worker with its own clients and many documents at once.

Nothing here loads Ray.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from typing import NamedTuple

from rubric_judge.models.limits import Limiter, LimiterStatistics
from rubric_synth.calls import CallRecord, DocumentCalls
from rubric_synth.document import Document, DocumentOutcome
from rubric_synth.errors import CallsStoppedError
from rubric_synth.run.engines.worker import Worker, WorkerSpec

_Permit = Callable[[], AbstractContextManager[None]]

_SILENCE_S = 3.0
"""Silence of the driver after which it may be dead, and answers may reach nobody."""

_run: ContextVar[str] = ContextVar("run", default="")


def current_run() -> str:
    """Return the id of the run of a document that this task belongs to: whose calls these are."""
    return _run.get()


class News(NamedTuple):
    """Results for a document since the last news."""

    records: tuple[CallRecord, ...]
    """Calls answered."""
    is_over: bool = False
    """Whether nothing more comes."""
    outcome: DocumentOutcome | None = None
    """The outcome; None while the work goes on, and where no more calls may be made."""


class WorkerActor:
    """Works on documents; keys come from the environment of its process.

    The driver asks for news until a document is over, and has every answer in its journal soon
    after it came. A generator would do the same, but not over a `ray://` address.

    It also speaks every second, and while it does not no attempt of a call is sent: a driver that
    was stopped for a while goes on with the same actors, and Ray ends those of a dead one.
    """

    def __init__(self) -> None:
        """Wait for `prepare`; what a constructor raises would be wrapped by Ray."""
        self._runs: dict[str, _Run] = {}
        self._may_call = True
        self._driver = _Driver()
        self._worker: Worker | None = None

    async def prepare(
        self, spec: WorkerSpec, limiters: tuple[Limiter, Limiter]
    ) -> None:
        """Build the worker, before the first document.

        Args:
            spec: what it is made of.
            limiters: for the attempts of the model and for those of the judge.

        Raises:
            JudgeSetupError, ConfigError, PluginError: it cannot be built here.
        """
        self._driver.spoke()
        model_limiter, judge_limiter = (
            _Attended(limiter, self._driver) for limiter in limiters
        )
        self._worker = spec.build(limiter=model_limiter, judge_limiter=judge_limiter)

    async def begin(
        self,
        run: str,
        document: Document,
        known: tuple[CallRecord, ...],
    ) -> News | None:
        """Start work on a document and return its first news.

        Args:
            run: id of this run; no other has the same.
            document: the document.
            known: what was answered about it before.

        Returns:
            None where there is no worker yet: Ray has started this actor again, and the driver has
            not heard of it.
        """
        if self._worker is None:
            return None
        _run.set(run)  # the task inherits it
        self._runs[run] = _Run(
            self._worker,
            document,
            known,
            self._permit,
        )
        return await self.more(run)

    async def more(self, run: str) -> News | None:
        """Wait for news of a document; None where the run is not known, as of `begin`."""
        work = self._runs.get(run)
        if work is None:
            return None
        news = await work.news()
        if news.is_over:
            del self._runs[run]
        return news

    async def drop(self, run: str) -> None:
        """Leave a document that another actor works on."""
        work = self._runs.pop(run, None)
        if work is not None:
            work.task.cancel()

    async def hear(self, *, may_call: bool) -> None:
        """Know that the driver lives.

        Args:
            may_call: whether new calls may be made; if not, documents that need one are over,
                without an outcome.
        """
        self._driver.spoke()
        self._may_call = may_call

    async def aclose(self) -> None:
        """Close the worker's connections."""
        if self._worker is not None:
            await self._worker.aclose()

    def _permit(self) -> AbstractContextManager[None]:
        if not self._may_call:
            raise CallsStoppedError("the run is stopping")
        return nullcontext()


class _Run:
    """Work on one document, and what the driver has not been told of it."""

    def __init__(
        self,
        worker: Worker,
        document: Document,
        known: Iterable[CallRecord],
        permit: _Permit,
    ) -> None:
        self._records: list[CallRecord] = []
        self._changed = asyncio.Event()

        def tell(record: CallRecord) -> None:
            self._records.append(record)
            self._changed.set()

        calls = DocumentCalls(known, permit=permit, on_answer=tell)
        self.task = asyncio.create_task(worker.process(document, calls))
        self.task.add_done_callback(lambda _: self._changed.set())

    async def news(self) -> News:
        await self._changed.wait()
        self._changed.clear()
        records = tuple(self._records)
        self._records = []
        if not self.task.done():
            return News(records)
        try:
            return News(
                records,
                is_over=True,
                outcome=self.task.result(),
            )
        except CallsStoppedError:
            return News(records, is_over=True)


class _Driver:
    """The process that is told of answers, and when it last spoke."""

    def __init__(self) -> None:
        self._spoke = asyncio.Event()
        self.spoke()

    def spoke(self) -> None:
        self._spoke_s = time.monotonic()
        self._spoke.set()

    async def is_there(self) -> None:
        """Wait while it is silent."""
        while time.monotonic() - self._spoke_s > _SILENCE_S:
            self._spoke.clear()
            await self._spoke.wait()


class _Attended:
    """A limiter that lets attempts through only while there is somebody to hear the answer."""

    def __init__(self, limiter: Limiter, driver: _Driver) -> None:
        self._limiter = limiter
        self._driver = driver

    @asynccontextmanager
    async def attempt(self, *, tokens: int) -> AsyncGenerator[None]:
        async with self._limiter.attempt(tokens=tokens):
            await self._driver.is_there()  # last of all: turns come late
            yield

    def rate_limited(self, retry_after_s: float | None) -> None:
        self._limiter.rate_limited(retry_after_s)

    def succeeded(self, *, tokens: int | None) -> None:
        self._limiter.succeeded(tokens=tokens)

    def statistics(self) -> LimiterStatistics:
        return self._limiter.statistics()
