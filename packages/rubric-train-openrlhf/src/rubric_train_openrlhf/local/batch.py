"""The judged groups of one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rubric_train_openrlhf.policy import concatenate
from rubric_train_openrlhf.reward.credit import Sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_core import JudgeResult, PolicyView
    from rubric_train_openrlhf.policy import Rollouts


@dataclass(frozen=True)
class JudgedBatch:
    """P prompts with G judged responses each; rows are prompt-major (row p·G + g)."""

    views: tuple[PolicyView, ...]
    rollouts: Rollouts
    responses: tuple[str, ...]
    results: tuple[JudgeResult, ...]

    @property
    def group_size(self) -> int:
        """G."""
        return self.rollouts.group_size

    @property
    def results_PG(self) -> list[tuple[JudgeResult, ...]]:
        """Results by group."""
        size = self.group_size
        return [self.results[start : start + size] for start in range(0, len(self.results), size)]

    @property
    def sizes(self) -> Sizes:
        """Lengths and ends by group."""
        shape = (len(self.views), self.group_size)
        return Sizes(
            lengths_PG=self.rollouts.lengths_B.cpu().numpy().reshape(shape),
            ended_PG=self.rollouts.ended_B.cpu().numpy().reshape(shape),
        )

    def take_prompts(self, indices: Sequence[int]) -> JudgedBatch:
        """Keep these groups, in this order."""
        size = self.group_size
        rows = [index * size + member for index in indices for member in range(size)]
        return JudgedBatch(
            views=tuple(self.views[index] for index in indices),
            rollouts=self.rollouts.take_prompts(indices),
            responses=tuple(self.responses[row] for row in rows),
            results=tuple(self.results[row] for row in rows),
        )


def join_batches(parts: Sequence[JudgedBatch]) -> JudgedBatch:
    """Put the groups of several batches one after another."""
    return JudgedBatch(
        views=tuple(view for part in parts for view in part.views),
        rollouts=concatenate([part.rollouts for part in parts]),
        responses=tuple(response for part in parts for response in part.responses),
        results=tuple(result for part in parts for result in part.results),
    )
