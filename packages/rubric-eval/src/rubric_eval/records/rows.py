"""One line per answer, judgement or item. No row holds a passage or a criterion's text."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BaseModel, Field, PositiveFloat, model_validator

from rubric_core import Answerer, Finish, Outcome, Reason
from rubric_eval.records.run import FROZEN

if TYPE_CHECKING:
    from collections.abc import Sequence


class QuestionRow(BaseModel):
    """A question that all models are asked: a line of questions.jsonl, in their order."""

    model_config = FROZEN

    task_id: str
    doc_hash: str
    """Of the document that it was written from."""

    question: str
    field: str = ""
    """Kind of document or subject, where it is known."""

    weights: dict[str, PositiveFloat] = {}
    """Of the rubric's criteria, by id, those of weight 0 left out. Empty for benchmarks, and in
    rows of an earlier version, as is the next."""

    passage_sha256: str = ""
    """Of the passage that answers are judged against."""


class AnswerRow(BaseModel):
    """An answer of a model: a line of answers/MODEL/seed_S.jsonl."""

    model_config = FROZEN

    task_id: str
    doc_hash: str
    sample: int = Field(ge=0)
    prompt_sha256: str
    """Of the question as the model was given it."""

    key: str
    """SHA-256 of model fingerprint, prompt, decoding and seed: whose answer, and to what."""

    text: str | None
    """None where no answer came."""

    finish: Finish | None = None
    tokens: int | None = None
    reason: Reason | None = None
    detail: str = ""


class ScoreRow(BaseModel):
    """What a judge gave an answer: a line of scores/JUDGE/MODEL/seed_S.jsonl."""

    model_config = FROZEN

    task_id: str
    doc_hash: str
    sample: int = Field(ge=0)
    key: str
    """The answer's."""

    outcome: Outcome
    reason: Reason | None = None
    reward: float | None = Field(ge=0, le=1)
    """None for an unavailable judgement; 0 for an invalid one."""

    fallback: str = ""
    """The group of a `litellm_config` that judged in place of the one that was asked."""

    criteria_z: dict[str, Annotated[float, Field(ge=0, le=1)]]
    """z of each criterion with a weight, in [0, 1]; all 0 for an invalid judgement, empty for an
    unavailable one."""

    @model_validator(mode="after")
    def _rewarded_where_judged(self) -> Self:
        if (self.reward is None) is not (self.outcome is Outcome.UNAVAILABLE):
            raise ValueError("the reward is null for an unavailable judgement, and only for one")
        return self


class JudgementRow(BaseModel):
    """What a judge wrote: a line of judgements/JUDGE/MODEL/seed_S.jsonl, for people to read.

    A judge may quote the passage; a report shows this only with `--reveal-grounding`.
    """

    model_config = FROZEN

    task_id: str
    sample: int = Field(ge=0)
    key: str
    reasoning: str
    answered_by: Answerer | None = None
    """The deployment and the model that judged; None where no model did."""


class ItemRow(BaseModel):
    """An item of a benchmark: a line of items/BENCHMARK/MODEL/seed_S.jsonl."""

    model_config = FROZEN

    item_id: str
    """Hash of question and target: the same for every model."""

    prompt_sha256: str
    """Of the whole prompt, template included."""

    correct: bool | None
    """None where no answer came."""

    is_answered: bool
    """Whether an answer could be extracted."""

    is_truncated: bool | None
    """None where the backend does not say."""

    tokens: int | None = None
    group: str = ""
    """Subject or level, where the benchmark has one."""

    question: str = ""
    """With its choices, without the instructions around it. Empty in rows of an earlier version,
    as are `target` and `stated`: the command that wrote them adds all three."""

    target: str = ""
    """The right answer."""

    stated: str | None = None
    """The answer that was read from the response and compared with the target; None where none was
    found, or where lm-eval's own scoring does not say."""

    response: str
    reason: Reason | None = None
    """Why no answer came."""


def questions_sha256(questions: Sequence[QuestionRow]) -> str:
    """Return `Questions.sha256` of held-out questions: of ids, texts and passages."""
    content = [[one.task_id, one.question, one.passage_sha256] for one in questions]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def items_sha256(ids: Sequence[str], prompts: Sequence[str | None]) -> str:
    """Return `Questions.sha256` of a benchmark's items: of ids and prompts."""
    canonical = json.dumps([list(ids), list(prompts)], separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
