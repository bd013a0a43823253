"""Progress on a terminal: a bar for each phase."""

from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from rubric_judge.ui.console.display import WORTH_S, Display
from rubric_judge.ui.console.snapshot import PhaseSnapshot, PhaseState, phase_line


class Bars(Display):
    """One bar for each phase, with count, rate, time left and figures beside it."""

    beat_s: float | None = 0.2

    def __init__(self, console: Console) -> None:
        """Draw on a terminal."""
        self._bars = RichProgress(
            TextColumn("{task.fields[snapshot].name}", markup=False),
            BarColumn(),
            _SnapshotColumn(),
            console=console,
            redirect_stdout=False,  # results go where they are sent, not to standard error
        )
        self._tasks: dict[object, TaskID] = {}

    def open(self) -> None:
        """Begin to draw."""
        self._bars.start()

    def began(self, phase: object, snapshot: PhaseSnapshot) -> None:
        """Add a bar."""
        self._tasks[phase] = self._bars.add_task(
            "", total=snapshot.total, snapshot=snapshot
        )

    def beat(self, snapshots: Mapping[object, PhaseSnapshot], *, now_s: float) -> None:
        """Move the bars."""
        del now_s
        for phase, snapshot in snapshots.items():
            self._show(phase, snapshot)

    def ended(self, phase: object, snapshot: PhaseSnapshot, state: PhaseState) -> None:
        """Leave the bar at its end, if it is worth one."""
        if snapshot.is_counted or snapshot.elapsed_s >= WORTH_S:
            self._show(phase, snapshot, state)
        else:
            self._bars.remove_task(self._tasks[phase])
        del self._tasks[phase]

    def close(self) -> None:
        """Leave the bars as they are."""
        self._bars.stop()

    def _show(
        self, phase: object, snapshot: PhaseSnapshot, state: PhaseState = "going on"
    ) -> None:
        done = snapshot.done
        total = snapshot.total
        if state == "done" and total is None:  # a full bar, no longer one that moves
            done = total = 1
        self._bars.update(
            self._tasks[phase],
            completed=done,
            total=total,
            snapshot=snapshot,
            state=state,
        )


class _SnapshotColumn(ProgressColumn):
    """Column with the text of `phase_line`, without the name."""

    def render(self, task: Task) -> Text:
        snapshot: PhaseSnapshot = task.fields["snapshot"]
        text = phase_line(snapshot, task.fields.get("state", "going on"))
        return Text(text.removeprefix(snapshot.name).lstrip(":; "))
