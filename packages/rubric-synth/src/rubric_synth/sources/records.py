"""Records with an id, a title, a description and a full text, whatever file they come from."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, cast

from rubric_synth.cleaning import (
    document_title,
    normal_characters,
    short_title,
    without_tags,
)
from rubric_synth.document import Document
from rubric_synth.rejection import RejectionReason
from rubric_synth.sources.raw_text import MAX_BYTES, NotTextError, cleaned, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rubric_synth.config import CollectConfig
    from rubric_synth.rejection import Rejection

_WORLDWIDE_IDS: Final = frozenset({"osti_id", "doi"})
_MAX_ID_CHARS: Final = 500
_MOST_NUMBER: Final = 10**18
_ROW_FRAC: Final = 8  # a row of a table may be so many times its text


class RecordReader:
    """Records of one source to documents; it remembers the ids that it saw.

    An OSTI number or a DOI names a record everywhere, so that it counts once in all files of the
    source; any other id names it in its own file.
    """

    def __init__(self, config: CollectConfig) -> None:
        """Remember nothing yet."""
        self._fields = config.fields
        self.most = config.max_document_bytes
        """Bytes of a text."""
        self.most_row = _ROW_FRAC * self.most
        """Bytes of a row of a table."""
        self._seen: set[bytes] = set()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all fields that are read."""
        fields = self._fields
        return (*fields.id, *fields.title, *fields.description, *fields.text)

    def document(self, record: object, *, file: str, number: int) -> Document:
        """Return the document of a record.

        Args:
            record: What the file holds.
            file: Name of the file.
            number: Line or row.

        Raises:
            NotTextError: It is no record, has no text, or its id was there before.
        """
        if not isinstance(record, dict):
            detail = f"a {type(record).__name__}, not an object"
            raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
        columns = cast("dict[str, object]", record)
        raw = within(self._raw_text(columns), most=self.most)
        identifier, key = self._identifier(columns, file)
        text = cleaned(raw)
        self._seen.add(key)
        title = short_title(_one_line(_field(columns, self._fields.title)[1]))
        name = f"{file}#{identifier}" if identifier else f"{file}:{number}"
        return Document(title=title or document_title(text) or name, text=text, source=name)

    def _raw_text(self, columns: Mapping[str, object]) -> str:
        description = without_tags(_field(columns, self._fields.description)[1]).strip()
        name, text = _field(columns, self._fields.text)
        if not name and not description:
            names = ", ".join((*self._fields.text, *self._fields.description))
            detail = f"none of the fields {names}; set collect.fields"
            raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
        if not description or description in text:
            return text
        return f"{description}\n\n{text}"

    def _identifier(self, columns: Mapping[str, object], file: str) -> tuple[str, bytes]:
        """Return the id, "" for none, and what to remember of it."""
        name, value = _field(columns, self._fields.id)
        identifier = _one_line(value)
        if not identifier:
            return "", b""
        if len(identifier) > _MAX_ID_CHARS:
            detail = f"id with {len(identifier)} characters"
            raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
        scope = "" if name in _WORLDWIDE_IDS else file
        key = hashlib.sha256(f"{scope}\0{name}\0{identifier}".encode()).digest()[:16]
        if key in self._seen:
            detail = f"id with {len(identifier)} characters"
            raise NotTextError(RejectionReason.DUPLICATE_ID, detail)
        return identifier, key


def row_documents(
    answers: Iterator[Mapping[str, object]], *, records: RecordReader, file: str
) -> Iterator[Document | Rejection]:
    """Yield one document per row of a table that another process reads.

    Args:
        answers: of that process, as `IsolatedReader.answers` yields them.
        records: makes documents of rows.
        file: name of the table.
    """
    number = 0
    try:
        for number, answer in enumerate(answers, start=1):
            try:
                row = _complete(answer, most=records.most_row)
                yield records.document(row, file=file, number=number)
            except NotTextError as error:
                yield error.rejection(f"{file}:{number}")
    except NotTextError as error:
        yield error.rejection(f"{file}:{number + 1}" if number else file)
    else:
        if not number:
            yield NotTextError(RejectionReason.EMPTY, "no row").rejection(file)


def _complete(answer: Mapping[str, object], *, most: int) -> object:
    """Return a row; a process gives the size alone of one that is too large."""
    if "bytes" in answer:
        detail = f"a row of {answer['bytes']} bytes, above the {most} that {MAX_BYTES} allows"
        raise NotTextError(RejectionReason.TOO_LONG, detail)
    return answer["row"]


def _field(columns: Mapping[str, object], names: Sequence[str]) -> tuple[str, str]:
    """Return the first of the named fields that holds something, and its text; two "" for none."""
    empty = ""
    for name in names:
        value = columns.get(name)
        if value is None or value != value:  # noqa: PLR0124 - NaN stands for nothing in a table
            continue
        if value in ("", []):
            empty = empty or name
            continue
        if isinstance(value, float) and value.is_integer():  # a table with gaps has no integers
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST_NUMBER:
            value = str(value)
        if isinstance(value, list):
            parts = cast("list[object]", value)
            texts = [part for part in parts if isinstance(part, str)]
            value = "\n\n".join(texts) if len(texts) == len(parts) else None
        if not isinstance(value, str):
            raise NotTextError(RejectionReason.BROKEN_RECORD, f"field {name!r} is no text")
        return name, value
    return empty, ""


def _one_line(raw: str) -> str:
    """Return a title or an id without tags, control characters and line ends."""
    text = " ".join(normal_characters(without_tags(raw)).split())
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotTextError(RejectionReason.WRONG_ENCODING, "half of a surrogate pair") from None
    return text
