"""What a foreign record says, before it becomes a task; signed weights are made non-negative."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rubric_core.configuration import kind_remedy
from rubric_core.errors import ConfigError
from rubric_core.formats.fields import Fields
from rubric_core.formats.turns import Turn, as_question
from rubric_core.schema.answer import Thought, answer_of
from rubric_core.schema.kinds import TO_AVOID, CriterionKind
from rubric_core.schema.rubric import Criterion, Grounding, Rubric
from rubric_core.schema.task import Task

PENALTY_GUIDE: Final = (
    "A penalty. Full marks if the response does not do what is described; 0 if it does."
)


@dataclass(frozen=True, slots=True)
class SourceScale:
    """source score = slope · r + offset."""

    slope: float
    offset: float

    def source_score(self, reward: float) -> float:
        """Return the score on the source's scale, before any clipping of its own.

        Args:
            reward: r ∈ [0, 1], the normalised reward.
        """
        return self.slope * reward + self.offset


def fault_of(criterion: Criterion) -> str:
    """Return what a penalty takes points for, as the source says it."""
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


NO_PASSAGE: Final = (
    "(This task has no source passage. Judge by the question and the criteria.)"
)


@dataclass(frozen=True, slots=True)
class Points:
    """One criterion of a source, with its sign."""

    text: str
    """What is looked for."""
    points: float = 1.0
    """Awarded where it is found; negative for a fault."""
    id: str = ""
    title: str = ""
    guide: str = ""
    """How it is scored; of a penalty, by what is kept."""
    above: tuple[str, ...] = ()
    """The criteria that it is part of, from the top."""
    evidence: tuple[str, ...] = ()
    """Passages that a judge may check against."""
    kind: CriterionKind | None = None
    """Where the source says one of ours; a label of its own is no kind."""
    avoidance: bool = False
    """The points are negative, but the text already says what a good response does."""

    @property
    def takes_away(self) -> bool:
        """Whether the criterion is met by a fault."""
        return self.points < 0 and not self.avoidance


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with its criteria, as a source has them."""

    criteria: tuple[Points, ...]
    turns: tuple[Turn, ...] = ()
    """Role and content of each message of the question; none until a rubric is given one."""
    source_id: str = ""
    reference: str = ""
    """A reference answer, also what the judge checks against where there is no passage."""
    passage: str = ""


@dataclass(frozen=True, slots=True)
class Imported:
    """A task and what the source calls it."""

    source_id: str
    """Empty where the source has no ids."""
    task: Task
    fields: Fields | None = None
    """What became of every value of the row; None for the paper's own schema, which has no others.
    Of a rubric that meets several questions, the first task has those of the rubric."""
    reference_thought: Thought = Thought.NONE
    """What was cut from the reference answer; one that is a thought alone is none."""


def imported(draft: Draft, fields: Fields | None = None) -> Imported:
    """Make a task of a draft.

    Args:
        draft: what was read.
        fields: what became of every value of the row.

    Returns:
        The task. Its passage is the source's, else the evidence of its criteria, else the reference
        answer, else a sentence that there is none. The document is then the question, so that a
        split keeps equal questions together.

    Raises:
        SchemaError: no criteria, no weight, or a text that no file can hold.
    """
    evidence = tuple(
        dict.fromkeys(e for criterion in draft.criteria for e in criterion.evidence)
    )
    reference = answer_of(draft.reference)
    passage = draft.passage or "\n\n".join(evidence) or reference.text or NO_PASSAGE
    question = as_question(draft.turns)
    question_hash = hashlib.sha256(
        question.encode("utf-8", "surrogatepass")
    ).hexdigest()
    task = Task(
        question=question,
        grounding=Grounding(passage),
        rubric=Rubric(criteria=_criteria(draft.criteria)),
        doc_hash=Grounding(passage).sha256 if draft.passage else question_hash,
        reference_answer=reference.text or None,
    )
    return Imported(draft.source_id, task, fields, reference.thought)


def _criteria(points: tuple[Points, ...]) -> tuple[Criterion, ...]:
    ids = _unique([one.id or f"c{number}" for number, one in enumerate(points, 1)])
    return tuple(
        Criterion(
            id=name,
            weight=abs(one.points),
            name=one.title,
            description=TO_AVOID + one.text if one.takes_away else one.text,
            scoring_guide=_guide(one),
            kind=one.kind,
        )
        for name, one in zip(ids, points, strict=True)
    )


def _guide(one: Points) -> str:
    part = "Part of: " + " > ".join(one.above) if one.above else ""
    guide = one.guide or (PENALTY_GUIDE if one.takes_away else "")
    return "\n".join(filter(None, (part, guide)))


def _unique(ids: list[str]) -> list[str]:
    numbered = [f"{number}_{name}" for number, name in enumerate(ids, 1)]
    return ids if len(set(ids)) == len(ids) else numbered


def unknown_format(name: str, known: Sequence[str]) -> ConfigError:
    """Say that there is no such format, and which one may be meant."""
    problem = f"no format is called {name!r}; {kind_remedy(name, known)}"
    return ConfigError(problem, location="format")
