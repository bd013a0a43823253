"""Values of one model, collected from an evaluation's rows."""

from __future__ import annotations

from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING

from rubric_core import Finish, Outcome
from rubric_eval.errors import EvalFolderError
from rubric_eval.records import AnswerRow, ItemRow, Measure, Measured, ScoreRow
from rubric_eval.records.files import read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.records import EvalFolder, EvalRun, ModelEntry


def measured_heldout(folder: EvalFolder, run: EvalRun, judge: str, model: ModelEntry) -> Measured:
    """Collect the rewards that a judge gave a model.

    Raises:
        EvalFolderError: scores are missing.
    """
    prompts: dict[str, str] = {}
    answers: list[AnswerRow] = []
    scores: list[ScoreRow] = []
    for seed in run.seeds:
        answers += read_rows(folder.answers(model.name, seed), AnswerRow)
        scores += read_rows(folder.scores(judge, model.name, seed), ScoreRow)
    _check_count(
        folder,
        judge,
        model.name,
        len(scores),
        run.questions["heldout"].count * run.samples * len(run.seeds),
    )
    prompts.update((row.task_id, row.prompt_sha256) for row in answers)
    by_id: dict[str, list[ScoreRow]] = {}
    for row in scores:
        by_id.setdefault(row.task_id, []).append(row)
    judged = [row for row in scores if row.outcome is not Outcome.UNAVAILABLE]
    return Measured(
        measure=Measure.REWARD,
        benchmark="heldout",
        model=model.name,
        fingerprint=model.fingerprint,
        judge=judge,
        protocol=run.template,
        ids=tuple(by_id),
        clusters=tuple(rows[0].doc_hash for rows in by_id.values()),
        prompts=tuple(prompts[id_] for id_ in by_id),
        seeds=run.seeds,
        values_NK=tuple(tuple(row.reward for row in rows) for rows in by_id.values()),
        criteria_z_N=tuple(_criteria(rows) for rows in by_id.values()),
        invalid_frac=sum(row.outcome is Outcome.INVALID for row in judged) / max(len(judged), 1),
        unavailable_frac=1 - len(judged) / len(scores),
        truncated_frac=sum(row.finish is Finish.TRUNCATED for row in answers) / len(answers),
        tokens_mean=_mean([row.tokens for row in answers]),
    )


def measured_items(folder: EvalFolder, run: EvalRun, benchmark: str, model: ModelEntry) -> Measured:
    """Collect a model's right and wrong answers to a benchmark.

    Raises:
        EvalFolderError: items are missing.
    """
    by_id: dict[str, list[ItemRow]] = {}
    for seed in run.seeds:
        for row in read_rows(folder.items(benchmark, model.name, seed), ItemRow):
            by_id.setdefault(row.item_id, []).append(row)
    items = list(chain.from_iterable(by_id.values()))
    _check_count(
        folder, benchmark, model.name, len(items), run.questions[benchmark].count * len(run.seeds)
    )
    known = [row.is_truncated for row in items if row.is_truncated is not None]
    return Measured(
        measure=Measure.ACCURACY,
        benchmark=benchmark,
        model=model.name,
        fingerprint=model.fingerprint,
        protocol=run.template,
        ids=tuple(by_id),
        clusters=tuple(by_id),
        prompts=tuple(rows[0].prompt_sha256 for rows in by_id.values()),
        fields=tuple(rows[0].group for rows in by_id.values()),
        seeds=run.seeds,
        values_NK=tuple(tuple(float(row.correct) for row in rows) for rows in by_id.values()),
        truncated_frac=sum(known) / len(known) if known else None,
        no_answer_frac=sum(not row.is_answered for row in items) / len(items),
        tokens_mean=_mean([row.tokens for row in items]),
    )


def _criteria(rows: Sequence[ScoreRow]) -> dict[str, float]:
    names = dict.fromkeys(name for row in rows for name in row.criteria_z)
    return {
        name: fmean(row.criteria_z[name] for row in rows if name in row.criteria_z)
        for name in names
    }


def _mean(counts: Sequence[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return fmean(known) if known else None


def _check_count(folder: EvalFolder, what: str, model: str, found: int, expected: int) -> None:
    if found != expected:
        raise EvalFolderError(
            f"{folder.root} holds {found} of {expected} rows of {model!r} for {what!r}; run the "
            "command that made it again, which goes on where it was"
        )
