"""Rows back as values: what one judge gave one model, ready to be compared."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from rubric_core import Finish, Outcome
from rubric_eval.errors import EvalFolderError
from rubric_eval.records import EvalFolder, Measure, Measured
from rubric_eval.records.digests import check_files, refusing_edits
from rubric_eval.records.files import read_finished_run
from rubric_eval.scores.judged import JudgedReader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_eval.records import (
        AnswerRow,
        EvalRun,
        JudgeEntry,
        ModelEntry,
        QuestionRow,
        ScoreRow,
    )
    from rubric_eval.scores.judged import JudgedAnswers


def read_heldout(
    folder: EvalFolder | Path, judge: str, model: str, *, run: EvalRun | None = None
) -> Measured:
    """Read the rewards that a judge gave a model.

    Args:
        folder: of an evaluation.
        judge: its name in the evaluation.
        model: its name in the evaluation.
        run: the manifest; read when left out, and refused unless the evaluation is finished and
            its files are as its end left them.

    Returns:
        Rewards of all questions, seeds and samples, with what explains them.

    Raises:
        EvalFolderError: no evaluation, an unfinished one, no such model or judge, or scores that
            are not those of the answers.
        EvalEditedError: files that contradict each other, or digests that are not theirs.
        RubricFileError: a file that is damaged.
    """
    folder = folder if isinstance(folder, EvalFolder) else EvalFolder(folder)
    with refusing_edits() as edits:
        if run is None:
            run = read_finished_run(folder, edits=edits)
            check_files(folder, run, edits)
        entries = _model(run, model, folder), _judge(run, judge, folder)
        reader = JudgedReader(folder, run, edits)
        for judged in reader.read(entries[0], entries[1:]):
            return measured_rewards(run, reader.questions, judged)
    raise EvalFolderError(
        f"{folder.root}: {judge!r} has not judged {model!r}; run `rubric-eval rejudge "
        f"{folder.root}` with that judge"
    )


def measured_rewards(
    run: EvalRun, questions: Sequence[QuestionRow], judged: JudgedAnswers
) -> Measured:
    """Sum up what a judge gave a model.

    Args:
        run: the manifest.
        questions: in their order.
        judged: all answers with what they were given.
    """
    model, judge, pairs_S = judged.model, judged.judge, judged.pairs_S
    samples = range(run.samples)
    ids = [question.task_id for question in questions]
    scores_NK = [[pairs[i, k][1] for pairs in pairs_S for k in samples] for i in ids]
    answers = [answer for pairs in pairs_S for answer, _ in pairs.values()]
    given = [answer for answer in answers if answer.text is not None]
    outcomes = [row.outcome for row_K in scores_NK for row in row_K]
    known = len(outcomes) - outcomes.count(Outcome.UNAVAILABLE)
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
        invalid_frac=outcomes.count(Outcome.INVALID) / known if known else 0.0,
        unavailable_frac=(len(outcomes) - known) / len(outcomes),
        reasons=_reasons(scores_NK),
        by_fallback=_by_fallback(scores_NK),
        truncated_frac=_share(given, lambda one: one.finish is Finish.TRUNCATED),
        no_answer_frac=_share(given, lambda one: not (one.text or "").strip()),
        tokens_mean=sum(tokens) / len(tokens) if tokens else None,
    )


def _reasons(scores_NK: Sequence[Sequence[ScoreRow]]) -> dict[str, int]:
    reasons = Counter(
        row.reason.value for row_K in scores_NK for row in row_K if row.reason is not None
    )
    return dict(sorted(reasons.items()))


def _by_fallback(scores_NK: Sequence[Sequence[ScoreRow]]) -> dict[str, int]:
    return dict(Counter(row.fallback for row_K in scores_NK for row in row_K if row.fallback))


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
