"""A tracker as the rest of this folder sees it, and what it is shown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from rubric_train_openrlhf.run.records import Status

ANSWERS = "answers"
"""Name of all tables, in every tracker."""


class Table(NamedTuple):
    """Answers of a step."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]


class Entry(NamedTuple):
    """Figures of a step, and now and then a table, which are shown at once."""

    group: str
    """`train` or `heldout`."""
    step: int
    figures: Mapping[str, float]
    """Figures by their tags."""
    place: int
    """Number of entries before this one, over all starts of the run."""
    table: Table | None = None


class Opening(NamedTuple):
    """Facts that a tracker is opened with."""

    run_id: str | None
    """Id that the tracker knows the run by; None for a run that it does not know."""
    name: str
    """Name for people."""
    settings: Mapping[str, str | float | bool | None]
    """Configuration of the run by dotted keys, without secrets."""
    files: Path
    """Folder of the run folder where the tracker may write."""


class Tracker(Protocol):
    """One run in a tracker. Every method may take its time, and may raise anything."""

    @property
    def run_id(self) -> str:
        """Id to go on with when the run is resumed."""
        ...

    def last_step(self, group: str) -> int | None:
        """Return the last step that is there; −1 before any, None where it cannot be asked.

        Args:
            group: `train` or `heldout`.
        """
        ...

    def log(self, entry: Entry) -> None:
        """Show an entry."""
        ...

    def finish(self, status: Status) -> None:
        """Send what is still to be sent, and say how the run ended.

        Args:
            status: of the run; `running` if it was killed.
        """
        ...
