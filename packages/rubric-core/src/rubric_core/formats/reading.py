"""Reading of files of a named format into tasks."""

import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import cast

from rubric_core.data.dataset import READERS, read_tasks
from rubric_core.errors import ConfigError, NotJsonError, RubricFileError, SchemaError
from rubric_core.files import read_file, read_lines
from rubric_core.formats import checklists, harbor, libraries, rewardkit, scales
from rubric_core.formats.columns import shortened
from rubric_core.formats.draft import Draft, Imported, imported, unknown_format
from rubric_core.formats.fields import Fields, LeftOut, left_out_of
from rubric_core.formats.options import ImportOptions
from rubric_core.formats.pitfalls import Pitfalls
from rubric_core.formats.row import Row
from rubric_core.formats.tables import read_table
from rubric_core.strict_json import decode


def import_formats() -> tuple[str, ...]:
    """Return the names of all formats that can be read, sorted."""
    return tuple(sorted({"paper", _CHECKEVAL, _HARBOR, _TABLE, *_ROWS, *_RUBRICS}))


def import_tasks(
    name: str,
    path: Path | str,
    *,
    options: ImportOptions | None = None,
    on_reject: Callable[[RubricFileError], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Iterator[Imported]:
    """Read tasks from a file of a foreign format, one at a time.

    Args:
        name: one of `import_formats()`.
        path: a `.jsonl`, `.json`, `.parquet` or `.toml` file, as the format has it; a `.csv`,
            `.tsv`, `.txt` or `.xlsx` file for a table; a folder for harbor.
        options: options that some formats need.
        on_reject: called with the error of each row that holds no usable task, which is then left
            out. Left out, the first such row ends the reading.
        on_note: called with each sentence on how a table was read, such as the part of a rubric
            that each column is taken for, or on what the rubrics of folders lack.

    Returns:
        The tasks, in file order.

    Raises:
        ConfigError: no such format, or an option that it needs is not given, or that it has not.
        RubricFileError: the file is not of the format, with the place.
        MissingExtraError: Parquet without pyarrow, or .xlsx without openpyxl.
        OSError: the file cannot be read.
    """
    path = Path(path)
    options = options or ImportOptions()
    _check_options(name, options)
    if name == "paper":
        tasks = read_tasks(path)
        return (Imported(source_id=task.task_id, task=task) for task in tasks)
    left_out = left_out_of(name, options.leave_out)
    if name == _HARBOR:
        drafts = harbor.read_harbor(path, left_out, on_note or _say_nothing)
    elif name == _TABLE:
        drafts = _tabled(path, options, on_note or _say_nothing)
    elif name == _CHECKEVAL or name in _RUBRICS:
        drafts = _crossed(name, path, options, left_out)
    elif name in _ROWS:
        drafts = (
            partial(_read_row, name, row, key, options, left_out)
            for row, key in _rows(path)
        )
    else:
        raise unknown_format(name, import_formats())
    return _imported(drafts, path, on_reject)


_Read = Callable[[], tuple[Draft, Fields] | Imported]


def _check_options(name: str, options: ImportOptions) -> None:
    """Refuse options of a table for another format."""
    if name == _TABLE:
        return
    for flag, value in (("column", options.columns), ("sheet", options.sheet)):
        if value:
            raise ConfigError(
                f"--{flag} is for the format 'table', and {name!r} has no columns: leave it out",
                location=flag,
            )


def _say_nothing(_: str) -> None:
    """Say nothing of how a table was read."""


def _read_row(
    name: str,
    row: Row,
    key: str,
    options: ImportOptions,
    left_out: Sequence[LeftOut],
    /,
) -> tuple[Draft, Fields]:
    draft = _ROWS[name](row, options.pitfalls)
    if not draft.source_id:
        draft = replace(draft, source_id=key)
    return draft, row.close(left_out)


_RowReader = Callable[[Row, Pitfalls | None], Draft]


def _plain(read: Callable[[Row], Draft]) -> _RowReader:
    """Return a reader for a format without pitfalls."""

    def read_row(row: Row, _: Pitfalls | None) -> Draft:
        return read(row)

    return read_row


_ROWS: dict[str, _RowReader] = {
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
_RUBRICS: dict[str, Callable[[Row], Iterator[Draft]]] = {
    "criteria": libraries.read_criteria,
    "hellobench": checklists.read_hellobench,
    "rewardkit": rewardkit.read_rewardkit,
    "rubric_spec": libraries.read_rubric_spec,
}
"""Formats whose files may hold rubrics without questions; `criteria` is verifiers', `rubric`'s and
autorubric's."""
_CHECKEVAL = "checkeval"
_HARBOR = "harbor"
_TABLE = "table"


def _imported(
    drafts: Iterator[_Read],
    path: Path,
    on_reject: Callable[[RubricFileError], None] | None,
) -> Iterator[Imported]:
    for number, read in enumerate(drafts, 1):
        try:
            outcome = read()
            yield outcome if isinstance(outcome, Imported) else imported(*outcome)
        except SchemaError as error:
            if not isinstance(error, RubricFileError):
                error = RubricFileError(
                    str(error),
                    path=path,
                    line=number,
                    field=error.field,
                )
            if on_reject is None:
                raise error from None
            on_reject(error)


def _crossed(
    name: str,
    path: Path,
    options: ImportOptions,
    left_out: Sequence[LeftOut],
) -> Iterator[_Read]:
    """Yield each rubric that has a question, and each other one with every question."""
    outcomes = list(_read_rubrics(name, path, left_out))
    questions = _questions(
        options,
        outcomes,
        f"{name!r} files hold rubrics without questions: name a JSON Lines file with "
        '{"question": "…"} lines in `questions`',
    )
    reads = (_reads(outcome, questions, n) for n, outcome in enumerate(outcomes))
    return chain.from_iterable(reads)


_Outcome = tuple[Draft, Fields] | RubricFileError
"""A rubric with the account of its values, or the error in it."""


def _tabled(
    path: Path, options: ImportOptions, on_note: Callable[[str], None]
) -> Iterator[_Read]:
    """Yield each rubric of a table with its question, or with those of `questions`."""
    outcomes = list(read_table(path, options, on_note))
    questions = _questions(
        options,
        outcomes,
        f"no column of {path} is known as the question: say `--column question=NAME`, or name "
        'a JSON Lines file with {"question": "…"} lines in `--questions`; where the table has '
        "a column of question ids, each line has the `id` of its question",
    )
    for place, outcome in enumerate(outcomes):
        asked = _asked_by(outcome, questions)
        if questions and not asked and not isinstance(outcome, RubricFileError):
            problem = (
                f"question {shortened(outcome[0].source_id)!r} is the `id` of no line in "
                f"{options.questions}: give a line that id"
            )
            yield partial(_unwrap, RubricFileError(problem, path=path))
        yield from _reads(outcome, asked, place)


def _questions(
    options: ImportOptions, outcomes: Sequence[_Outcome], problem: str
) -> list[Row]:
    if options.questions is not None:
        return list(_lines(options.questions))
    if not all(map(_is_complete, outcomes)):
        raise ConfigError(problem, location="questions")
    return []


def _asked_by(outcome: _Outcome, questions: Sequence[Row]) -> Sequence[Row]:
    """Return the questions of a rubric: those of its id, or all where it has none."""
    if isinstance(outcome, RubricFileError) or not outcome[0].source_id:
        return questions
    source_id = outcome[0].source_id
    names = checklists.QUESTIONS.source_id
    return [row for row in questions if str(row.get(*names)) == source_id]


def _is_complete(outcome: _Outcome) -> bool:
    """Return whether an outcome needs no question: it has one, or is an error."""
    return isinstance(outcome, RubricFileError) or bool(outcome[0].turns)


def _reads(
    outcome: _Outcome,
    questions: Sequence[Row],
    place: int,
) -> Iterator[_Read]:
    """Yield the reading of a rubric that is complete, or of it with each question."""
    if isinstance(outcome, RubricFileError) or outcome[0].turns:
        yield partial(_unwrap, outcome)
        return
    draft, fields = outcome
    for question in questions:
        yield partial(_join, question, draft, fields, is_first=place == 0)
        fields = Fields()  # a rubric counts once, however many questions it meets


def _unwrap(outcome: _Outcome) -> tuple[Draft, Fields]:
    if isinstance(outcome, RubricFileError):
        raise outcome
    return outcome


def _join(
    row: Row,
    rubric: Draft,
    fields: Fields,
    *,
    is_first: bool,
) -> tuple[Draft, Fields]:
    """Give a rubric the question of a row."""
    turns, passage = checklists.QUESTIONS.asked(row)
    reference = row.maybe_text(*checklists.QUESTIONS.reference)
    row.identifier(*checklists.QUESTIONS.source_id)
    added = row.close(left_out_of("questions"))
    if is_first:  # a question counts once, however many rubrics it meets
        fields = Fields(
            read=fields.read + added.read,
            left_out=fields.left_out + added.left_out,
        )
    draft = replace(
        rubric,
        turns=turns,
        reference=reference,
        passage=passage,
    )
    return draft, fields


def _read_rubrics(
    name: str,
    path: Path,
    left_out: Sequence[LeftOut],
) -> Iterator[_Outcome]:
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
    """Yield the objects of a file; a list of criteria counts as one object."""
    if path.suffix.lower() in READERS:
        yield from _lines(path)
        return
    document = _document(path)
    if isinstance(document, list):
        document = {"criteria": cast("list[object]", document)}
    yield _object(document, path, 1)


def _lines(path: Path) -> Iterator[Row]:
    suffix = path.suffix.lower()
    read = READERS.get(suffix, read_lines)
    if read is read_lines:
        read = partial(read_lines, exact=True)
    for line, fields in read(path):
        yield Row(fields, path, line)


def _rows(path: Path) -> Iterator[tuple[Row, str]]:
    """Yield the rows of a file, each with its key there, or ""."""
    if path.suffix.lower() in READERS:
        for row in _lines(path):
            yield row, ""
        return
    items = _items(_document(path))
    for place, (key, item) in enumerate(items, 1):
        yield _object(item, path, place), key


def _items(document: object) -> list[tuple[str, object]]:
    """Return the items of a document, each with its key, or ""."""
    if isinstance(document, list):
        return [("", item) for item in cast("list[object]", document)]
    if isinstance(document, dict):
        entries = cast("dict[str, object]", document)
        # A document of objects alone holds instances by id, and is not one instance.
        if all(isinstance(entry, dict) for entry in entries.values()):
            return list(entries.items())
    return [("", document)]


def _document(path: Path) -> object:
    content = read_file(path).removeprefix(BOM_UTF8)
    try:
        if path.suffix.lower() == ".toml":
            return tomllib.loads(content.decode())
        return decode(content, exact=True)
    except NotJsonError as error:
        raise RubricFileError(str(error), path=path) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise RubricFileError(f"not TOML: {error}", path=path) from None


def _object(value: object, path: Path, number: int) -> Row:
    if not isinstance(value, dict):
        raise RubricFileError("each item must be an object", path=path, line=number)
    return Row(cast("dict[str, object]", value), path, number)
