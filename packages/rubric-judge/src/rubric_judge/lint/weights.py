"""Weights that do not weigh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rubric_core import Task
from rubric_judge.lint.finding import Finding

_DOMINANT_SHARE: Final = 0.5
_FEWEST_CRITERIA: Final = 3
"""Of two criteria, one always has half of the weight."""


def check_weights(task: Task) -> Iterator[Finding]:
    """Find `zero_weight`, `dominant_weight` and `few_effective_criteria`."""
    rubric = task.rubric
    for criterion in rubric:
        if criterion.weight == 0:
            yield Finding(
                code="zero_weight",
                severity="error",
                criterion_id=criterion.id,
                what="the weight is 0: the judge is asked and nothing is awarded",
                remedy="give it a weight or leave the criterion out",
            )
    weighty = [criterion for criterion in rubric if criterion.weight > 0]
    if len(weighty) < _FEWEST_CRITERIA:
        return
    heaviest = max(weighty, key=lambda criterion: criterion.weight)
    share = heaviest.weight / rubric.total_weight
    if share > _DOMINANT_SHARE:
        yield Finding(
            code="dominant_weight",
            severity="warning",
            criterion_id=heaviest.id,
            what=f"has {share:.0%} of the weight of {len(weighty)} criteria",
            remedy="split it, or lower its weight: its noise is the reward's noise",
        )
    elif rubric.effective_criteria < len(weighty) / 2:
        yield Finding(
            code="few_effective_criteria",
            severity="warning",
            what=f"{len(weighty)} criteria weigh as {rubric.effective_criteria:.1f} equal ones",
            remedy="bring the weights closer, or merge the light criteria",
        )
