"""One document to an outcome: analyse, synthesise, enrich, check, judge."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rubric_core import JudgeResult, JudgeView, Task
from rubric_judge import JudgeTransportError
from rubric_judge.capabilities import check, close
from rubric_synth.outcome import Outcome
from rubric_synth.quality import (
    check_draft,
    check_executable_criteria,
    check_rewards,
    check_unrepeated,
)
from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.stages import Draft, StageRefusal, StagesFactory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_core import DocumentAnalysis, Judge
    from rubric_judge import ChatModel
    from rubric_synth.calls import DocumentCalls
    from rubric_synth.config import QualityConfig
    from rubric_synth.document import Document
    from rubric_synth.rejection import Stage
    from rubric_synth.stages import Stages


class Worker:
    """The steps for one document after another, any number at a time."""

    def __init__(
        self,
        stages_factory: StagesFactory,
        judge: Judge,
        quality: QualityConfig,
        *,
        model: ChatModel | None = None,
        owns_judge: bool = False,
    ) -> None:
        """Keep what all documents share.

        Args:
            stages_factory: Makes the stages for each document.
            judge: Scores the answers that a task is tried with.
            quality: What a task must be.
            model: Checked and closed with the worker.
            owns_judge: Whether the judge is too.
        """
        self._stages_factory = stages_factory
        self._judge = judge
        self._quality = quality
        self._model = model
        self._owns_judge = owns_judge

    async def check(self) -> None:
        """Ask the model and the judge whether they are there.

        Raises:
            JudgeSetupError: One does not answer; says which, where, and what to do.
        """
        if self._model is not None:
            await self._model.check()
        await check(self._judge)

    async def aclose(self) -> None:
        """Close the connections that were made for this worker."""
        if self._model is not None:
            await self._model.aclose()
        if self._owns_judge:
            await close(self._judge)

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
        try:
            stages = self._stages_factory(calls)
            analysis = await stages.analyst.analyse(document)
            stage = "synthesise"
            drafts = _drafts(await stages.synthesiser.synthesise(document, analysis))
        except Exception as error:  # noqa: BLE001 - see the docstring
            calls.raise_interruption()
            rejections.append(_rejection(document, stage, error))
        else:
            for draft in drafts:
                if isinstance(draft, StageRefusal):
                    rejections.append(_rejection(document, stage, draft))
                    continue
                found = await self._finish(document, analysis, draft, stages, calls, tasks)
                if isinstance(found, Rejection):
                    rejections.append(found)
                else:
                    tasks.append(found)
        calls.raise_interruption()  # a stage may have swallowed it
        return Outcome(
            source=document.source,
            doc_hash=document.doc_hash,
            tasks=tuple(task.to_json(reveal_grounding=True) for task in tasks),
            rejections=tuple(rejections),
            totals=calls.totals,
        )

    async def _finish(
        self,
        document: Document,
        analysis: DocumentAnalysis,
        draft: Draft,
        stages: Stages,
        calls: DocumentCalls,
        accepted: Sequence[Task],
    ) -> Task | Rejection:
        """Enrich and check one draft; the same boundary as `process`."""

        async def ask(view: JudgeView) -> JudgeResult:
            return await calls.judge(self._judge, view)

        stage: Stage = "enrich"
        try:
            draft = await stages.enricher.enrich(document, analysis, draft)
            stage = "quality"
            check_unrepeated(draft, [task.question for task in accepted])
            task = check_draft(document, analysis, draft, self._quality)
            await check_executable_criteria(draft, self._quality)
            await check_rewards(task, ask, self._quality)
        except Exception as error:  # noqa: BLE001 - see `process`
            calls.raise_interruption()
            return _rejection(document, stage, error, draft)
        return task


def _drafts(found: Sequence[Draft | StageRefusal]) -> list[Draft | StageRefusal]:
    drafts = list(found)
    if not drafts:
        raise StageRefusal(RejectionReason.NO_QUESTION)
    for draft in drafts:
        if not isinstance(draft, Draft | StageRefusal):  # pyright: ignore[reportUnnecessaryIsInstance] - third-party code
            message = f"a synthesiser returns drafts, not {type(draft).__name__}"
            raise TypeError(message)
    return drafts


def _rejection(
    document: Document, stage: Stage, error: Exception, draft: Draft | None = None
) -> Rejection:
    error = _first(error)
    if isinstance(error, StageRefusal):
        reason, detail = error.reason, error.detail
    elif isinstance(error, JudgeTransportError):
        is_judge = stage == "quality"
        reason = (
            RejectionReason.JUDGE_UNAVAILABLE if is_judge else RejectionReason.MODEL_UNAVAILABLE
        )
        detail = error.reason.value
    else:
        reason = RejectionReason.STAGE_FAILED
        frames = traceback.extract_tb(error.__traceback__)
        place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        detail = f"{type(error).__name__}{place}"
    return Rejection(
        source=document.source,
        stage=stage,
        reason=reason,
        detail=detail,
        doc_hash=document.doc_hash,
        draft=_plain(draft) if isinstance(draft, Draft) else None,
    )


def _first(error: Exception) -> Exception:
    """Return what went wrong first: stages may ask several questions at once."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def _plain(draft: Draft) -> dict[str, Any]:
    """Return a draft as JSON that any file can hold: models write lone surrogates and NaN."""
    content = draft.model_dump(mode="python")
    text = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(text, parse_constant=lambda _: None)
