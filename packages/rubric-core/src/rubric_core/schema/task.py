"""A task: question, passage and rubric; and the row of a file that it is read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import AfterValidator, Field

from rubric_core.errors import NotJsonError, SchemaError
from rubric_core.files import text_sha256
from rubric_core.schema.answer import Answer, answer_of
from rubric_core.schema.context import OptionalContext
from rubric_core.schema.conversation import IsConversation
from rubric_core.schema.rubric import Criteria, Grounding, Rubric
from rubric_core.schema.sealed import (
    Hidden,
    Identifier,
    Many,
    Prose,
    Sealed,
    Text,
    Unshown,
    not_blank,
)
from rubric_core.schema.views import JudgeView, PolicyView, SftExample
from rubric_core.strict_json import canonical_json, decode


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
    paper = dict(row)
    rubric = paper.pop("rubric")
    paper.pop("criteria", None)
    paper["criteria"] = criteria_of(rubric, column="rubric")
    return paper


def criteria_of(rubric: object, *, column: str) -> object:
    """Return the criteria in a column, in any form that a file format gives them.

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
    """Drop the keys whose value is null: Arrow adds them to every row that lacks a field."""
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
            # pandas reads a list column as arrays, and the numbers in it as scalars.
            to_list = getattr(value, "tolist", None)
            if to_list is None:
                return value
            return without_nulls(to_list())


class DocumentAnalysis(Sealed):
    """s(d): the analysis of a document by stage 1 of synthesis.

    Its `repr` leaves out fields that may quote the document; a task's `repr` and `model_dump` leave
    out the whole analysis.

    Source: paper, §3.4, Stage 1.
    """

    genre: Text = ""
    """Kind of document, such as "textbook section"."""

    contribution: Unshown[Text] = ""
    """The main point of the document."""

    concepts: Unshown[Many[Text]] = ()
    """Central concepts."""

    depth: Text = ""
    """Technical depth, such as "graduate"."""

    reasoning_mode: Text = ""
    """Dominant mode of reasoning, such as "derivation"."""


def task_id_of(doc_hash: str, question: str, rubric: Rubric) -> str:
    """Return the id of the task with these parts: 16 hex digits."""
    content = [doc_hash, question, rubric.reveal()]
    return text_sha256(canonical_json(content))[:16]


def _not_blank_grounding(grounding: Grounding) -> Grounding:
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
    """x: the question, all that a policy sees in a closed-book task."""

    grounding: Annotated[Grounding, AfterValidator(_not_blank_grounding)] = Field(
        exclude=True
    )
    """g: the passage, for the judge."""

    rubric: Rubric
    """R: the criteria that the judge scores."""

    question_rationale: Hidden[Text] = ""
    """Reason why the question is worth asking."""

    document_analysis: Hidden[DocumentAnalysis | None] = None
    """The analysis of the document, if there is one."""

    doc_hash: Identifier = Field(default_factory=_passage_hash)
    """Identifier of the document, and so of the split; by default the passage's SHA-256."""

    reference_answer: Hidden[Text | None] = None
    """An answer written from the passage, for the warm start and as a ceiling."""

    context: OptionalContext = None
    """Sections that the policy may look up beside the question; None for a closed-book task."""

    conversation: IsConversation = False
    """Whether the question is a conversation of several messages, written as one text."""

    @property
    def task_id(self) -> str:
        """16 hex digits from the document's hash, the question and the whole rubric.

        The context is not part of it: what is judged, and by what, stays the same.
        """
        return task_id_of(self.doc_hash, self.question, self.rubric)

    def policy_view(self) -> PolicyView:
        """Return the view of the policy."""
        return PolicyView(
            task_id=self.task_id,
            question=self.question,
            context=self.context,
            conversation=self.conversation,
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
            conversation=self.conversation,
        )

    def judge_view(self, response: str | Answer) -> JudgeView:
        """Return the view of the judge for one response.

        Args:
            response: a completion, whose answer is found as `answer_of` does by default; or
                the answer itself.

        Raises:
            SchemaError: a criterion judges something that one response does not have: a later turn,
                or the use of tools.
        """
        answer = answer_of(response) if isinstance(response, str) else response
        return self.whole_view(answer).of_answer()

    def whole_view(self, answer: Answer) -> JudgeView:
        """Return the view of the last reply with all criteria, which `trace_views` divides.

        Args:
            answer: the last reply of a trace.
        """
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
        """Read the paper's JSON: `question`, `passage`, `criteria` and the optional fields.

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
            With `reveal_grounding` the paper's keys, and `reference_answer`, `context` and
            `conversation` if there are any. Without it `task_id`, `question`, `doc_hash`, each
            criterion's id and weight, and `context` and `conversation` if there are any.

        Source: paper, §app:data_pipeline, Data schema.
        """
        shown = self.model_dump(mode="json", include={"context", "conversation"})
        if not reveal_grounding:
            public: dict[str, object] = {
                "task_id": self.task_id,
                "question": self.question,
                "doc_hash": self.doc_hash,
                "criteria": [criterion.model_dump() for criterion in self.rubric],
            }
            return public | shown
        analysis = None
        if self.document_analysis is not None:
            analysis = self.document_analysis.model_dump(mode="json")
        row: dict[str, object] = {
            "question": self.question,
            "passage": self.grounding.reveal(),
            "criteria": self.rubric.reveal(),
            "question_rationale": self.question_rationale,
            "document_analysis": analysis,
            "doc_hash": self.doc_hash,
        }
        if self.reference_answer is not None:
            row["reference_answer"] = self.reference_answer
        return row | shown


class TaskRow(Sealed):
    """The paper's JSON as it is written, so that an error's path is the path in the file."""

    question: Prose
    """x: the question."""

    passage: Unshown[Prose]
    """g, as plain text: only a row holds it so, never a task."""

    criteria: Criteria
    """R: the criteria."""

    question_rationale: Unshown[Text] = ""
    """Reason why the question is worth asking."""

    document_analysis: Unshown[DocumentAnalysis | None] = None
    """The analysis of the document, if there is one."""

    doc_hash: Identifier | None = None
    """Identifier of the document; by default the passage's SHA-256."""

    reference_answer: Unshown[Text | None] = None
    """An answer written from the passage."""

    context: OptionalContext = None
    """Sections that the policy may look up."""

    conversation: IsConversation = False
    """Whether the question is a conversation of several messages, written as one text."""

    def task(self) -> Task:
        """Return the task, with its passage hidden."""
        grounding = Grounding(self.passage)
        return Task(
            question=self.question,
            grounding=grounding,
            rubric=Rubric(criteria=self.criteria),
            question_rationale=self.question_rationale,
            document_analysis=self.document_analysis,
            doc_hash=self.doc_hash or grounding.sha256,
            reference_answer=self.reference_answer,
            context=self.context,
            conversation=self.conversation,
        )
