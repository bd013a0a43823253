"""Which responses an optimiser update takes, whatever the number of processes that train."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shares:
    """How the responses of a step are divided."""

    updates: int
    """Optimiser updates, each on an equal share."""
    ranks: int
    """Processes that train, each of which takes an equal part of every share."""


def update_order(n: int, shares: Shares) -> list[int]:
    """Order rows so that every update takes a contiguous share of them.

    OpenRLHF hands each rank a contiguous part of the rows, and every update the next part of what
    each rank has. Rows are laid out so that the k-th part of all ranks together is the k-th share.

    Args:
        n: rows; a multiple of updates · ranks.
        shares: updates and ranks.

    Returns:
        The row for each place.
    """
    rows = np.arange(n).reshape(shares.updates, shares.ranks, -1)
    return [int(row) for row in rows.transpose(1, 0, 2).reshape(-1)]
