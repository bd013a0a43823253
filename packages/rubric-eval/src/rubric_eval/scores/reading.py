"""Rows back as values: what one judge gave one model, ready to be compared."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeAlias

from rubric_core import Finish, Outcome
from rubric_eval.answers import read_answers
from rubric_eval.errors import EvalFolderError
from rubric_eval.records import (
    EvalFolder,
    Measure,
    Measured,
    QuestionRow,
    ScoreRow,
)
from rubric_eval.records.files import read_finished_run, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_eval.records import AnswerRow, EvalRun, JudgeEntry, ModelEntry

__all__ = ["has_scores", "read_heldout"]

_Place: TypeAlias = "tuple[str, int]"
"""Task and sample."""


def read_heldout(
    folder: EvalFolder | Path, judge: str, model: str, *, run: EvalRun | None = None
) -> Measured:
    """Read the rewards that a judge gave a model.

    Args:
        folder: of an evaluation.
        judge: its name in the evaluation.
        model: its name in the evaluation.
        run: the manifest; read when left out, and refused unless the evaluation is finished.

    Returns:
        Rewards of all questions, seeds and samples, with what explains them.

    Raises:
        EvalFolderError: no evaluation, an unfinished one, no such model or judge, or scores that
            are not those of the answers.
        RubricFileError: a file that is damaged.
    """
    folder = folder if isinstance(folder, EvalFolder) else EvalFolder(folder)
    run = read_finished_run(folder) if run is None else run
    entries = _model(run, model, folder), _judge(run, judge, folder)
    if not has_scores(folder, run, judge=judge, model=model):
        raise EvalFolderError(
            f"{folder.root}: {judge!r} has not judged {model!r}; run `rubric-eval rejudge "
            f"{folder.root}` with that judge"
        )
    questions = _questions(folder, run)
    pairs = [
        _pairs(folder, run, questions, judge=judge, model=model, seed=seed) for seed in run.seeds
    ]
    return _measured(run, entries, questions, pairs)


def has_scores(folder: EvalFolder, run: EvalRun, *, judge: str, model: str) -> bool:
    """Return whether a judge is done with a model."""
    return all(folder.scores(judge, model, seed).exists() for seed in run.seeds)


def _questions(folder: EvalFolder, run: EvalRun) -> list[QuestionRow]:
    questions = read_rows(folder.questions, QuestionRow)
    different, asked = {one.task_id for one in questions}, run.questions["heldout"].count
    if not len(questions) == len(different) == asked:
        raise EvalFolderError(
            f"{folder.questions} holds {len(different)} different questions in {len(questions)} "
            f"lines, not {asked}; give the command that made the evaluation again"
        )
    return questions


def _pairs(
    folder: EvalFolder,
    run: EvalRun,
    questions: Sequence[QuestionRow],
    *,
    judge: str,
    model: str,
    seed: int,
) -> dict[_Place, tuple[AnswerRow, ScoreRow]]:
    path = folder.scores(judge, model, seed)
    answers = {
        (row.task_id, row.sample, row.key): row for row in read_answers(folder.answers(model, seed))
    }
    pairs: dict[_Place, tuple[AnswerRow, ScoreRow]] = {}
    for row in read_rows(path, ScoreRow):
        answer = answers.get((row.task_id, row.sample, row.key))
        if answer is None:
            raise EvalFolderError(
                f"{path}: the score of task {row.task_id}, sample {row.sample}, is of no answer "
                f"in {folder.answers(model, seed)}; judge again with `rubric-eval rejudge "
                f"{folder.root}`"
            )
        if (row.task_id, row.sample) in pairs:
            raise EvalFolderError(
                f"{path} holds two scores of task {row.task_id}, sample {row.sample}; judge again "
                f"with `rubric-eval rejudge {folder.root}`"
            )
        pairs[row.task_id, row.sample] = answer, row
    expected = {(one.task_id, sample) for one in questions for sample in range(run.samples)}
    if pairs.keys() != expected:
        raise EvalFolderError(
            f"{path} holds scores of {len(pairs.keys() & expected)} answers, not of "
            f"{len(expected)}; judge again with `rubric-eval rejudge {folder.root}`"
        )
    return pairs


def _measured(
    run: EvalRun,
    entries: tuple[ModelEntry, JudgeEntry],
    questions: Sequence[QuestionRow],
    pairs_S: Sequence[dict[_Place, tuple[AnswerRow, ScoreRow]]],
) -> Measured:
    model, judge = entries
    samples = range(run.samples)
    ids = [question.task_id for question in questions]
    scores_NK = [[pairs[i, k][1] for pairs in pairs_S for k in samples] for i in ids]
    answers = [answer for pairs in pairs_S for answer, _ in pairs.values()]
    given = [answer for answer in answers if answer.text is not None]
    outcomes = [row.outcome for row_K in scores_NK for row in row_K]
    judged = len(outcomes) - outcomes.count(Outcome.UNAVAILABLE)
    tokens = [answer.tokens for answer in given if answer.tokens is not None]
    fields = tuple(question.field for question in questions)
    return Measured(
        measure=Measure.REWARD,
        benchmark="heldout",
        model=model.name,
        fingerprint=model.fingerprint,
        prompt_form=model.prompt_form,
        judge=judge.name,
        protocol=_protocol(run, judge),
        ids=tuple(ids),
        clusters=tuple(question.doc_hash for question in questions),
        prompts=tuple(pairs_S[0][i, 0][0].prompt_sha256 for i in ids),
        fields=fields if any(fields) else (),
        seeds=run.seeds,
        values_NK=tuple(tuple(row.reward for row in row_K) for row_K in scores_NK),
        criteria_z_N=tuple(_mean_z(row_K) for row_K in scores_NK),
        invalid_frac=outcomes.count(Outcome.INVALID) / judged if judged else 0.0,
        unavailable_frac=(len(outcomes) - judged) / len(outcomes),
        reasons=_reasons(scores_NK),
        truncated_frac=_share(given, lambda one: one.finish is Finish.TRUNCATED),
        no_answer_frac=_share(given, lambda one: not (one.text or "").strip()),
        tokens_mean=sum(tokens) / len(tokens) if tokens else None,
    )


def _reasons(scores_NK: Sequence[Sequence[ScoreRow]]) -> dict[str, int]:
    reasons = Counter(
        row.reason.value for row_K in scores_NK for row in row_K if row.reason is not None
    )
    return dict(sorted(reasons.items()))


def _mean_z(row_K: Sequence[ScoreRow]) -> dict[str, float]:
    z_of: defaultdict[str, list[float]] = defaultdict(list)
    for row in row_K:
        for name, z in row.criteria_z.items():
            z_of[name].append(z)
    return {name: sum(z_K) / len(z_K) for name, z_K in z_of.items()}


def _protocol(run: EvalRun, judge: JudgeEntry) -> str:
    parts = {"template": run.template, "judge": judge.fingerprint}
    return json.dumps({**run.decoding.model_dump(mode="json"), **parts}, sort_keys=True)


def _model(run: EvalRun, name: str, folder: EvalFolder) -> ModelEntry:
    for entry in run.models:
        if entry.name == name:
            return entry
    known = [entry.name for entry in run.models]
    raise EvalFolderError(f"{folder.root} holds no model {name!r}; it holds {known!r}")


def _judge(run: EvalRun, name: str, folder: EvalFolder) -> JudgeEntry:
    for entry in run.judges:
        if entry.name == name:
            return entry
    known = [entry.name for entry in run.judges]
    raise EvalFolderError(f"{folder.root} holds no judge {name!r}; it holds {known!r}")


def _share(answers: Sequence[AnswerRow], condition: Callable[[AnswerRow], bool]) -> float | None:
    return sum(map(condition, answers)) / len(answers) if answers else None
