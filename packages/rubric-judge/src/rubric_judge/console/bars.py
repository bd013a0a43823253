"""Progress on a terminal: a bar for each phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from rubric_judge.console.display import WORTH_S, Display
from rubric_judge.console.look import Look, Standing, said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.progress import TaskID


class Bars(Display):
    """One bar for each phase, with count, rate, time left and figures beside it."""

    beat_s: float | None = 0.2

    def __init__(self, console: Console) -> None:
        """Draw on a terminal."""
        self._bars = RichProgress(
            TextColumn("{task.fields[look].name}", markup=False),
            BarColumn(),
            _LookColumn(),
            console=console,
            redirect_stdout=False,  # results go where they are sent, not to standard error
        )
        self._tasks: dict[object, TaskID] = {}

    def open(self) -> None:
        """Begin to draw."""
        self._bars.start()

    def began(self, phase: object, look: Look) -> None:
        """Add a bar."""
        self._tasks[phase] = self._bars.add_task("", total=look.total, look=look)

    def beat(self, looks: Mapping[object, Look], *, now_s: float) -> None:
        """Move the bars."""
        del now_s
        for phase, look in looks.items():
            self._show(phase, look)

    def ended(self, phase: object, look: Look, standing: Standing) -> None:
        """Leave the bar at its end, if it is worth one."""
        if look.is_counted or look.elapsed_s >= WORTH_S:
            self._show(phase, look, standing)
        else:
            self._bars.remove_task(self._tasks[phase])
        del self._tasks[phase]

    def close(self) -> None:
        """Leave the bars as they are."""
        self._bars.stop()

    def _show(self, phase: object, look: Look, standing: Standing = "going on") -> None:
        done, total = look.done, look.total
        if standing == "done" and total is None:  # a full bar, no longer one that moves
            done = total = 1
        self._bars.update(
            self._tasks[phase], completed=done, total=total, look=look, standing=standing
        )


class _LookColumn(ProgressColumn):
    """What `said` says, without the name."""

    def render(self, task: Task) -> Text:
        look: Look = task.fields["look"]
        text = said(look, task.fields.get("standing", "going on"))
        return Text(text.removeprefix(look.name).lstrip(":; "))
