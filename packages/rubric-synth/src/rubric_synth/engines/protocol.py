"""What an engine gets and tells, and the engine of one process."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import anyio
import anyio.lowlevel

from rubric_core import Judge
from rubric_judge import ChatModel, LexicalConfig, load_judge
from rubric_judge.provider.limits import Limiter
from rubric_synth.calls import CallRecord, DocumentCalls
from rubric_synth.config import LLMConfig, SynthConfig, reader_of
from rubric_synth.document import Document, Outcome
from rubric_synth.engines.worker import Worker, plain_task_group
from rubric_synth.errors import CallsStoppedError
from rubric_synth.stages import Stages, StagesFactory


class Pending(NamedTuple):
    """A document to work on."""

    document: Document
    known: tuple[CallRecord, ...]
    """Its calls that earlier runs have had answered."""


class Sink(Protocol):
    """Keeps what comes of the work; called on the event loop of `Engine.run`."""

    def on_call(self, doc_hash: str, record: CallRecord) -> None:
        """Keep a call: an answered one before its answer is used, or what one without cost.

        Raises:
            OutputError: It could not be written; the engine stops and raises this.
        """
        ...

    def on_outcome(self, outcome: Outcome) -> None:
        """Keep all that came of one document.

        Raises:
            OutputError: It could not be written; the engine stops and raises this.
        """
        ...

    def may_call(self) -> bool:
        """Whether one more call may be made; once False, no further document is drawn.

        An engine asks before each call, or, where calls are made elsewhere, before each document.
        """
        ...


@dataclass(frozen=True)
class WorkerSpec:
    """Configuration, and what a caller brings of its own; can be pickled if those can."""

    config: SynthConfig
    stages: Stages | StagesFactory | None = None
    """None for those of a language model, which the configuration describes."""
    judge: Judge | None = None
    """None for the one that the configuration describes."""

    @property
    def may_cost(self) -> bool:
        """Whether anything but a program is asked."""
        is_lexical = isinstance(reader_of(self.config.quality.judge), LexicalConfig)
        return self.config.model is not None or not is_lexical or self.judge is not None

    def build(
        self, *, limiter: Limiter | None = None, judge_limiter: Limiter | None = None
    ) -> Worker:
        """Make a worker; close it with `Worker.aclose`.

        Args:
            limiter: For the attempts of the model; one of its own `limits` when left out.
            judge_limiter: For those of the judge, unless both are one endpoint.

        Raises:
            JudgeSetupError: A key is named and not there.
            ConfigError: A `litellm_config` or a plugin cannot be used.
        """
        config, stages = self.config, self.stages
        model: ChatModel | None = None
        if stages is None:
            if not isinstance(config.synthesiser, LLMConfig):
                raise ValueError("the extractive synthesiser needs the stages of a collection")
            from rubric_synth.llm.stages import llm_stages  # only where it is asked for

            model = ChatModel(config.synthesiser.model, limiter=limiter)
            stages = llm_stages(model, config.synthesiser)
        elif isinstance(stages, Stages):
            stages = OwnStages(stages)
        judge = self.judge
        if judge is None:
            shared = model.limiter if model and _is_one_endpoint(config) else judge_limiter
            judge = load_judge(config.quality.judge, limiter=shared)
        return Worker(stages, judge, config.quality, model=model, owns_judge=self.judge is None)


@dataclass(frozen=True)
class OwnStages:
    """A factory for stages that know nothing of `DocumentCalls`: the same for each document."""

    stages: Stages

    def __call__(self, calls: DocumentCalls) -> Stages:  # noqa: ARG002 - see `StagesFactory`
        """Return them."""
        return self.stages


def _is_one_endpoint(config: SynthConfig) -> bool:
    """Whether judge and model are one endpoint, whose limits they then share."""
    judge, model = config.judge_model, config.model
    if judge is None or model is None:
        return False
    if (judge.addresses, judge.litellm_config) != (model.addresses, model.litellm_config):
        return False
    return judge.api_base is not None or judge.model == model.model


class LocalEngine:
    """At most `max_concurrency` documents in work; the models' limiters bound the calls."""

    def __init__(self, spec: WorkerSpec) -> None:
        """Keep the settings; nothing is built yet."""
        self._limit = spec.config.max_concurrency
        self._spec = spec
        self.calls_in_flight = 0
        """Calls under way now."""

    async def run(self, pending: Iterable[Pending], sink: Sink) -> None:
        """Work on documents until there is none left, or until the sink permits no further call.

        A document that is cut off by that is not reported as an outcome. A cancellation ends at
        once.

        Args:
            pending: Drawn lazily, only as there is room.
            sink: Told of every answered call and of every finished document.

        Raises:
            OutputError: The sink could not keep something.
        """
        items = iter(pending)
        started = 1

        async def work() -> None:
            nonlocal started
            while sink.may_call() and (item := next(items, None)) is not None:
                if started < self._limit:  # no more of them than there are documents
                    started += 1
                    group.start_soon(work)
                await self._process(worker, item, sink)
                await anyio.lowlevel.checkpoint()  # a worker without a model never waits

        worker = self._spec.build()
        try:
            async with plain_task_group() as group:
                group.start_soon(work)
        finally:
            with anyio.CancelScope(shield=True):
                await worker.aclose()

    async def _process(self, worker: Worker, item: Pending, sink: Sink) -> None:
        def permit() -> AbstractContextManager[None]:
            if not sink.may_call():
                raise CallsStoppedError("the run is stopping")
            return self._in_flight()

        keep = partial(sink.on_call, item.document.doc_hash)
        calls = DocumentCalls(item.known, permit=permit, on_answer=keep)
        with suppress(CallsStoppedError):
            sink.on_outcome(await worker.process(item.document, calls))

    @contextmanager
    def _in_flight(self) -> Generator[None]:
        self.calls_in_flight += 1
        try:
            yield
        finally:
            self.calls_in_flight -= 1
