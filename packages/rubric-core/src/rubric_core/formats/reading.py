"""Reads a file of a named format into tasks."""

import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, cast

from rubric_core.data.dataset import READERS, read_tasks
from rubric_core.errors import ConfigError, NotJsonError, RubricFileError, SchemaError
from rubric_core.files import decode, read_file, read_lines
from rubric_core.formats import checklists, scales
from rubric_core.formats.draft import Draft, Imported, imported, unknown_format
from rubric_core.formats.row import Row


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What some formats need to be told."""

    pitfalls: checklists.Pitfalls | None = None
    """How criteria with negative weights are worded, in data sets that word them both ways."""

    questions: Path | None = None
    """JSON Lines with `question` (and `passage`, `reference_answer`), for files that hold rubrics
    without questions: each question is judged by each rubric."""


def import_formats() -> tuple[str, ...]:
    """Return the names of all formats that can be read, sorted."""
    return tuple(sorted({"paper", *_ROWS, *_RUBRICS}))


def import_tasks(
    name: str,
    path: Path | str,
    *,
    options: ImportOptions | None = None,
    on_reject: Callable[[RubricFileError], None] | None = None,
) -> Iterator[Imported]:
    """Read tasks from a file of a foreign format, one at a time.

    Args:
        name: one of `import_formats()`.
        path: a `.jsonl`, `.json`, `.parquet` or `.toml` file, as the format has it.
        options: what some formats need to be told.
        on_reject: called with the error of each row that holds no usable task, which is then left
            out. Left out, the first such row ends the reading.

    Returns:
        The tasks, in file order.

    Raises:
        ConfigError: no such format, or an option that it needs is not given.
        RubricFileError: the file is not of the format, with the place.
        MissingExtraError: Parquet without pyarrow.
        OSError: the file cannot be read.
    """
    path, options = Path(path), options or ImportOptions()
    if name == "paper":
        return (Imported(source_id=task.task_id, task=task) for task in read_tasks(path))
    if name in _RUBRICS:
        drafts = _crossed(name, path, options.questions)
    elif name in _ROWS:
        drafts = (partial(_ROWS[name], row, options.pitfalls) for row in _rows(path))
    else:
        raise unknown_format(name, import_formats())
    return _imported(drafts, path, on_reject)


_RowReader = Callable[[Row, "checklists.Pitfalls | None"], Draft]


def _plain(read: Callable[[Row], Draft]) -> _RowReader:
    return lambda row, _: read(row)


_ROWS: Final[dict[str, _RowReader]] = {
    **{name: checklist.read for name, checklist in checklists.CHECKLISTS.items()},
    "biggen": _plain(scales.read_biggen),
    "deep_research_bench": _plain(scales.read_deep_research_bench),
    "dr_tulu": checklists.read_dr_tulu,
    "feedback_collection": _plain(scales.read_feedback_collection),
    "openrubrics": _plain(checklists.read_openrubrics),
    "paperbench": _plain(scales.read_paperbench),
    "prbench": _plain(scales.read_prbench),
    "prometheus": _plain(scales.read_prometheus),
    "scholarqabench": _plain(scales.read_scholarqabench),
    "writingbench": _plain(scales.read_writingbench),
}
_RUBRICS: Final = frozenset({"checkeval", "criteria", "hellobench"})
"""Formats without questions; `criteria` is verifiers', `rubric`'s and autorubric's."""


def _imported(
    drafts: Iterator[Callable[[], Draft]],
    path: Path,
    on_reject: Callable[[RubricFileError], None] | None,
) -> Iterator[Imported]:
    for number, read in enumerate(drafts, 1):
        try:
            yield imported(read())
        except SchemaError as error:
            if not isinstance(error, RubricFileError):
                error = RubricFileError(str(error), path=path, line=number, field=error.field)
            if on_reject is None:
                raise error from None
            on_reject(error)


def _crossed(name: str, path: Path, questions: Path | None) -> Iterator[Callable[[], Draft]]:
    if questions is None:
        raise ConfigError(
            f"{name!r} files hold rubrics without questions: name a JSON Lines file with "
            '{"question": "…"} lines in `questions`',
            location="questions",
        )
    rubrics = list(_named_rubrics(name, path))
    rows = [Row(fields, questions, line) for line, fields in read_lines(questions)]
    return (partial(_joined, row, rubric) for rubric in rubrics for row in rows)


def _joined(row: Row, rubric: Draft) -> Draft:
    question, reference = row.text("question"), row.maybe_text("reference_answer")
    return replace(
        rubric, question=question, reference=reference, passage=row.maybe_text("passage")
    )


def _named_rubrics(name: str, path: Path) -> Iterator[Draft]:
    if name == "checkeval":
        yield from checklists.read_checkeval(path)
        return
    read = checklists.read_hellobench if name == "hellobench" else checklists.read_criteria
    document = _document(path)
    if isinstance(document, list):
        document = {"criteria": cast("list[object]", document)}
    yield from read(_object(document, path, 1))


def _rows(path: Path) -> Iterator[Row]:
    if read := READERS.get(path.suffix.lower()):
        yield from (Row(fields, path, line) for line, fields in read(path))
    else:
        items = _items(_document(path))
        yield from (_object(item, path, number) for number, item in enumerate(items, 1))


def _items(document: object) -> list[object]:
    if isinstance(document, list):
        return cast("list[object]", document)
    if isinstance(document, dict):
        entries = list(cast("dict[str, object]", document).values())
        if all(isinstance(entry, dict) for entry in entries):
            return entries  # a file of instances by id, and not one instance
    return [document]


def _document(path: Path) -> object:
    content, is_toml = read_file(path).removeprefix(BOM_UTF8), path.suffix.lower() == ".toml"
    try:
        return tomllib.loads(content.decode()) if is_toml else decode(content)
    except NotJsonError as error:
        raise RubricFileError(str(error), path=path) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise RubricFileError(f"not TOML: {error}", path=path) from None


def _object(value: object, path: Path, number: int) -> Row:
    if not isinstance(value, dict):
        raise RubricFileError("each item must be an object", path=path, line=number)
    return Row(cast("dict[str, object]", value), path, number)
