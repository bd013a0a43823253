"""A transfer evaluation from the first check to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_core.locks import folder_lock
from rubric_eval.answers import check_weights, collect_answers
from rubric_eval.errors import EvalFolderError, TransferAbortError
from rubric_eval.failures import Failures
from rubric_eval.records import EvalFolder, EvalRun
from rubric_eval.records.files import read_run, write_finished_run, write_json, write_rows
from rubric_eval.records.joining import closing, joined, under_way
from rubric_eval.records.run import now
from rubric_eval.transfer.items import scored_items
from rubric_eval.transfer.plan import ItemQuestion
from rubric_eval.transfer.reading import has_items
from rubric_eval.transfer.table import TransferTable, transfer_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_eval.answers import AnswerProgress
    from rubric_eval.records import AnswerRow, ItemRow
    from rubric_eval.responders import OpenModel
    from rubric_eval.transfer.building import Built
    from rubric_eval.transfer.plan import TransferPlan


async def run_transfer(
    out: Path,
    plan: TransferPlan,
    models: Sequence[OpenModel],
    *,
    on_progress: Callable[[str, str, AnswerProgress], None] | None = None,
) -> TransferTable:
    """Have models answer the same benchmarks, score all alike, and write the table.

    Answers that the folder holds, of a run that was stopped or of one with other models, are not
    generated again; scores are made anew from them.

    Args:
        out: folder of the evaluation, a new one or one of the same benchmarks.
        plan: what is asked.
        models: each closed after its answers, and all at the end, whatever comes of it.
        on_progress: called after every answer, with model and benchmark.

    Returns:
        The paper's Table 2, also in transfer.json.

    Raises:
        FolderLockError: another evaluation is at work in the folder.
        EvalFolderError: the folder holds an evaluation of something else.
        TransferAbortError: a model left more of a benchmark's items without an answer than allowed;
            its answers are kept, and there is no table.
        ConfigError, ResponderError, EvalWriteError, OSError: as the parts say.
    """
    folder = EvalFolder(out)
    async with closing([model.aclose for model in models]):
        wanted = plan.manifest([model.entry for model in models])
        with folder_lock(folder.root):
            _refuse_others(folder, wanted)
            run = joined(folder, wanted)
            for model in models:
                check_weights(folder, model)
            with under_way(folder, run, table=folder.transfer):
                write_rows(folder.questions, plan.question_rows())
                for model in models:
                    async with model:  # the next one may need its memory
                        await _evaluate(folder, plan, model, on_progress)
                finished = _finished(folder, run)
                table = transfer_table(folder, finished)
                write_json(folder.transfer, table)
                write_finished_run(folder, finished)
    return table


async def _evaluate(
    folder: EvalFolder,
    plan: TransferPlan,
    model: OpenModel,
    on_progress: Callable[[str, str, AnswerProgress], None] | None,
) -> None:
    """Ask for everything first: a model that fails at its last benchmark has no scores at all."""
    answered: list[tuple[Built, dict[int, dict[str, AnswerRow]]]] = []
    for built in plan.built:
        benchmark = built.benchmark.task

        def note(progress: AnswerProgress, benchmark: str = benchmark) -> None:
            if on_progress is not None:
                on_progress(model.name, benchmark, progress)

        questions = [
            ItemQuestion(item_id, prompt)
            for item_id, prompt in zip(built.ids, built.prompts, strict=True)
        ]
        answers = await collect_answers(
            model,
            questions,
            folder=folder,
            decoding=built.decoding,
            seeds=plan.seeds,
            on_progress=note,
        )
        by_seed = {
            seed: {row.task_id: row for row in rows} for seed, rows in answers.by_seed.items()
        }
        _refuse_unanswered(model.name, built, by_seed, plan.max_unavailable_frac)
        answered.append((built, by_seed))
    for built, by_seed in answered:
        for seed, by_item in by_seed.items():
            rows: list[ItemRow] = scored_items(built, by_item)
            write_rows(folder.items(built.benchmark.task, model.name, seed), rows)


def _refuse_unanswered(
    model: str, built: Built, by_seed: dict[int, dict[str, AnswerRow]], allowed: float
) -> None:
    """Judge each model and benchmark by itself: all the others' answers must not hide one."""
    rows = [row for by_item in by_seed.values() for row in by_item.values()]
    failed = Failures()
    for row in rows:
        if row.text is None:
            failed.add(str(row.reason), row.detail)
    share = failed.total / len(rows)
    if share > allowed or share == 1:
        raise TransferAbortError(
            f"{model} gave no answer to {failed.total} of {len(rows)} items of "
            f"{built.benchmark.task}: {failed}. At most {100 * allowed:g} % "
            "(--max-unavailable-frac), and never all, may lack one. See to the model. Nothing is "
            f"lost: {len(rows) - failed.total} of these answers, and all others that came, are "
            "kept; the same command goes on from there",
            unavailable_frac=share,
            reasons=failed.by_reason,
        )


def _refuse_others(folder: EvalFolder, wanted: EvalRun) -> None:
    """Keep one set of benchmarks, with one budget and template each, in a folder."""
    if not folder.run.exists():
        return
    held = read_run(folder)
    if held.kind != wanted.kind or held.suite != wanted.suite:
        return  # `joined` says so, or that the questions are others
    differences = [
        f"its {name} are {there!r}, not {here!r}"
        for name, there, here in (
            ("benchmarks", sorted(held.questions), sorted(wanted.questions)),
            ("max-tokens", held.max_tokens, wanted.max_tokens),
        )
        if there != here
    ]
    if differences:
        raise EvalFolderError(
            f"{folder.root} holds an evaluation of something else: {'; '.join(differences)}. "
            "Evaluate as it does, or name a new folder"
        )


def _finished(folder: EvalFolder, run: EvalRun) -> EvalRun:
    """Return the manifest of what is there in the end.

    A model that an earlier run began, and never brought to an end, is left out; its answers stay.
    """
    done = tuple(model for model in run.models if has_items(folder, run, model=model.name))
    return run.model_copy(
        update={"status": "finished", "finished": now(), "error": None, "models": done}
    )
