"""The judge's desk as the trainer asks it: by groups of responses."""

# pyright: reportMissingTypeStubs=false
# Ray's handles have no types.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rubric_train_openrlhf.cluster.crossing.desk_calls import ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_train_openrlhf.cluster.sampling.groups import Group
    from rubric_train_openrlhf.step.credit import StepCredit
    from rubric_train_openrlhf.step.heldout import HeldoutReward


class GroupDesk:
    """Hands over names of judgements and lengths, never a text.

    What was drawn for a step is remembered here and not at the desk, which may die in between.
    """

    def __init__(self, desk: Any) -> None:  # noqa: ANN401  # Ray's handle
        """Take the desk of the run."""
        self._desk = desk
        self._step: int | None = None
        self._drawn: list[list[str]] = []

    def spread(self, step: int, groups: Sequence[Group]) -> list[bool]:
        """Whether the rewards of each group differ; once for every round of a step.

        Raises:
            JudgeAbortError: too many judgements of the step failed so far.
        """
        if step != self._step:
            self._step, self._drawn = step, []
        differs = ask(self._desk.spread, step, *_columns(groups), self._drawn)
        self._drawn += [group.judgements for group in groups]
        return differs

    def credit(self, step: int, groups: Sequence[Group]) -> StepCredit:
        """Divide the credit of a step between the groups that it is trained on.

        Raises:
            JudgeAbortError: too many judgements failed.
        """
        kept = {tuple(group.judgements) for group in groups}
        drawn = self._drawn if step == self._step else []
        dropped = [names for names in drawn if tuple(names) not in kept]
        return ask(self._desk.credit, step, *_columns(groups), dropped)

    def heldout(self, step: int, groups: Sequence[Group]) -> HeldoutReward:
        """Average the rewards of a held-out pass.

        Raises:
            JudgeAbortError: too many judgements failed.
        """
        return ask(self._desk.heldout, step, [group.judgements for group in groups])


def _columns(
    groups: Sequence[Group],
) -> tuple[list[list[str]], list[list[int]], list[list[bool]]]:
    return (
        [group.judgements for group in groups],
        [group.lengths for group in groups],
        [group.ended for group in groups],
    )
