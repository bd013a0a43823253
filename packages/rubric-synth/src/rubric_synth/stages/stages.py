"""The three stages from a document to questions with rubrics, as protocols over typed objects.

A stage that cannot work with a document raises `StageRefusal` with a counted reason. Drafts hold
what a stage proposed, valid or not; the quality checks decide whether a draft becomes a task.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from pydantic import Field

from rubric_core import Criterion, CriterionKind, DocumentAnalysis
from rubric_synth.calls import DocumentCalls
from rubric_synth.config import Frozen, TaskType
from rubric_synth.document import Document, RefusedError, RejectionReason


class StageRefusal(RefusedError):  # noqa: N818 - an answer of a stage, not a fault
    """A document that a stage cannot turn into a question."""


def refuse(reason: RejectionReason, detail: str = "", *, when: bool = True) -> None:
    """Raise a `StageRefusal` where something is wrong.

    Raises:
        StageRefusal: It is.
    """
    if when:
        raise StageRefusal(reason, detail)


class CriterionDraft(Frozen):
    """A criterion as proposed: every component of the paper's definition, not yet checked."""

    id: str
    """Its id within the rubric."""
    weight: float
    """w: what it contributes to the overall quality of an answer."""
    name: str = ""
    """A short title."""
    description: str = ""
    """η: what is asked."""
    required_elements: tuple[str, ...] = ()
    """E: what an answer must hold."""
    scoring_guide: str = ""
    """Amounts of credit, and what earns them."""
    verification_method: str = ""
    """ν: how to check; the first line may be a directive that a program can execute."""
    expected_keywords: tuple[str, ...] = ()
    """κ: terms of a good answer."""
    expected_concepts: tuple[str, ...] = ()
    """Ideas of a good answer."""
    kind: CriterionKind | None = None
    """Kind of claim that the description states."""
    wrong_answer: str = ""
    """An answer that must not earn the criterion, where a model wrote one; not published."""


TEXT_FIELDS = (
    "id",
    "name",
    "description",
    "scoring_guide",
    "verification_method",
)
"""Fields of a criterion that hold one text each."""
TERM_FIELDS = ("required_elements", "expected_keywords", "expected_concepts")
"""Fields of a criterion that hold a tuple of texts each."""


def terms_of(criterion: Criterion | CriterionDraft) -> tuple[str, ...]:
    """Return the required elements, keywords and concepts of a criterion."""
    return tuple(term for name in TERM_FIELDS for term in getattr(criterion, name))


class Draft(Frozen):
    """One tuple (question, passage, rubric) as proposed, with rationale and reference answer."""

    question: str
    """x: self-contained."""
    passage: str = Field(repr=False)
    """The part of the document that grounds the rubric."""
    criteria: tuple[CriterionDraft, ...] = Field(repr=False)
    """R."""
    question_rationale: str = ""
    """Why this question is worth asking of this document."""
    reference_answer: str = Field(default="", repr=False)
    """An answer that satisfies the rubric."""
    task_type: TaskType = "open"
    """Open; or quantitative or code, with criteria that a program can check."""


Drafts = Sequence[Draft | StageRefusal]
"""Results of stage 2: drafts, and a refusal for each that cannot be used."""


@runtime_checkable
class Analyst(Protocol):
    """Stage 1: semantic analysis s(d)."""

    async def analyse(self, document: Document) -> DocumentAnalysis:
        """Return genre, contribution, concepts, depth and mode of reasoning of a document.

        Raises:
            StageRefusal: The document cannot be used.
        """
        ...


@runtime_checkable
class Synthesiser(Protocol):
    """Stage 2: joint synthesis of questions and rubrics, conditioned on (s(d), d)."""

    async def synthesise(
        self, document: Document, analysis: DocumentAnalysis
    ) -> Drafts:
        """Return the K_d drafts of a document; one that cannot be used leaves its refusal instead.

        Raises:
            StageRefusal: The document cannot be used.
        """
        ...


@runtime_checkable
class PlainSynthesiser(Synthesiser, Protocol):
    """Stage 2 where it reads no analysis: a document without a draft is not analysed."""

    async def drafts_of(self, document: Document) -> Drafts:
        """Return what `synthesise` does.

        Raises:
            StageRefusal: The document cannot be used.
        """
        ...


@runtime_checkable
class Enricher(Protocol):
    """Stage 3: cues, terminology, concepts and verification patterns for each criterion."""

    async def enrich(
        self, document: Document, analysis: DocumentAnalysis, draft: Draft
    ) -> Draft:
        """Return the draft with enriched criteria.

        Raises:
            StageRefusal: The draft cannot be used.
        """
        ...


class Stages(NamedTuple):
    """The three stages of one synthesiser."""

    analyst: Analyst
    synthesiser: Synthesiser
    enricher: Enricher


class StagesFactory(Protocol):
    """Makes the stages for one document; cheap, for it is called for each."""

    def __call__(self, calls: DocumentCalls) -> Stages:
        """Return stages whose questions to a model go through `calls`, which remembers them."""
        ...
