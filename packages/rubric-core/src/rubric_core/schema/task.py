"""A task: question, passage and rubric; and what each side of the information asymmetry sees."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import AfterValidator, Field

from rubric_core.errors import NotJsonError, SchemaError
from rubric_core.files import decode
from rubric_core.schema.answer import Answer, Thought, Unanswered, answer_of, unanswered
from rubric_core.schema.context import OptionalContext, as_message, as_plain_text
from rubric_core.schema.rubric import Criteria, Grounding, Rubric
from rubric_core.schema.sealed import Identifier, Many, Prose, Sealed, Text, not_blank


class PolicyView(Sealed):
    """x: all that the policy sees of a task."""

    task_id: Identifier
    """Joins rollouts with their task."""

    question: Text
    """What is asked."""

    context: OptionalContext = Field(default=None, repr=False)
    """What may be looked up; None where the question is all."""

    @property
    def message(self) -> str:
        """The prompt as the one message of a chat: the question, behind its context if any."""
        return as_message(self.question, self.context)

    @property
    def plain_text(self) -> str:
        """The prompt for a model without a chat template, which goes on with it."""
        return as_plain_text(self.question, self.context)


class JudgeView(Sealed):
    """(x, g, y, R): all that the judge sees of one response.

    `repr` and `model_dump` leave out the passage, the response and the criteria's texts. It can be
    pickled, with its texts, for judge workers in other processes.
    """

    task_id: Identifier
    """The task that the response answers."""

    question: Text
    """x: what the policy was asked."""

    grounding: Grounding = Field(repr=False, exclude=True)
    """g: the passage to check against."""

    response: Text = Field(repr=False, exclude=True)
    """y: the policy's answer, untrusted text; its thought is no part of it."""

    rubric: Rubric
    """R: what to score."""

    thought: Thought = Thought.NONE
    """What the policy wrote before its answer."""

    @property
    def unanswered(self) -> Unanswered | None:
        """Why there is nothing to judge; None where there is an answer."""
        return unanswered(self.response, self.thought)


class SftExample(Sealed):
    """A question with a reference answer, for the supervised warm start of the policy."""

    task_id: Identifier
    """The task that the answer belongs to."""

    question: Text
    """What is asked."""

    answer: Text = Field(repr=False)
    """What the policy learns to write."""

    context: OptionalContext = Field(default=None, repr=False)
    """What may be looked up."""

    def policy_view(self) -> PolicyView:
        """Return what the policy sees before it answers."""
        return PolicyView(
            task_id=self.task_id, question=self.question, context=self.context
        )


