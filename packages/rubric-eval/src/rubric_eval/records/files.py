"""The records of an evaluation on disk: rows in JSON Lines, one type per file, and the manifest."""

import json
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from operator import not_
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import BaseModel, Field, PositiveFloat, model_validator

from rubric_core import (
    Answer,
    Answerer,
    Finish,
    Outcome,
    Pool,
    Reason,
    Thought,
    answer_of,
)
from rubric_core.files import replacing, text_sha256, write_text
from rubric_core.strict_json import canonical_json
from rubric_eval.errors import EvalFolderError
from rubric_eval.records.digests import Edits, check_manifest, file_digests, sealed
from rubric_eval.records.inputs import Derived, EvalFolder
from rubric_eval.records.run import EvalRun, Record
from rubric_judge.quality.responses import read_rows as numbered_rows

_Row = TypeVar("_Row", bound=BaseModel)
_Derived = TypeVar("_Derived", bound=Derived)


def read_rows(path: Path, model: type[_Row]) -> list[_Row]:
    """Read a file of rows of one kind.

    Args:
        path: a JSON Lines file.
        model: the model of the rows.

    Returns:
        The rows, in the order of the file.

    Raises:
        RubricFileError: a line that is not such a row; shows no value of it.
        OSError: the file cannot be read.
    """
    return [row for _, row in iterate_rows(path, model)]


def iterate_rows(path: Path, model: type[_Row]) -> Iterator[tuple[int, _Row]]:
    """Yield the rows of a file one by one, each with its line; see `read_rows`."""
    return numbered_rows(path, model, form=f"a row as `{model.__name__}` has it")


def write_rows(path: Path, rows: Iterable[BaseModel], *, private: bool = False) -> None:
    """Write a file of rows, whole or not at all; folders are made.

    Args:
        path: the file; an older one is replaced.
        rows: one line each.
        private: only its owner may read it.

    Raises:
        OSError: the file cannot be written; an older one is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        if private and hasattr(os, "fchmod"):  # not on Windows
            os.fchmod(file.fileno(), 0o600)
        file.writelines(row.model_dump_json().encode() + b"\n" for row in rows)


def write_json(path: Path, content: BaseModel) -> None:
    """Write one model as a file for people and programs, whole or not at all.

    Raises:
        OSError: the file cannot be written; an older one is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content.model_dump(mode="json"), indent=1, ensure_ascii=False)
    write_text(path, f"{text}\n")


def write_derived(path: Path, content: _Derived, edits: Edits) -> _Derived:
    """Write a file that was made of evaluations, with the accepted edits and its own digest.

    Args:
        path: the file.
        content: the results.
        edits: findings of the reading of the evaluations.

    Raises:
        OSError: the file cannot be written; an older one is still there.
    """
    notes = (*content.notes, *edits.notes)
    update = {"notes": notes, "edited": edits.messages}
    written = sealed(content.model_copy(update=update))
    write_json(path, written)
    return written


def read_run(folder: EvalFolder, *, edits: Edits | None = None) -> EvalRun:
    """Read the manifest of an evaluation with any status.

    Args:
        folder: the evaluation's folder.
        edits: gets the edits of a finished evaluation's manifest.

    Raises:
        EvalFolderError: the folder holds no evaluation.
        RubricFileError: its run.json is damaged, or of another version.
        OSError: the file cannot be read.
    """
    remedy = "restore the file, or read it with the version that wrote it"
    try:
        run = folder.read_manifest(remedy=remedy)
    except FileNotFoundError:
        raise EvalFolderError(
            f"{folder.root} holds no evaluation: there is no {folder.run.name} in it; name "
            "the folder that was given as --out"
        ) from None
    if edits is not None and run.status == "finished":
        check_manifest(folder.run, run, edits)
    return run


def read_finished_run(folder: EvalFolder, *, edits: Edits) -> EvalRun:
    """Read the manifest of an evaluation that ran to its end.

    Args:
        folder: the evaluation's folder.
        edits: gets the edits of the manifest.

    Raises:
        EvalFolderError: there is no evaluation, or it is still running, was stopped, or failed.
        RubricFileError, OSError: as `read_run`.
    """
    run = read_run(folder, edits=edits)
    if run.status != "finished":
        why = f": {run.error}" if run.error else ""
        raise EvalFolderError(
            f"the evaluation in {folder.root} is {run.status}, not finished{why}; run the "
            "command that started it again, which goes on where it was"
        )
    return run


def write_run(folder: EvalFolder, run: EvalRun) -> None:
    """Write the manifest; the folder is made.

    Raises:
        OSError: the file cannot be written; an older one is still there.
    """
    write_json(folder.run, run)


def write_finished_run(folder: EvalFolder, run: EvalRun) -> None:
    """Write the manifest of an evaluation whose other files are all there, with their digests.

    Raises:
        OSError: a file cannot be read or written; an older manifest is still there.
    """
    write_run(folder, sealed(run.model_copy(update={"files": file_digests(folder)})))


