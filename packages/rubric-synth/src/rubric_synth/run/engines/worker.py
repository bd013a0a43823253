"""Process one document; what an engine is given and reports; the engine of one process."""

import gc
import json
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from rubric_core import DocumentAnalysis, Judge, Task
from rubric_judge import ChatModel, JudgeTransportError, load_judge
from rubric_judge.config import is_computed
from rubric_judge.judges.capabilities import Immediate, check, close, reads_claims
from rubric_judge.models.limits import Limiter
from rubric_synth.calls import CallRecord, DocumentCalls
from rubric_synth.config import LLMConfig, QualityConfig, Stage, SynthConfig, reader_of
from rubric_synth.document import (
    Document,
    DocumentOutcome,
    Rejection,
    RejectionReason,
    rejected,
)
from rubric_synth.errors import CallsStoppedError
from rubric_synth.quality.answers import (
    check_executable_criteria,
    check_rewards,
    check_wrong_answers,
)
from rubric_synth.quality.draft import check_draft, check_structure, check_unrepeated
from rubric_synth.stages.stages import (
    Draft,
    Drafts,
    PlainSynthesiser,
    StageRefusal,
    Stages,
    StagesFactory,
)


@dataclass(frozen=True)
class Worker:
    """The steps for one document after another, any number at a time."""

    stages: Stages | StagesFactory
    """The same stages for each document, or a factory that makes them for one document."""
    judge: Judge
    """Judge of the answers that a task is tried with."""
    quality: QualityConfig
    """Requirements of a task."""
    model: ChatModel | None = None
    """Model that is checked and closed with the worker."""
    owns_judge: bool = False
    """Whether the judge is checked and closed with the worker too."""

    async def check(self) -> None:
        """Ask the model and the judge whether they are there.

        Raises:
            JudgeSetupError: One does not answer; says which, where, and what to do.
        """
        if self.model is not None:
            await self.model.check()
        await check(self.judge)

    async def aclose(self) -> None:
        """Close the connections that were made for this worker."""
        if self.model is not None:
            await self.model.aclose()
        if self.owns_judge:
            await close(self.judge)

    async def process(
        self, document: Document, calls: DocumentCalls
    ) -> DocumentOutcome:
        """Return tasks and rejections; a stage's fault is a rejection, never an exception.

        Stages may be third-party code: this is the boundary where any exception of theirs
        becomes a counted reason. With the same answers the outcome is the same.

        Raises:
            CallsStoppedError: No further call may be made; there is no outcome yet.
            SynthError: An answer could not be kept.
        """
        stage: Stage = "analyse"
        tasks: list[Task] = []
        rejections: list[Rejection] = []
        try:
            stages = (
                self.stages if isinstance(self.stages, Stages) else self.stages(calls)
            )
            if isinstance(stages.synthesiser, PlainSynthesiser):
                stage = "synthesise"
                drafts = _drafts(await stages.synthesiser.drafts_of(document))
                stage = "analyse"
                analysis = await stages.analyst.analyse(document)
            else:
                analysis = await stages.analyst.analyse(document)
                stage = "synthesise"
                returned = await stages.synthesiser.synthesise(document, analysis)
                drafts = _drafts(returned)
        except Exception as error:  # noqa: BLE001 - see the docstring
            calls.raise_interruption()
            rejections.append(_rejection(document, stage, error))
        else:
            for draft in drafts:
                if isinstance(draft, StageRefusal):
                    rejections.append(_rejection(document, "synthesise", draft))
                    continue
                stage = "quality"
                try:
                    # Enriching what lacks a part is no use.
                    check_structure(draft, self.quality)
                    stage = "enrich"
                    draft = await stages.enricher.enrich(document, analysis, draft)  # noqa: PLW2901 - the same
                    stage = "quality"
                    check_unrepeated(draft, [task.question for task in tasks])
                    task = await self._task_of(document, analysis, draft, calls)
                except Exception as error:  # noqa: BLE001 - see the docstring
                    calls.raise_interruption()
                    rejections.append(_rejection(document, stage, error, draft))
                else:
                    tasks.append(task)
        calls.raise_interruption()  # a stage may have swallowed it
        return DocumentOutcome(
            source=document.source,
            doc_hash=document.doc_hash,
            tasks=tuple(task.to_json(reveal_grounding=True) for task in tasks),
            rejections=tuple(rejections),
            totals=calls.totals,
        )

    async def _task_of(
        self,
        document: Document,
        analysis: DocumentAnalysis,
        draft: Draft,
        calls: DocumentCalls,
    ) -> Task:
        """Return the task of an enriched draft that passes every check.

        Raises:
            StageRefusal: One is not passed.
        """
        task = check_draft(document, analysis, draft, self.quality)
        await check_executable_criteria(draft, self.quality)
        ask = partial(calls.judge, self.judge)
        if isinstance(self.judge, Immediate) and reads_claims(self.judge):
            # Of another judge, each answer would be a call; one of words takes them for right.
            await check_wrong_answers(draft, task, ask)
        await check_rewards(task, ask, self.quality)
        return task