def paper_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row whose criteria are under the paper's key, `criteria`.

    Args:
        row: has `criteria`, and comes back as it is; or has them in `rubric`, as a list, as
            `{"criteria": [...]}`, or as one of these in JSON.

    Raises:
        SchemaError: a rubric that is a text and not JSON.
    """
    if row.get("rubric") is None or row.get("criteria") is not None:
        return dict(row)
    rest = {
        name: value for name, value in row.items() if name not in {"rubric", "criteria"}
    }
    return {**rest, "criteria": criteria_of(row["rubric"], column="rubric")}


def criteria_of(rubric: object, *, column: str) -> object:
    """Return the criteria of a column, whatever a file format has made of them.

    Raises:
        SchemaError: a text that is not JSON.
    """
    if isinstance(rubric, str):
        try:
            rubric = decode(rubric)
        except NotJsonError as error:
            problem = f"the column {column!r} is a text that is {error}"
            raise SchemaError(problem, field=column) from None
    rubric = without_nulls(rubric)
    if isinstance(rubric, dict):
        rubric = cast("dict[str, object]", rubric).get("criteria")
    return rubric


def without_nulls(value: object) -> object:
    """Drop the keys without a value, which Arrow gives to every row that lacks a field."""
    match value:
        case Mapping():
            fields = cast("Mapping[str, object]", value)
            return {
                key: without_nulls(item)
                for key, item in fields.items()
                if item is not None
            }
        case str() | bytes():
            return value
        case Sequence():
            return [without_nulls(item) for item in cast("Sequence[object]", value)]
        case _:
            # A list column read through pandas is an array, and a number in it a scalar.
            to_list = getattr(value, "tolist", None)
            return value if to_list is None else without_nulls(to_list())


class DocumentAnalysis(Sealed):
    """s(d): what stage 1 of synthesis found in the document.

    `repr` leaves out what may quote it; a task's `repr` and `model_dump` leave it out whole.

    Source: paper, §3.4, Stage 1.
    """

    genre: Text = ""
    """Kind of document, such as "textbook section"."""

    contribution: Text = Field(default="", repr=False)
    """What the document is there to say."""

    concepts: Many[Text] = Field(default=(), repr=False)
    """Central concepts."""

    depth: Text = ""
    """Technical depth, such as "graduate"."""

    reasoning_mode: Text = ""
    """Dominant mode of reasoning, such as "derivation"."""


def task_id_of(doc_hash: str, question: str, rubric: Rubric) -> str:
    """Return the id of the task that these make: 16 hex digits."""
    content = [doc_hash, question, rubric.reveal()]
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _with_text(grounding: Grounding) -> Grounding:
    not_blank(grounding.reveal())
    return grounding


def _passage_hash(fields: dict[str, Any]) -> str:
    return fields["grounding"].sha256


class Task(Sealed):
    """(x, g, R): a question, its passage and its rubric.

    `repr` and `model_dump` show the question, the hash, and the criteria's ids and weights;
    `to_json(reveal_grounding=True)` is the way to a dataset file.

    Source: paper, §3, Method.
    """

    question: Prose
    """x: all that the policy will see."""

    grounding: Annotated[Grounding, AfterValidator(_with_text)] = Field(exclude=True)
    """g: the passage, for the judge."""

    rubric: Rubric
    """R: what the judge scores."""

    question_rationale: Text = Field(default="", repr=False, exclude=True)
    """Why the question is worth asking."""

    document_analysis: DocumentAnalysis | None = Field(
        default=None, repr=False, exclude=True
    )
    """What is known of the document, if it was analysed."""

    doc_hash: Identifier = Field(default_factory=_passage_hash)
    """Identifies the document, and so the split; by default the passage's SHA-256."""

    reference_answer: Text | None = Field(default=None, repr=False, exclude=True)
    """An answer written from the passage, for the warm start and as a ceiling."""

    context: OptionalContext = Field(default=None, repr=False)
    """What the policy may look up beside the question; None for a closed-book task."""

    @property
    def task_id(self) -> str:
        """16 hex digits from the document's hash, the question and the whole rubric.

        The context is no part of it: what is judged, and by what, stays the same.
        """
        return task_id_of(self.doc_hash, self.question, self.rubric)

    def policy_view(self) -> PolicyView:
        """Return what the policy may see."""
        return PolicyView(
            task_id=self.task_id, question=self.question, context=self.context
        )

    def sft_example(self) -> SftExample | None:
        """Return the question with its reference answer; None where there is none."""
        if not self.reference_answer:
            return None
        return SftExample(
            task_id=self.task_id,
            question=self.question,
            answer=self.reference_answer,
            context=self.context,
        )

    def judge_view(self, response: str | Answer) -> JudgeView:
        """Return what the judge needs to score this response.

        Args:
            response: a completion, of which the answer is taken as `answer_of` does by default; or
                the answer of one.
        """
        answer = answer_of(response) if isinstance(response, str) else response
        return JudgeView(
            task_id=self.task_id,
            question=self.question,
            grounding=self.grounding,
            response=answer.text,
            thought=answer.thought,
            rubric=self.rubric,
        )

    @classmethod
    def from_json(cls, row: Mapping[str, object]) -> Task:
        """Read the paper's JSON: `question`, `passage`, `criteria` and the optional rest.

        The criteria may be in `rubric` instead, as rows of other stacks have them.

        Raises:
            SchemaError: a missing, unknown or ill-typed field, named with its path.

        Source: paper, §app:data_pipeline, Data schema.
        """
        if not isinstance(row, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # a boundary
            raise SchemaError(
                f"a task is read from a mapping, not {type(row).__name__}"
            )
        return TaskRow.model_validate(paper_row(row)).task()

    def to_json(self, *, reveal_grounding: bool = False) -> dict[str, object]:
        """Return the paper's JSON, or without `reveal_grounding` only what the policy may see.

        Args:
            reveal_grounding: give every field. Such a row must not reach the policy's side.

        Returns:
            With `reveal_grounding` the paper's keys, and `reference_answer` and `context` if there
            are any. Without it `task_id`, `question`, `doc_hash`, each criterion's id and weight,
            and `context` if there is one.

        Source: paper, §app:data_pipeline, Data schema.
        """
        found = self.model_dump(mode="json", include={"context"})
        if not reveal_grounding:
            shown = {
                "task_id": self.task_id,
                "question": self.question,
                "doc_hash": self.doc_hash,
            }
            return {**shown, "criteria": [c.model_dump() for c in self.rubric], **found}
        analysis = self.document_analysis
        row: dict[str, object] = {
            "question": self.question,
            "passage": self.grounding.reveal(),
            "criteria": self.rubric.reveal(),
            "question_rationale": self.question_rationale,
            "document_analysis": analysis.model_dump(mode="json") if analysis else None,
            "doc_hash": self.doc_hash,
        }
        if self.reference_answer is not None:
            row["reference_answer"] = self.reference_answer
        return row | found


class TaskRow(Sealed):
    """The paper's JSON as it is written, so that an error's path is the path in the file."""

    question: Prose
    """x."""

    passage: Prose = Field(repr=False)
    """g, as plain text: of a row that arrives, never of a task that is kept."""

    criteria: Criteria
    """R."""

    question_rationale: Text = Field(default="", repr=False)
    """Why the question is worth asking."""

    document_analysis: DocumentAnalysis | None = Field(default=None, repr=False)
    """What is known of the document, if it was analysed."""

    doc_hash: Identifier | None = None
    """Identifies the document; left out, the passage's SHA-256."""

    reference_answer: Text | None = Field(default=None, repr=False)
    """An answer written from the passage."""

    context: OptionalContext = Field(default=None, repr=False)
    """What the policy may look up."""

    def task(self) -> Task:
        """Return the task, with its passage out of sight."""
        named_alike = dict(self)
        grounding = Grounding(named_alike.pop("passage"))
        rubric = Rubric(criteria=named_alike.pop("criteria"))
        named_alike["doc_hash"] = self.doc_hash or grounding.sha256
        return Task(grounding=grounding, rubric=rubric, **named_alike)
