"""Answers beside their scores, checked against each other and against run.json."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from rubric_core import Finish, Outcome, Reason
from rubric_eval.answers.store import AnswerKeys, line_of, read_answers
from rubric_eval.errors import EvalFolderError
from rubric_eval.records import files
from rubric_eval.records import run as records
from rubric_eval.records.digests import Edits
from rubric_eval.records.files import AnswerRow, QuestionRow, ScoreRow
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import EvalRun, JudgeEntry, Measured, ModelEntry
from rubric_judge.pool.ledger.entry import hash_answer

_ROUNDING = 1e-9


def contradiction(
    row: ScoreRow, question: QuestionRow, answer: AnswerRow
) -> str | None:
    """Return what contradicts a score; None where nothing does.

        r = Σ_j w_j z_j / Σ_j w_j

    Args:
        row: the score.
        question: its question, with the weights of the criteria.
        answer: its answer.
    """
    z = row.criteria_z
    weights = question.weights
    if row.doc_hash != question.doc_hash:
        return "its doc_hash is not that of its question in questions.jsonl"
    if (row.reward is None and z) or (row.reward is not None and answer.text is None):
        return "it has a reward or criteria where there is nothing to judge, or no judgement"
    if row.outcome is Outcome.INVALID and (row.reward or any(z.values())):
        return "it is invalid, and its reward or a criterion is not 0"
    if row.outcome is Outcome.SCORED:
        if weights.keys() != z.keys():
            return "its criteria are not those of its question in questions.jsonl"
        earned = sum(weights[name] * value for name, value in z.items())
        total = sum(weights.values())
        reward = row.reward or 0.0
        is_sum = math.isclose(earned / total, reward, rel_tol=0.0, abs_tol=_ROUNDING)
        if z and not is_sum:
            return "its reward is not what its criteria add up to"
    return None


_Key = tuple[str, int, str]
"""Task, sample and key of an answer."""
_Answer = tuple[AnswerRow, bool]
"""An answer, and whether its key is that of the model, decoding and seed in run.json."""


@dataclass(frozen=True)
class JudgedAnswers:
    """All answers of one model with their scores by one judge."""

    model: ModelEntry
    judge: JudgeEntry
    pairs_S: tuple[dict[tuple[str, int], tuple[AnswerRow, ScoreRow]], ...]
    """Answers and scores by task and sample, for each seed in the order of the run."""


class JudgedReader:
    """A reader of an evaluation's answers and scores; answers are read once for all judges.

    Raises:
        EvalFolderError: the number of questions is not that in run.json.
        RubricFileError: a line that is not a valid question.
    """

    def __init__(self, folder: EvalFolder, run: EvalRun, edits: Edits) -> None:
        """Read the questions.

        Args:
            folder: the evaluation's folder.
            run: its manifest.
            edits: gets the contradictions between files.
        """
        self._folder = folder
        self._run = run
        self._edits = edits
        self.questions = _questions(folder, run, edits)
        """The questions, in their order."""
        self._by_id = {question.task_id: question for question in self.questions}
        self._prompts = {
            question.task_id: question.asked_sha256 for question in self.questions
        }

    def read(
        self, judges: Sequence[JudgeEntry] | None = None
    ) -> Iterator[JudgedAnswers]:
        """Yield the answers of each model by each judge that has judged it.

        A judge that came later need not have judged every model.

        Args:
            judges: some of the run's judges; by default all.

        Raises:
            EvalFolderError: scores that are not those of the answers.
            RubricFileError: a file that is damaged.
        """
        folder = self._folder
        run = self._run
        chosen = run.judges if judges is None else judges
        for model in run.models:
            done = [
                judge
                for judge in chosen
                if folder.has_scores(run, judge=judge.name, model=model.name)
            ]
            if not done:
                continue
            answers_S = [self._answers(model, seed) for seed in run.seeds]
            for judge in done:
                pairs_S = [
                    self._pairs(folder.scores(judge.name, model.name, seed), answers)
                    for seed, answers in zip(run.seeds, answers_S, strict=True)
                ]
                yield JudgedAnswers(model, judge, tuple(pairs_S))

    def _answers(self, model: ModelEntry, seed: int) -> dict[_Key, _Answer]:
        path = self._folder.answers(model.name, seed)
        keys = AnswerKeys(model.fingerprint, self._run.decoding)
        answers: dict[_Key, _Answer] = {}
        for row in read_answers(path):
            question = self._by_id.get(row.task_id)
            if question is None:
                continue
            prompt = self._prompts[row.task_id]
            key = keys.of(prompt, seed=seed, sample=row.sample)
            answers[row.place] = row, row.key == key
            different: list[str] = []
            if row.prompt_sha256 != prompt:
                different.append("prompt_sha256")
            if row.doc_hash != question.doc_hash:
                different.append("doc_hash")
            for field in different:
                what = f"its {field} is not that of its question in questions.jsonl"
                self._edits.add(path, what, line=partial(line_of, path, row))
        return answers

    def _pairs(
        self, path: Path, answers: dict[_Key, _Answer]
    ) -> dict[tuple[str, int], tuple[AnswerRow, ScoreRow]]:
        pairs: dict[tuple[str, int], tuple[AnswerRow, ScoreRow]] = {}
        for line, row in files.iterate_rows(path, ScoreRow):
            answer, is_current = answers.get(row.place, (None, False))
            if answer is None:
                raise EvalFolderError(
                    f"{path}:{line}: the score of task {row.task_id}, sample {row.sample}, is of "
                    f"no answer in {self._folder.root}/answers; judge again with "
                    f"`rubric-eval rejudge {self._folder.root}`"
                )
            if (row.task_id, row.sample) in pairs:
                raise EvalFolderError(
                    f"{path}:{line} is a second score of task {row.task_id}, sample "
                    f"{row.sample}; judge again with `rubric-eval rejudge {self._folder.root}`"
                )
            question = self._by_id[row.task_id]
            if not is_current:
                what = "its key is not that of the model, decoding and seed in run.json"
                self._edits.add(path, what, line=line)
            what = contradiction(row, question, answer)
            if what is not None:
                self._edits.add(path, what, line=line)
            pairs[row.task_id, row.sample] = answer, row
        # Counts alone are compared: the number in run.json may be anything, too many to list.
        expected = len(self.questions) * self._run.samples
        count = sum(sample < self._run.samples for _, sample in pairs)
        if not len(pairs) == count == expected:
            raise EvalFolderError(
                f"{path} holds scores of {count} answers, not of {expected}; judge again with "
                f"`rubric-eval rejudge {self._folder.root}`"
            )
        return pairs


def _questions(folder: EvalFolder, run: EvalRun, edits: Edits) -> list[QuestionRow]:
    questions = files.read_rows(folder.questions, QuestionRow)
    different = {question.task_id for question in questions}
    recorded = run.questions["heldout"]
    if not len(questions) == len(different) == recorded.count:
        raise EvalFolderError(
            f"{folder.questions} holds {len(different)} different questions in "
            f"{len(questions)} lines, not {recorded.count}; give the command that made the "
            "evaluation again"
        )
    if files.questions_sha256(questions) != recorded.sha256:
        edits.add(
            folder.questions, "its questions are not those of the sha256 in run.json"
        )
    return questions


def measured_rewards(
    run: EvalRun, questions: Sequence[QuestionRow], judged: JudgedAnswers
) -> Measured:
    """Return a model's values by one judge, ready to be compared.

    Args:
        run: the manifest.
        questions: the questions, in their order.
        judged: all answers with their scores.
    """
    model = judged.model
    judge = judged.judge
    pairs_S = judged.pairs_S
    protocol = _protocol(run, judge)
    ids = [question.task_id for question in questions]
    scores_NK: list[list[ScoreRow]] = []
    answers_NK: list[tuple[str, ...]] = []
    answers: list[AnswerRow] = []
    for task_id in ids:
        places = [(task_id, sample) for sample in range(run.samples)]
        pairs_K = [pairs[place] for pairs in pairs_S for place in places]
        scores_NK.append([score for _, score in pairs_K])
        answers += [answer for answer, _ in pairs_K if answer.text is not None]
        hashes = [hash_answer(task_id, answer.text or "") for answer, _ in pairs_K]
        answers_NK.append(tuple(hashes))
    z_N = [
        records.mean_z(
            records.pooled_z(row.criteria_z, question.kinds) for row in scores_K
        )
        for question, scores_K in zip(questions, scores_NK, strict=True)
    ]
    rows = list(chain.from_iterable(scores_NK))
    outcomes = Counter(row.outcome for row in rows)
    unwritten = sum(row.reason is Reason.NOT_WRITTEN for row in rows)
    missing = outcomes[Outcome.UNAVAILABLE] - unwritten
    known = len(rows) - outcomes[Outcome.UNAVAILABLE]
    reasons = Counter(row.reason.value for row in rows if row.reason is not None)
    fields = tuple(question.field for question in questions)
    return Measured(
        measure=records.Measure.REWARD,
        benchmark="heldout",
        model=model.name,
        fingerprint=model.fingerprint,
        prompt_form=model.prompt_form,
        judge=judge.name,
        protocol=protocol,
        ids=tuple(ids),
        clusters=tuple(question.doc_hash for question in questions),
        prompts=tuple(pairs_S[0][task_id, 0][0].prompt_sha256 for task_id in ids),
        fields=fields if any(fields) else (),
        seeds=run.seeds,
        values_NK=tuple(tuple(row.reward for row in rows_K) for rows_K in scores_NK),
        answers_NK=tuple(answers_NK),
        criteria_z_N=tuple(z_N),
        invalid_frac=outcomes[Outcome.INVALID] / known if known else 0.0,
        unavailable_frac=missing / max(len(rows) - unwritten, 1),
        reasons=dict(sorted(reasons.items())),
        by_fallback=dict(Counter(row.fallback for row in rows if row.fallback)),
        truncated_frac=records.present_mean(
            answer.finish is Finish.TRUNCATED for answer in answers
        ),
        no_answer_frac=records.present_mean(
            not (answer.text or "").strip() for answer in answers
        ),
        **records.thought_shares(answer.thought for answer in answers),
        tokens_mean=records.present_mean(answer.tokens for answer in answers),
    )


def _protocol(run: EvalRun, judge: JudgeEntry) -> str:
    protocol = run.decoding.model_dump(mode="json")
    protocol["template"] = run.template
    protocol["judge"] = judge.fingerprint
    return json.dumps(protocol, sort_keys=True)