@contextmanager
def rare_garbage_collection() -> Generator[None]:
    """Run the garbage collector rarely, and hardly ever over what is there already.

    Looking through modules and schemas time and again was a tenth of a run. Few cycles are made by
    a document, and they are small.
    """
    before = gc.get_threshold()
    gc.set_threshold(20_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@asynccontextmanager
async def plain_task_group() -> AsyncGenerator[TaskGroup]:
    """Open a task group whose first failure ends all tasks and is raised as itself."""
    try:
        async with anyio.create_task_group() as group:
            yield group
    except ExceptionGroup as error:
        raise _first(error) from None


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def _drafts(returned: Drafts) -> Drafts:
    drafts = list(returned)
    if not drafts:
        raise StageRefusal(RejectionReason.NO_QUESTION)
    for draft in drafts:
        if not isinstance(draft, Draft | StageRefusal):  # pyright: ignore[reportUnnecessaryIsInstance] - third-party code
            raise TypeError(f"a synthesiser returns drafts, not {type(draft).__name__}")
    return drafts


def _rejection(
    document: Document,
    stage: Stage,
    error: Exception,
    draft: object = None,
) -> Rejection:
    error = _first(error)  # stages may ask several questions at once
    if isinstance(error, StageRefusal):
        reason = error.reason
        detail = error.detail
    elif isinstance(error, JudgeTransportError):
        reason = RejectionReason.MODEL_UNAVAILABLE
        detail = error.reason.value
        if stage == "quality":
            reason = RejectionReason.JUDGE_UNAVAILABLE
    else:
        reason = RejectionReason.STAGE_FAILED
        frames = traceback.extract_tb(error.__traceback__)
        place = (
            f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}"
            if frames
            else ""
        )
        detail = f"{type(error).__name__}{place}"
    rejection = rejected(document, stage, reason, detail)
    if not isinstance(draft, Draft):
        return rejection
    # As JSON that any file can hold: models write lone surrogates and NaN.
    text = json.dumps(draft.model_dump(), ensure_ascii=False).encode("utf-8", "replace")
    content = json.loads(text, parse_constant=lambda _: None)
    return rejection.model_copy(update={"draft": content})


class Pending(NamedTuple):
    """A document to work on."""

    document: Document
    known: tuple[CallRecord, ...]
    """Calls of the document that earlier runs have had answered."""


class Sink(Protocol):
    """Keeps what comes of the work; called on the event loop of `Engine.run`."""

    def on_call(self, doc_hash: str, record: CallRecord) -> None:
        """Record a call: an answered one before its answer is used, an unanswered one for its cost.

        Raises:
            OutputError: It could not be written; the engine stops and raises this.
        """
        ...

    def on_outcome(self, outcome: DocumentOutcome) -> None:
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
        """Whether any call may cost money."""
        is_free = is_computed(reader_of(self.config.quality.judge))
        return self.config.model is not None or not is_free or self.judge is not None

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
        config = self.config
        stages = self.stages
        model: ChatModel | None = None
        if stages is None:
            if not isinstance(config.synthesiser, LLMConfig):
                raise ValueError(
                    "the extractive synthesiser needs the stages of a collection"
                )
            from rubric_synth.stages.llm.stages import (
                llm_stages,  # only where it is asked for
            )

            model = ChatModel(config.synthesiser.model, limiter=limiter)
            stages = llm_stages(model, config.synthesiser)
        judge = self.judge
        if judge is None:
            shared = (
                model.limiter if model and _is_one_endpoint(config) else judge_limiter
            )
            judge = load_judge(config.quality.judge, limiter=shared)
        return Worker(
            stages, judge, config.quality, model=model, owns_judge=self.judge is None
        )


def _is_one_endpoint(config: SynthConfig) -> bool:
    """Whether judge and model are one endpoint, whose limits they then share."""
    judge = config.judge_model
    model = config.model
    if judge is None or model is None:
        return False
    if (judge.addresses, judge.litellm_config) != (
        model.addresses,
        model.litellm_config,
    ):
        return False
    return judge.api_base is not None or judge.model == model.model


class EngineBase:
    """Base of the engines: the settings, and a bounded number of documents in work."""

    def __init__(self, spec: WorkerSpec) -> None:
        """Keep the settings; nothing is built or started yet."""
        self._config = spec.config
        self._spec = spec
        self.calls_in_flight = 0
        """Calls under way now; where they are made elsewhere, documents in work."""

    async def _draw(
        self,
        pending: Iterable[Pending],
        sink: Sink,
        process: Callable[[Pending], Awaitable[None]],
    ) -> None:
        """Process documents, at most `max_concurrency` at a time, as long as the sink permits."""
        items = iter(pending)

        async def work(to_start: int) -> None:
            while sink.may_call():
                item = next(items, None)
                if item is None:
                    return
                # Each worker starts the next: no more of them than there are documents.
                if to_start:
                    group.start_soon(work, to_start - 1)
                    to_start = 0
                await process(item)
                # A worker without a model never waits.
                await anyio.lowlevel.checkpoint()

        async with plain_task_group() as group:
            group.start_soon(work, self._config.max_concurrency - 1)

    @contextmanager
    def _in_flight(self) -> Generator[None]:
        self.calls_in_flight += 1
        try:
            yield
        finally:
            self.calls_in_flight -= 1


class LocalEngine(EngineBase):
    """At most `max_concurrency` documents in work; the models' limiters bound the calls."""

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
        worker = self._spec.build()
        try:
            await self._draw(pending, sink, partial(self._process, worker, sink))
        finally:
            with anyio.CancelScope(shield=True):
                await worker.aclose()

    async def _process(self, worker: Worker, sink: Sink, item: Pending) -> None:
        def permit() -> AbstractContextManager[None]:
            if not sink.may_call():
                raise CallsStoppedError("the run is stopping")
            return self._in_flight()

        keep = partial(sink.on_call, item.document.doc_hash)
        calls = DocumentCalls(item.known, permit=permit, on_answer=keep)
        with suppress(CallsStoppedError):
            sink.on_outcome(await worker.process(item.document, calls))
