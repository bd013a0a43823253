"""Reads a file of a named format into tasks."""

import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, cast

from rubric_core.data.dataset import READERS, read_tasks
from rubric_core.errors import ConfigError, NotJsonError, RubricFileError, SchemaError
from rubric_core.files import decode, read_file, read_lines
from rubric_core.formats import checklists, libraries, scales
from rubric_core.formats.draft import Draft, Imported, imported, unknown_format
from rubric_core.formats.fields import Fields, LeftOut, left_out_of
from rubric_core.formats.pitfalls import Pitfalls
from rubric_core.formats.row import Row


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What some formats need to be told."""

    pitfalls: Pitfalls | None = None
    """How negated criteria with negative weights are worded, in data sets that word them both
    ways."""

    questions: Path | None = None
    """JSON Lines with `question` (and `system_prompt`, `passage`, `reference_answer`), for files
    that hold rubrics without questions: each question is judged by each rubric."""

    leave_out: tuple[str, ...] = ()
    """Fields to do without, dotted, `*` for any name or index: what nothing reads is refused."""


def import_formats() -> tuple[str, ...]:
    """Return the names of all formats that can be read, sorted."""
    return tuple(sorted({"paper", _CHECKEVAL, *_ROWS, *_RUBRICS}))


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
    path = Path(path)
    options = options or ImportOptions()
    if name == "paper":
        return (
            Imported(source_id=task.task_id, task=task) for task in read_tasks(path)
        )
    left_out = left_out_of(name, options.leave_out)
    if name == _CHECKEVAL or name in _RUBRICS:
        drafts = _crossed(name, path, options, left_out)
    elif name in _ROWS:
        rows = _rows(path)
        drafts = (
            partial(_of_row, name, row, key, options, left_out) for row, key in rows
        )
    else:
        raise unknown_format(name, import_formats())
    return _imported(drafts, path, on_reject)


_Read = Callable[[], tuple[Draft, Fields]]


def _of_row(
    name: str,
    row: Row,
    key: str,
    options: ImportOptions,
    left_out: Sequence[LeftOut],
    /,
) -> tuple[Draft, Fields]:
    draft = _ROWS[name](row, options.pitfalls)
    return replace(draft, source_id=draft.source_id or key), row.close(left_out)


_RowReader = Callable[[Row, Pitfalls | None], Draft]


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
_RUBRICS: Final[dict[str, Callable[[Row], Iterator[Draft]]]] = {
    "criteria": libraries.read_criteria,
    "hellobench": checklists.read_hellobench,
    "rewardkit": libraries.read_rewardkit,
    "rubric_spec": libraries.read_rubric_spec,
}
"""Formats whose files may hold rubrics without questions; `criteria` is verifiers', `rubric`'s and
autorubric's."""
_CHECKEVAL: Final = "checkeval"


def _imported(
    drafts: Iterator[_Read],
    path: Path,
    on_reject: Callable[[RubricFileError], None] | None,
) -> Iterator[Imported]:
    for number, read in enumerate(drafts, 1):
        try:
            yield imported(*read())
        except SchemaError as error:
            if not isinstance(error, RubricFileError):
                error = RubricFileError(
                    str(error), path=path, line=number, field=error.field
                )
            if on_reject is None:
                raise error from None
            on_reject(error)


def _crossed(
    name: str, path: Path, options: ImportOptions, left_out: Sequence[LeftOut]
) -> Iterator[_Read]:
    """Yield each rubric that has a question, and each other one with every question."""
    found = list(_named_rubrics(name, path, left_out))
    rubrics = [one for one in found if not isinstance(one, RubricFileError)]
    if options.questions is None and not all(draft.turns for draft, _ in rubrics):
        raise ConfigError(
            f"{name!r} files hold rubrics without questions: name a JSON Lines file with "
            '{"question": "…"} lines in `questions`',
            location="questions",
        )
    asked = list(_lines(options.questions)) if options.questions is not None else []
    return (
        read for place, one in enumerate(found) for read in _reads(one, asked, place)
    )


_Found = tuple[Draft, Fields] | RubricFileError
"""A rubric with what became of its values, or what is wrong with it."""


def _reads(found: _Found, asked: Sequence[Row], place: int) -> list[_Read]:
    if isinstance(found, RubricFileError) or found[0].turns:
        return [partial(_as_is, found)]
    draft, fields = found
    return [
        partial(_joined, row, draft, Fields() if number else fields, is_first=not place)
        for number, row in enumerate(asked)
    ]


def _as_is(found: _Found) -> tuple[Draft, Fields]:
    if isinstance(found, RubricFileError):
        raise found
    return found


def _joined(
    row: Row, rubric: Draft, fields: Fields, *, is_first: bool
) -> tuple[Draft, Fields]:
    turns, passage = checklists.QUESTIONS.asked(row)
    reference = row.maybe_text(*checklists.QUESTIONS.reference)
    row.identifier(*checklists.QUESTIONS.source_id)
    asked = row.close(left_out_of("questions"))
    if is_first:  # a question counts once, however many rubrics it meets
        fields = Fields(fields.read + asked.read, fields.left_out + asked.left_out)
    return replace(rubric, turns=turns, reference=reference, passage=passage), fields


def _named_rubrics(
    name: str, path: Path, left_out: Sequence[LeftOut]
) -> Iterator[_Found]:
    if name == _CHECKEVAL:
        for draft in checklists.read_checkeval(path):
            yield draft, Fields(checklists.lines_of(draft))
        return
    for row in _documents(path):
        try:
            drafts = list(_RUBRICS[name](row))
            fields = row.close(left_out)
        except RubricFileError as error:
            yield error
            continue
        for draft in drafts:
            yield draft, fields
            fields = Fields()


def _documents(path: Path) -> Iterator[Row]:
    """Yield the objects of a file, a list of criteria being one."""
    if path.suffix.lower() in READERS:
        yield from _lines(path)
        return
    document = _document(path)
    if isinstance(document, list):
        document = {"criteria": cast("list[object]", document)}
    yield _object(document, path, 1)


def _lines(path: Path) -> Iterator[Row]:
    read = READERS.get(path.suffix.lower(), read_lines)
    read = partial(read_lines, exact=True) if read is read_lines else read
    yield from (Row(fields, path, line) for line, fields in read(path))


def _rows(path: Path) -> Iterator[tuple[Row, str]]:
    """Yield the rows of a file, and what it calls each."""
    if path.suffix.lower() in READERS:
        yield from ((row, "") for row in _lines(path))
        return
    items = _items(_document(path))
    yield from (
        (_object(item, path, place), key) for place, (key, item) in enumerate(items, 1)
    )


def _items(document: object) -> list[tuple[str, object]]:
    if isinstance(document, list):
        return [("", item) for item in cast("list[object]", document)]
    if isinstance(document, dict):
        entries = cast("dict[str, object]", document)
        if all(isinstance(entry, dict) for entry in entries.values()):
            return list(
                entries.items()
            )  # a file of instances by id, and not one instance
    return [("", document)]


def _document(path: Path) -> object:
    content = read_file(path).removeprefix(BOM_UTF8)
    is_toml = path.suffix.lower() == ".toml"
    try:
        return (
            tomllib.loads(content.decode()) if is_toml else decode(content, exact=True)
        )
    except NotJsonError as error:
        raise RubricFileError(str(error), path=path) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise RubricFileError(f"not TOML: {error}", path=path) from None


def _object(value: object, path: Path, number: int) -> Row:
    if not isinstance(value, dict):
        raise RubricFileError("each item must be an object", path=path, line=number)
    return Row(cast("dict[str, object]", value), path, number)
