"""A held-out evaluation from the first check to the table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rubric_core.locks import folder_lock
from rubric_eval.heldout.table import HeldoutTable, heldout_table
from rubric_eval.heldout.work import AskedModel, HeldoutProgress, KeptAnswers, Work, kept_answers
from rubric_eval.records import EvalFolder, EvalRun, ModelEntry
from rubric_eval.records.files import read_run, write_finished_run, write_json, write_rows
from rubric_eval.records.joining import closing, joined, under_way
from rubric_eval.records.run import now
from rubric_eval.scores.judged import has_scores
from rubric_judge import JudgePool, Ledger, LedgerError
from rubric_judge.capabilities import close

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rubric_eval.heldout.plan import HeldoutPlan
    from rubric_eval.heldout.work import AnswerSource
    from rubric_eval.responders import OpenModel
    from rubric_eval.scores import NamedJudge


async def run_heldout(
    out: Path,
    plan: HeldoutPlan,
    models: Sequence[OpenModel],
    judges: Sequence[NamedJudge],
    *,
    progress: HeldoutProgress | None = None,
) -> HeldoutTable:
    """Have models answer the same questions, have all judges judge them, and write the table.

    What the folder holds already, of a run that was stopped or of one with other models and judges,
    is neither generated nor judged again.

    Args:
        out: folder of the evaluation, a new one or one of the same questions.
        plan: questions, and how they are asked and judged.
        models: closed at the end, whatever comes of it.
        judges: as `scores.read_judges` gives them; closed too.
        progress: what to call on the way.

    Returns:
        The paper's Table 1, also in heldout.json.

    Raises:
        EvalFolderError: the folder is in use, or holds an evaluation of something else.
        JudgeSetupError: a judge is not there; nothing was written.
        HeldoutAbortError: too many answers without a judgement; what is done is kept.
        ConfigError, ResponderError, LedgerError, EvalWriteError, OSError: as the parts say.
    """
    folder = EvalFolder(out)
    entries = [model.entry for model in models]
    async with closing([model.aclose for model in models]):
        sources = [AskedModel(model, plan, folder) for model in models]
        return await _run(folder, plan, entries, judges, sources, progress=progress)


async def rejudge_heldout(
    out: Path,
    plan: HeldoutPlan,
    judges: Sequence[NamedJudge],
    *,
    progress: HeldoutProgress | None = None,
) -> HeldoutTable:
    """Have judges judge the answers of all models that a folder holds; nothing is generated.

    Args:
        out: folder of an evaluation.
        plan: as it was evaluated; see `plan_of`.
        judges: new ones, or those whose work is to be completed.
        progress: what to call on the way.

    Returns, Raises:
        As `run_heldout`; EvalFolderError also where answers are missing.
    """
    folder = EvalFolder(out)
    models = read_run(folder).models
    sources = [KeptAnswers(model, plan, folder) for model in models]
    return await _run(folder, plan, models, judges, sources, progress=progress)


async def _run(  # what both ways of evaluating share
    folder: EvalFolder,
    plan: HeldoutPlan,
    models: Sequence[ModelEntry],
    judges: Sequence[NamedJudge],
    sources: Sequence[AnswerSource],
    *,
    progress: HeldoutProgress | None,
) -> HeldoutTable:
    wanted = plan.manifest(models, judges)
    closers = [partial(close, one) for judge in judges for one in judge.replicas]
    async with closing(closers):
        with folder_lock(folder.root):
            run = joined(folder, wanted)
            for source in sources:
                source.check()
            await _check_judges(folder, plan, wanted.models, judges)
            with under_way(folder, run, table=folder.heldout):
                write_rows(folder.questions, plan.question_rows())
                with Ledger(folder.ledger) as ledger:
                    work = Work(folder, plan, judges, ledger, progress or HeldoutProgress())
                    await work.run(sources)
                    _refuse_lost(ledger)
                finished = _finished(folder, run, wanted)
                table = heldout_table(folder, finished)
                write_json(folder.heldout, table)
                write_finished_run(folder, finished)
            return table


async def _check_judges(
    folder: EvalFolder,
    plan: HeldoutPlan,
    models: Sequence[ModelEntry],
    judges: Sequence[NamedJudge],
) -> None:
    """Ask each judge whether it is there, unless everything is judged already.

    Raises:
        JudgeSetupError: one is not.
    """
    kept = [one for model in models for _, one in kept_answers(folder, model, plan)]
    views = [plan.by_id[row.task_id].judge_view(row.text) for row in kept if row.text is not None]
    is_complete = len(views) == plan.answers * len(models) and folder.ledger.exists()
    if is_complete:
        with Ledger(folder.ledger) as ledger:
            judges = [
                judge
                for judge in judges
                if not JudgePool(judge.replicas, ledger=ledger).knows(views)
            ]
    for judge in judges:
        await JudgePool(judge.replicas).check()


def _refuse_lost(ledger: Ledger) -> None:
    if ledger.unwritten:
        raise LedgerError(
            f"{ledger.unwritten} judgements could not be written: make room, and run the same "
            "command again",
            path=ledger.path,
        )


def _finished(folder: EvalFolder, run: EvalRun, wanted: EvalRun) -> EvalRun:
    """Return the manifest of what is there in the end.

    A model or judge that an earlier run began, and never brought to an end, is left out: its
    answers and judgements stay in the folder for the day on which it is asked for again.
    """
    models = {model.name for model in wanted.models}
    judges = {judge.name for judge in wanted.judges}
    done = {
        (model.name, judge.name)
        for model in run.models
        for judge in run.judges
        if has_scores(folder, run, judge=judge.name, model=model.name)
    }
    models |= {model for model, _ in done}
    judges |= {judge for _, judge in done}
    return run.model_copy(
        update={
            "status": "finished",
            "finished": now(),
            "models": tuple(model for model in run.models if model.name in models),
            "judges": tuple(judge for judge in run.judges if judge.name in judges),
        }
    )
