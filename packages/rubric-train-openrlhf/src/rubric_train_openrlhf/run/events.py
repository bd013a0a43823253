"""TensorBoard event files of a run."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

from rubric_train_openrlhf.run.writing import disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from pydantic import BaseModel


class EventWriter:
    """Writes every number of a row as one scalar per step."""

    def __init__(self, folder: Path, *, first_step: int) -> None:
        """Open the folder; events of `first_step` and later, from before a kill, are hidden."""
        # Half a second of import that only a run needs.
        from torch.utils.tensorboard.writer import SummaryWriter  # noqa: PLC0415

        with disk_errors(folder):
            self._writer = SummaryWriter(str(folder), purge_step=first_step)

    def __enter__(self) -> Self:
        """Use as a context: the file is closed on leaving."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flush and close."""
        self._writer.close()

    def write(self, group: str, row: BaseModel, *, step: int) -> None:
        """Write the numbers of a row, and of the tables in it, under `group`; None is no number."""
        for tag, number in _numbers(group, row.model_dump(exclude={"step", "best"})):
            self._writer.add_scalar(tag, number, step)


def _numbers(prefix: str, table: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in table.items():
        tag = f"{prefix}/{name}"
        if isinstance(value, dict):
            yield from _numbers(tag, cast("dict[str, Any]", value))
        elif value is not None:
            yield tag, value
