"""How far a run is, for whoever waits for it."""

from __future__ import annotations

from typing import NamedTuple


class Progress(NamedTuple):
    """One look at a run."""

    done: int
    """Documents with an outcome, those of earlier runs included."""
    total: int
    """Documents to be done."""
    left_out: int
    """Documents of this run without a task."""
    calls_in_flight: int
    """Calls under way now."""
    cost_usd: float
    """Of all calls with a known price, those of earlier runs included."""
    documents_per_s: float
    """Over the last half minute, or longer where less is done; 0 while it is not known."""

    @property
    def eta_s(self) -> float | None:
        """Seconds that the rest will take at this rate; None where there is none yet."""
        if not self.documents_per_s:
            return None
        return (self.total - self.done) / self.documents_per_s
