"""What of a finished evaluation is not as its run left it: collected, then refused or accepted.

This is for accidents and careless edits. Whoever means to forge an evaluation can write digests and
numbers that agree with each other.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rubric_core import RubricError
from rubric_eval.errors import EvalEditedError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path


ACCEPT: Final = (
    "Restore it from a copy, or run the command that made the evaluation again, which makes scores "
    "and tables anew from its answers; --accept-edited goes on as it is, and says so in what it "
    "writes"
)
"""What to do where an edit can be accepted."""

_MOST: Final = 20
"""Findings that are named one by one."""


@dataclass
class _Finding:
    line: int | None
    is_known: bool
    """Whether it says what was edited, and not only that something was."""
    others: int = 0
    """More lines of the same file of which the same is true."""


class Edits:
    """Findings about the files of evaluations, of one kind once for each file."""

    def __init__(self) -> None:
        """Start with none."""
        self._found: dict[tuple[Path, str], _Finding] = {}
        self.notes: list[str] = []
        """What a reader should know that is no edit."""

    def add(
        self,
        path: Path,
        what: str,
        *,
        line: int | Callable[[], int | None] | None = None,
        is_known: bool = True,
    ) -> None:
        """Note that something is true of a file, or of a line of it.

        Args:
            path: the file.
            what: what is wrong, without a value of it.
            line: from 1; where it takes time to find, what finds it.
            is_known: whether it says what was edited, and not only that something was.
        """
        known = self._found.get((path, what))
        if known is not None:
            known.others += 1
        else:
            at = line() if callable(line) else line
            self._found[path, what] = _Finding(at, is_known)

    @property
    def found(self) -> tuple[str, ...]:
        """All findings, those first that say what was edited."""
        ordered = sorted(self._found.items(), key=lambda one: not one[1].is_known)
        said = [_said(path, what, finding) for (path, what), finding in ordered[:_MOST]]
        if len(ordered) > _MOST:
            said.append(f"{len(ordered) - _MOST} more findings about other files")
        return tuple(said)

    def refuse(self, remedy: str = ACCEPT) -> None:
        """Refuse where there is a finding.

        Raises:
            EvalEditedError: with the first finding.
        """
        found = self.found
        if found:
            first, *others = found
            more = f" (findings besides this: {len(others)})" if others else ""
            raise EvalEditedError(f"{first}{more}. {remedy}", found=found)


@contextmanager
def refusing_edits(*, is_accepted: bool = False) -> Generator[Edits]:
    """Collect findings while evaluations are read, and refuse them at the end of the block.

    What cannot be read because of an edit is refused as that edit.

    Args:
        is_accepted: only collect.

    Raises:
        EvalEditedError: there is a finding, and it is not accepted.
    """
    edits = Edits()
    try:
        yield edits
    except RubricError as error:
        found = edits.found
        if found and not is_accepted:
            message = f"{found[0]}. {ACCEPT}. With it there would be this error: {error}"
            raise EvalEditedError(message, found=found) from error
        raise
    if not is_accepted:
        edits.refuse()


def _said(path: Path, what: str, finding: _Finding) -> str:
    place = str(path) if finding.line is None else f"{path}:{finding.line}"
    count = f"{finding.others} other line{'' if finding.others == 1 else 's'}"
    others = f"; the same is true of {count}" if finding.others else ""
    return f"{place}: {what}{others}"