class QuestionRow(Record):
    """A question that all models are asked: a line of questions.jsonl, in their order."""

    task_id: str
    doc_hash: str
    """Hash of the document that it was written from."""

    question: str
    field: str = ""
    """Kind of document or subject, where it is known."""

    weights: dict[str, PositiveFloat] = Field(default_factory=dict)
    """Weights of the rubric's criteria by id, without weights of 0. Empty for benchmarks, as are
    `kinds`."""

    kinds: dict[str, Pool] = Field(default_factory=dict, exclude_if=not_)
    """Pools by criterion id, for criteria that are measured together with all of their kind.
    Criteria whose ids repeat in the questions are measured by themselves, and not listed."""

    passage_sha256: str = ""
    """Hash of the passage that answers are judged against."""

    prompt_sha256: str = Field(default="", exclude_if=operator.not_)
    """Hash of the models' prompt; empty if that is the question, so without a context."""

    @property
    def asked_sha256(self) -> str:
        """Hash of the models' prompt, a context included."""
        return self.prompt_sha256 or text_sha256(self.question)


class RowOfAnswer(Record):
    """A line about one answer."""

    task_id: str
    sample: int = Field(ge=0)
    key: str
    """SHA-256 of model fingerprint, prompt, decoding and seed."""

    @property
    def place(self) -> tuple[str, int, str]:
        """Task, sample and key, which identify the answer."""
        return self.task_id, self.sample, self.key


class AnswerRow(RowOfAnswer):
    """An answer of a model: a line of answers/MODEL/seed_S.jsonl."""

    doc_hash: str
    prompt_sha256: str
    """Hash of the question's prompt to the model."""

    text: str | None
    """Text of the answer, without the thought before it; None where no answer came."""

    finish: Finish | None = None
    tokens: int | None = None
    """Number of all tokens that were written, the thought included."""

    reason: Reason | None = None
    detail: str = ""
    choice_logprobs: tuple[float, ...] = ()
    """Log-probabilities of the choices that the text is the likeliest of, in nats; empty for an
    answer that was written."""

    thought: Thought | None = None
    """Whether a thought stood before the answer. None where an older version stored the row, which
    did not separate thoughts from answers."""

    @property
    def answer(self) -> Answer:
        """The text to judge, and whether it stood after a thought."""
        return Answer(self.text or "", self.thought or Thought.NONE)

    @property
    def holds_thought(self) -> bool:
        """Whether an older version stored the row, and some of its text is a thought."""
        if self.thought is not None or self.text is None or self.choice_logprobs:
            return False
        return answer_of(self.text).thought is not Thought.NONE

    @property
    def may_be_thought(self) -> bool:
        """Whether the row holds a thought, or may be cut within one that its prompt opened."""
        is_truncated = bool(self.text) and self.finish is Finish.TRUNCATED
        return (self.thought is None and is_truncated) or self.holds_thought


class ScoreRow(RowOfAnswer):
    """A judge's scores of an answer: a line of scores/JUDGE/MODEL/seed_S.jsonl."""

    doc_hash: str
    outcome: Outcome
    reason: Reason | None = None
    reward: float | None = Field(ge=0, le=1)
    """Reward; None for an unavailable judgement, 0 for an invalid one."""

    fallback: str = ""
    """The group of a `litellm_config` that judged in place of the one that was asked."""

    criteria_z: dict[str, Annotated[float, Field(ge=0, le=1)]]
    """z of each criterion with a weight, in [0, 1]; all 0 for an invalid judgement, empty for an
    unavailable one."""

    @model_validator(mode="after")
    def _rewarded_where_judged(self) -> Self:
        if (self.reward is None) is not (self.outcome is Outcome.UNAVAILABLE):
            raise ValueError(
                "the reward is null for an unavailable judgement, and only for one"
            )
        return self


class ReasoningRow(RowOfAnswer):
    """A judge's reasoning: a line of judgements/JUDGE/MODEL/seed_S.jsonl, for people to read.

    A judge may quote the passage; a report shows this only with `--reveal-grounding`.
    """

    reasoning: str
    answered_by: Answerer | None = None
    """The deployment and the model that judged; None where no model did."""


class ItemRow(Record):
    """An item of a benchmark: a line of items/BENCHMARK/MODEL/seed_S.jsonl."""

    item_id: str
    """Hash of question and target: the same for every model."""

    prompt_sha256: str
    """Hash of the whole prompt, template included."""

    correct: bool | None
    """Whether the answer is right; None where no answer came."""

    is_answered: bool
    """Whether an answer could be extracted."""

    is_truncated: bool | None
    """Whether the response was cut; None where the backend does not say."""

    thought: Thought | None = None
    """Whether a thought stood before the answer; None without an answer, or in older rows."""

    tokens: int | None = None
    group: str = ""
    """Subject or level, where the benchmark has one."""

    question: str
    """The question with its choices, without the instructions around it."""

    target: str
    """The right answer."""

    stated: str | None = None
    """The answer in the response that was compared with the target; None where none was found, or
    where lm-eval's own scoring does not say."""

    response: str
    reason: Reason | None = None
    """Why no answer came."""


def questions_sha256(questions: Sequence[QuestionRow]) -> str:
    """Return `Questions.sha256` of held-out questions, over ids, texts, contexts and passages."""
    content: list[list[str]] = []
    for question in questions:
        parts = [question.task_id, question.question, question.passage_sha256]
        if question.prompt_sha256:
            parts.append(question.prompt_sha256)
        content.append(parts)
    return text_sha256(json.dumps(content))


def items_sha256(ids: Sequence[str], prompts: Sequence[str | None]) -> str:
    """Return `Questions.sha256` of a benchmark's items, over ids and prompts."""
    return text_sha256(canonical_json([list(ids), list(prompts)]))
