"""Dynamic sampling: train on groups whose rewards differ (DAPO)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rubric_train_openrlhf.errors import NoInformativePromptError
from rubric_train_openrlhf.local.batch import JudgedBatch, join_batches

if TYPE_CHECKING:
    import numpy.typing as npt

Draw = Callable[[int, int], JudgedBatch]
"""(round, number of prompts) → judged groups of new prompts."""


class Selection(NamedTuple):
    """The groups to train on, and all that were drawn for them."""

    kept: JudgedBatch
    drawn: JudgedBatch


def draw_informative(
    draw: Draw,
    *,
    spread: Callable[[JudgedBatch], npt.NDArray[np.bool_]],
    wanted: int,
    max_resample_rounds: int,
    step: int,
) -> Selection:
    """Draw prompts until enough of their groups are informative.

    Each round draws as many new prompts as are still missing, so nothing that could be trained on
    is thrown away.

    Raises:
        NoInformativePromptError: still too few after the last round.
    """
    drawn: list[JudgedBatch] = []
    kept: list[JudgedBatch] = []
    found = 0
    for number in range(max_resample_rounds + 1):
        batch = draw(number, wanted - found)
        drawn.append(batch)
        indices = [int(index) for index in np.flatnonzero(spread(batch))]
        if indices:
            kept.append(batch.take_prompts(indices))
            found += len(indices)
        if found == wanted:
            return Selection(kept=join_batches(kept), drawn=join_batches(drawn))
    n_drawn = sum(len(batch.views) for batch in drawn)
    raise NoInformativePromptError(
        f"step {step}: only {found} of {wanted} prompts had responses of different reward, after "
        f"{n_drawn} prompts in {max_resample_rounds + 1} rounds; check that the judge tells "
        "responses apart, raise rollout.group_size or dynamic_sampling.max_resample_rounds, or "
        "switch dynamic_sampling off",
        step=step,
        wanted=wanted,
        found=found,
    )
