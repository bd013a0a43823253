"""Drafts of tasks from foreign records, and tasks made of them, with non-negative weights."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from rubric_core.configuration import kind_remedy
from rubric_core.errors import ConfigError
from rubric_core.formats.fields import Fields
from rubric_core.schema.answer import Thought, answer_of
from rubric_core.schema.conversation import Turn, as_question
from rubric_core.schema.kinds import TO_AVOID, CriterionKind
from rubric_core.schema.rubric import Criterion, Grounding, Rubric
from rubric_core.schema.task import Task

PENALTY_GUIDE = (
    "A penalty. Full marks if the response does not do what is described; 0 if it does."
)


@dataclass(frozen=True)
class SourceScale:
    """The map from a reward to the source's score: slope · r + offset."""

    slope: float
    offset: float

    def source_score(self, reward: float) -> float:
        """Return the score on the source's scale, before any clipping of its own.

        Args:
            reward: r ∈ [0, 1], the normalised reward.
        """
        return self.slope * reward + self.offset


def fault_of(criterion: Criterion) -> str:
    """Return the fault that a penalty takes points for, in the source's words."""
    return criterion.description.removeprefix(TO_AVOID)


def is_penalty(criterion: Criterion) -> bool:
    """Return whether a criterion came from negative points."""
    return criterion.description.startswith(TO_AVOID)


def source_scale(rubric: Rubric) -> SourceScale:
    """Return the map from our reward to Σ_met p_j / P, the score of signed checklists.

    Args:
        rubric: an imported rubric.

    Returns:
        Slope (P + N)/P and offset −N/P; 1 and 0 without penalties. A rubric of penalties alone has
        P = 0: its scale counts the points lost, slope N and offset −N.
    """
    lost = sum(c.weight for c in rubric if is_penalty(c))
    positive = rubric.total_weight - lost
    if positive <= 0:
        return SourceScale(slope=lost, offset=-lost)
    return SourceScale(slope=(positive + lost) / positive, offset=-lost / positive)


NO_PASSAGE = (
    "(This task has no source passage. Judge by the question and the criteria.)"
)


@dataclass(frozen=True, slots=True)
class Points:
    """One criterion of a source, with its sign."""

    text: str
    """The quality or fault to look for."""
    points: float = 1.0
    """Points awarded where it is found; negative for a fault."""
    id: str = ""
    title: str = ""
    guide: str = ""
    """How it is scored; for a penalty, in shares of the weight that is kept."""
    above: tuple[str, ...] = ()
    """The criteria that it is part of, from the top."""
    evidence: tuple[str, ...] = ()
    """Passages that a judge may check against."""
    kind: CriterionKind | None = None
    """The kind, where the source names one of ours; the source's own labels are not kinds."""
    avoidance: bool = False
    """Whether the points are negative although the text says what a good response does."""

    @property
    def takes_away(self) -> bool:
        """Whether the criterion is met by a fault."""
        return self.points < 0 and not self.avoidance


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with its criteria, as a source has them."""

    criteria: tuple[Points, ...]
    turns: tuple[Turn, ...] = ()
    """Role and content of each message of the question; none until a rubric gets its question."""
    source_id: str = ""
    reference: str = ""
    """A reference answer; the judge also checks against it where there is no passage."""
    passage: str = ""


@dataclass(frozen=True)
class Imported:
    """A task and its id in the source."""

    source_id: str
    """Empty where the source has no ids."""
    task: Task
    fields: Fields | None = None
    """Account of every value of the row; None for the paper's own schema, which has no others.
    Where a rubric meets several questions, the first task has the rubric's account."""
    reference_thought: Thought = Thought.NONE
    """Whether a thought was cut from the reference answer; a thought alone is not an answer."""


def imported(draft: Draft, fields: Fields | None = None) -> Imported:
    """Make a task of a draft.

    Args:
        draft: the question and criteria that were read.
        fields: the account of every value of the row.

    Returns:
        The task. Its passage is the source's, else the evidence of its criteria, else the reference
        answer, else a sentence that there is none. The document is then the question, so that a
        split keeps equal questions together.

    Raises:
        SchemaError: no criteria, no weight, or a text that no file can hold.
    """
    evidence: dict[str, None] = {}
    for criterion in draft.criteria:
        evidence |= dict.fromkeys(criterion.evidence)
    reference = answer_of(draft.reference)
    passage = draft.passage or "\n\n".join(evidence) or reference.text or NO_PASSAGE
    question = as_question(draft.turns)
    grounding = Grounding(passage)
    if draft.passage:
        doc_hash = grounding.sha256
    else:
        content = question.encode("utf-8", "surrogatepass")
        doc_hash = hashlib.sha256(content).hexdigest()
    task = Task(
        question=question,
        grounding=grounding,
        rubric=Rubric(criteria=_criteria(draft.criteria)),
        doc_hash=doc_hash,
        reference_answer=reference.text or None,
        conversation=_is_conversation(draft.turns, question),
    )
    return Imported(draft.source_id, task, fields, reference.thought)


def _is_conversation(turns: Sequence[Turn], question: str) -> bool:
    """Return whether a question is several messages, which a user's ends."""
    if not turns or turns[-1][0] not in ("", "user"):
        return False
    return question != turns[-1][1]


def _criteria(drafts: tuple[Points, ...]) -> tuple[Criterion, ...]:
    names = [draft.id or f"c{number}" for number, draft in enumerate(drafts, 1)]
    return tuple(map(_criterion, _unique(names), drafts))


def _criterion(name: str, draft: Points) -> Criterion:
    description = draft.text
    if draft.takes_away:
        description = TO_AVOID + description
    return Criterion(
        id=name,
        weight=abs(draft.points),
        name=draft.title,
        description=description,
        scoring_guide=_guide(draft),
        kind=draft.kind,
    )


def _guide(draft: Points) -> str:
    lines: list[str] = []
    if draft.above:
        lines.append("Part of: " + " > ".join(draft.above))
    if draft.guide:
        lines.append(draft.guide)
    elif draft.takes_away:
        lines.append(PENALTY_GUIDE)
    return "\n".join(lines)


def _unique(ids: list[str]) -> list[str]:
    """Return the ids, numbered where they are not unique."""
    if len(set(ids)) == len(ids):
        return ids
    return [f"{number}_{name}" for number, name in enumerate(ids, 1)]


def unknown_format(name: str, known: Sequence[str]) -> ConfigError:
    """Return the error that there is no such format, with the one that may be meant."""
    return ConfigError(
        f"no format is called {name!r}; {kind_remedy(name, known)}", location="format"
    )
