"""Which groups of responses can teach anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def informative_groups(
    rewards_PG: npt.NDArray[np.float64], valid_PG: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Tell groups with a spread of rewards from those without.

        informative_p  ⇔  max_g R_pg > min_g R_pg   over the valid members

    The paper drops prompts with σ = 0; in floating point the spread is the exact test of it.

    Args:
        rewards_PG: shape [P, G]; masked cells may hold anything.
        valid_PG: shape [P, G]; False leaves a cell out.

    Returns:
        Shape [P]; False for a group without two different valid rewards.

    Source: paper, §C, dynamic sampling.
    Source: arXiv 2503.14476 (DAPO), §3.2, Eq. 11.
    """
    highest_P = np.where(valid_PG, rewards_PG, -np.inf).max(axis=1)
    lowest_P = np.where(valid_PG, rewards_PG, np.inf).min(axis=1)
    return highest_P > lowest_P
