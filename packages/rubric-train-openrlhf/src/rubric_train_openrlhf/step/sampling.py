"""Drawing the groups of a step: dynamic sampling (DAPO), and where the time went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rubric_train_openrlhf.errors import NoInformativePromptError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_Round = TypeVar("_Round")


@dataclass(frozen=True)
class Timing:
    """Where the time of a pass over prompts went."""

    generate_s: float = 0.0
    judge_s: float = 0.0
    """Summed over what was judged side by side."""
    judge_wait_s: float = 0.0
    """From the end of the last response to the last judgement."""

    def __add__(self, other: Timing) -> Timing:
        """Sum of two passes."""
        return Timing(
            generate_s=self.generate_s + other.generate_s,
            judge_s=self.judge_s + other.judge_s,
            judge_wait_s=self.judge_wait_s + other.judge_wait_s,
        )


def draw_informative(
    draw: Callable[[int, int, int], _Round],
    *,
    spread: Callable[[_Round], Sequence[bool]],
    wanted: int,
    max_resample_rounds: int,
    step: int,
) -> list[tuple[_Round, list[int]]]:
    """Draw prompts until enough of their groups have rewards that differ.

    Each round draws as many new prompts as are still missing, so nothing that could be trained on
    is thrown away.

    Args:
        draw: (round, prompts drawn before it, number of prompts) → judged groups of new prompts.
        spread: whether the rewards of each group of a round differ.
        wanted: number of groups.
        max_resample_rounds: rounds after the first.
        step: that the groups are for.

    Returns:
        Every round, with the places of its groups to train on.

    Raises:
        NoInformativePromptError: still too few after the last round.
    """
    rounds: list[tuple[_Round, list[int]]] = []
    drawn = found = 0
    for number in range(max_resample_rounds + 1):
        groups = draw(number, drawn, wanted - found)
        differs = spread(groups)
        kept = [place for place, keep in enumerate(differs) if keep]
        rounds.append((groups, kept))
        drawn += len(differs)
        found += len(kept)
        if found == wanted:
            return rounds
    raise NoInformativePromptError(
        f"step {step}: only {found} of {wanted} prompts had responses of different reward, after "
        f"{drawn} prompts in {max_resample_rounds + 1} rounds; check that the judge tells "
        "responses apart, raise rollout.group_size or dynamic_sampling.max_resample_rounds, or "
        "switch dynamic_sampling off",
        step=step,
        wanted=wanted,
        found=found,
    )
