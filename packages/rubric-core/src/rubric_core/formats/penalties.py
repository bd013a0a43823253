"""Signed weights made non-negative, without a change to any group-relative advantage.

A source may take points away: Σ_met p_j with some p_j < 0, over P = Σ_{p_j > 0} p_j. A penalty
becomes a criterion of weight |p_j| that is fully met where the fault is avoided. With N = Σ |p_j|
over the penalties,

    r = (Σ_met p_j + N) / (P + N),    source score = r · (P + N)/P − N/P,

so the source's score is increasing and linear in r: equal orders, equal signs, and advantages that
are normalised by the group's spread are equal too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rubric_core.rubric import Criterion, Rubric

_MARK: Final = "To avoid: "
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


def penalty_description(fault: str) -> str:
    """Return the description of a criterion that takes points away for a fault."""
    return _MARK + fault


def fault_of(criterion: Criterion) -> str:
    """Return what a penalty takes points for, as the source says it."""
    return criterion.description.removeprefix(_MARK)


def is_penalty(criterion: Criterion) -> bool:
    """Return whether a criterion came from negative points."""
    return criterion.description.startswith(_MARK)


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
