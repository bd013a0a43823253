"""One document to an outcome: analyse, synthesise, enrich, check, judge."""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import anyio
from anyio.abc import TaskGroup

from rubric_core import Judge, JudgeResult, JudgeView, Task
from rubric_judge import ChatModel, JudgeTransportError
from rubric_judge.capabilities import check, close
from rubric_synth.calls import DocumentCalls
from rubric_synth.config import QualityConfig
from rubric_synth.document import Document, Outcome, rejected
from rubric_synth.quality.draft import check_draft, check_unrepeated
from rubric_synth.quality.executable import check_executable_criteria
from rubric_synth.quality.rewards import check_rewards
from rubric_synth.rejection import Rejection, RejectionReason, Stage
from rubric_synth.stages import Draft, StageRefusal, StagesFactory


@dataclass(frozen=True)
class Worker:
    """The steps for one document after another, any number at a time."""

    stages_factory: StagesFactory
    """Makes the stages for each document."""
    judge: Judge
    """Scores the answers that a task is tried with."""
    quality: QualityConfig
    """What a task must be."""
    model: ChatModel | None = None
    """Checked and closed with the worker."""
    owns_judge: bool = False
    """Whether the judge is too."""

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

    async def process(self, document: Document, calls: DocumentCalls) -> Outcome:
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

        async def ask(view: JudgeView) -> JudgeResult:
            return await calls.judge(self.judge, view)

        try:
            stages = self.stages_factory(calls)
            analysis = await stages.analyst.analyse(document)
            stage = "synthesise"
            drafts = _drafts(await stages.synthesiser.synthesise(document, analysis))
        except Exception as error:  # noqa: BLE001 - see the docstring
            calls.raise_interruption()
            rejections.append(_rejection(document, stage, error))
        else:
            for draft in drafts:
                if isinstance(draft, StageRefusal):
                    rejections.append(_rejection(document, "synthesise", draft))
                    continue
                stage = "enrich"
                try:
                    draft = await stages.enricher.enrich(document, analysis, draft)  # noqa: PLW2901 - the same
                    stage = "quality"
                    check_unrepeated(draft, [task.question for task in tasks])
                    task = check_draft(document, analysis, draft, self.quality)
                    await check_executable_criteria(draft, self.quality)
                    await check_rewards(task, ask, self.quality)
                except Exception as error:  # noqa: BLE001 - see the docstring
                    calls.raise_interruption()
                    rejections.append(_rejection(document, stage, error, draft))
                else:
                    tasks.append(task)
        calls.raise_interruption()  # a stage may have swallowed it
        return Outcome(
            source=document.source,
            doc_hash=document.doc_hash,
            tasks=tuple(task.to_json(reveal_grounding=True) for task in tasks),
            rejections=tuple(rejections),
            totals=calls.totals,
        )


@asynccontextmanager
async def plain_task_group() -> AsyncGenerator[TaskGroup]:
    """Open a task group whose first failure ends all tasks and is raised as itself."""
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as group:
            yield group
    except ExceptionGroup as error:
        failure = _first(error)
    if failure is not None:
        raise failure


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def _drafts(found: Sequence[Draft | StageRefusal]) -> list[Draft | StageRefusal]:
    drafts = list(found)
    if not drafts:
        raise StageRefusal(RejectionReason.NO_QUESTION)
    for draft in drafts:
        if not isinstance(draft, Draft | StageRefusal):  # pyright: ignore[reportUnnecessaryIsInstance] - third-party code
            raise TypeError(f"a synthesiser returns drafts, not {type(draft).__name__}")
    return drafts


def _rejection(
    document: Document, stage: Stage, error: Exception, draft: object = None
) -> Rejection:
    error = _first(error)  # stages may ask several questions at once
    if isinstance(error, StageRefusal):
        reason, detail = error.reason, error.detail
    elif isinstance(error, JudgeTransportError):
        reason, detail = RejectionReason.MODEL_UNAVAILABLE, error.reason.value
        if stage == "quality":
            reason = RejectionReason.JUDGE_UNAVAILABLE
    else:
        reason = RejectionReason.STAGE_FAILED
        frames = traceback.extract_tb(error.__traceback__)
        place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        detail = f"{type(error).__name__}{place}"
    rejection = rejected(document, stage, reason, detail)
    if not isinstance(draft, Draft):
        return rejection
    # As JSON that any file can hold: models write lone surrogates and NaN.
    text = json.dumps(draft.model_dump(), ensure_ascii=False).encode("utf-8", "replace")
    content = json.loads(text, parse_constant=lambda _: None)
    return rejection.model_copy(update={"draft": content})
