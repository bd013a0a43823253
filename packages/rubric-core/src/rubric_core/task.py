"""A task: question, passage and rubric, as the paper's data schema has them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from rubric_core.errors import SchemaError
from rubric_core.fields import Identifier, Many, Prose, Text, not_blank
from rubric_core.grounding import Grounding
from rubric_core.row_form import paper_row
from rubric_core.rubric import Criteria, Rubric
from rubric_core.sealed import Sealed
from rubric_core.views import JudgeView, PolicyView


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

    document_analysis: DocumentAnalysis | None = Field(default=None, repr=False, exclude=True)
    """What is known of the document, if it was analysed."""

    doc_hash: Identifier = Field(default_factory=_passage_hash)
    """Identifies the document, and so the split; by default the passage's SHA-256."""

    reference_answer: Text | None = Field(default=None, repr=False, exclude=True)
    """An answer written from the passage, for the warm start and as a ceiling."""

    @property
    def task_id(self) -> str:
        """16 hex digits from the document's hash, the question and the whole rubric."""
        return task_id_of(self.doc_hash, self.question, self.rubric)

    def policy_view(self) -> PolicyView:
        """Return what the policy may see."""
        return PolicyView(task_id=self.task_id, question=self.question)

    def judge_view(self, response: str) -> JudgeView:
        """Return what the judge needs to score this response."""
        return JudgeView(
            task_id=self.task_id,
            question=self.question,
            grounding=self.grounding,
            response=response,
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
            raise SchemaError(f"a task is read from a mapping, not {type(row).__name__}")
        return TaskRow.model_validate(paper_row(row)).task()

    def to_json(self, *, reveal_grounding: bool = False) -> dict[str, object]:
        """Return the paper's JSON, or without `reveal_grounding` only what the policy may see.

        Args:
            reveal_grounding: give every field. Such a row must not reach the policy's side.

        Returns:
            With `reveal_grounding` the paper's keys, and `reference_answer` if there is one.
            Without it `task_id`, `question`, `doc_hash`, and each criterion's id and weight.

        Source: paper, §app:data_pipeline, Data schema.
        """
        if not reveal_grounding:
            return {
                "task_id": self.task_id,
                "question": self.question,
                "doc_hash": self.doc_hash,
                "criteria": [c.model_dump() for c in self.rubric],
            }
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
        return row


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

    def task(self) -> Task:
        """Return the task, with its passage out of sight."""
        grounding = Grounding(self.passage)
        return Task(
            question=self.question,
            grounding=grounding,
            rubric=Rubric(criteria=self.criteria),
            question_rationale=self.question_rationale,
            document_analysis=self.document_analysis,
            doc_hash=self.doc_hash or grounding.sha256,
            reference_answer=self.reference_answer,
        )
