"""Options of an import."""

from dataclasses import dataclass
from pathlib import Path

from rubric_core.formats.pitfalls import Pitfalls


@dataclass(frozen=True)
class ImportOptions:
    """Options that some formats need."""

    pitfalls: Pitfalls | None = None
    """How negated criteria with negative weights are worded, in data sets that word them both
    ways."""

    questions: Path | None = None
    """JSON Lines with `question` (and `system_prompt`, `passage`, `reference_answer`), for files
    that hold rubrics without questions: each question is judged by each rubric."""

    leave_out: tuple[str, ...] = ()
    """Fields to leave out, dotted, `*` for any name or index; other unread fields are refused."""

    columns: tuple[str, ...] = ()
    """Columns of a table, `part=name` or `part=letter`, where they are not to be guessed."""

    sheet: str | None = None
    """The sheet of a workbook; the first, where it is None."""
