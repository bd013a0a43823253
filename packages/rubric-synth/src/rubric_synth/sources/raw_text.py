"""Bytes to text, or the reason why they are none."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Final

from rubric_synth.cleaning import clean_markdown
from rubric_synth.errors import SynthError
from rubric_synth.rejection import Rejection, RejectionReason

if TYPE_CHECKING:
    from charset_normalizer import CharsetMatch

_MARKS: Final = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNMARKED: Final = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_MIN_USUAL_FRAC: Final = 0.6
_SAMPLE_BYTES: Final = 16_384
_MIN_DETECTED_BYTES: Final = 64
_MAX_CHAOS: Final = 0.1
_MIN_COHERENCE: Final = 0.3
_WESTERN: Final = "cp1252"
_LITTLE_COHERENCE: Final = 0.05
_MAX_CONTROL_FRAC: Final = 0.02
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f]")


MAX_BYTES: Final = "collect.max_document_bytes"
"""The key of the configuration that all limits of size follow."""


class NotTextError(SynthError, ValueError):
    """Input that is no document; it becomes a counted rejection."""

    def __init__(self, reason: RejectionReason, detail: str = "") -> None:
        """Keep the reason and its detail."""
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def rejection(self, source: str) -> Rejection:
        """Return the rejection of a source."""
        return Rejection(source=source, stage="collect", reason=self.reason, detail=self.detail)


def decoded(data: bytes, *, declared: str = "") -> str:
    """Return the text of a file: by its mark of byte order, as UTF-8, or as what it looks like.

    Args:
        data: The whole file.
        declared: Encoding that the file names itself; taken where it is not UTF-8.

    Raises:
        NotTextError: It is binary, or in an encoding that cannot be told.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                detail = f"not {encoding.upper()} at byte {error.start}, whose mark it bears"
                raise NotTextError(RejectionReason.WRONG_ENCODING, detail) from None
    if b"\0" in data:
        if wide := _unmarked(data):
            detail = f"{wide} without a mark of byte order; save it as UTF-8"
            raise NotTextError(RejectionReason.WRONG_ENCODING, detail)
        raise NotTextError(RejectionReason.BINARY, f"{len(data)} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = _decoded_otherwise(data, error.start, declared)
    if len(_CONTROL.findall(text[:_SAMPLE_BYTES])) > _MAX_CONTROL_FRAC * len(text[:_SAMPLE_BYTES]):
        raise NotTextError(RejectionReason.BINARY, f"{len(data)} bytes")
    return text


def cleaned(raw: str) -> str:
    """Return the cleaned text of a document.

    Raises:
        NotTextError: It is empty, or holds characters that no text file can hold.
    """
    if "\0" in raw:
        raise NotTextError(RejectionReason.BINARY, f"{len(raw)} characters")
    try:
        raw.encode()
    except UnicodeEncodeError:
        raise NotTextError(RejectionReason.WRONG_ENCODING, "half of a surrogate pair") from None
    text = clean_markdown(raw)
    if not text:
        raise NotTextError(RejectionReason.EMPTY, f"{len(raw)} characters")
    return text


def within(text: str, *, most: int) -> str:
    """Return a text.

    Raises:
        NotTextError: It has more bytes than a document may have.
    """
    size = len(text) if text.isascii() else len(text.encode(errors="replace"))
    if size > most:
        raise NotTextError(
            RejectionReason.TOO_LONG,
            f"{size} bytes of text, above the {most} that {MAX_BYTES} allows",
        )
    return text


def printable(name: str) -> str:
    """Return a name of a file that any encoding of its folder may have left as no text."""
    return name.encode(errors="backslashreplace").decode()


def _unmarked(data: bytes) -> str:
    """Name the wide encoding that zero bytes stand for; "" where they make no words."""
    sample = data[:_SAMPLE_BYTES]
    if len(sample) < _MIN_DETECTED_BYTES:
        return ""
    for encoding in _UNMARKED:
        text = codecs.getincrementaldecoder(encoding)("ignore").decode(sample)
        usual = sum(char.isalpha() or char.isspace() for char in text)
        latin = sum(char.isascii() for char in text)
        if "\0" not in text and usual > _MIN_USUAL_FRAC * len(text) and latin * 10 > len(text):
            return encoding.upper()
    return ""


def _decoded_otherwise(data: bytes, start: int, declared: str) -> str:
    """Decode what is not UTF-8."""
    detail = f"not UTF-8 at byte {start}"
    if declared and not declared.lower().startswith(("utf-16", "utf-32")):  # it reads as ASCII
        try:
            return data.decode(declared)
        except (LookupError, ValueError):  # no encoding, no encoding of text, or not this one
            detail += ", nor the encoding that it declares"
    lossy = data.decode(errors="replace")
    damaged = lossy.count("\ufffd")
    if sum(not char.isascii() for char in lossy) > 2 * damaged:
        detail += f"; else UTF-8 with {damaged} damaged places"
        raise NotTextError(RejectionReason.WRONG_ENCODING, detail)
    match = _detected(data, start)
    if match is not None:
        try:
            return data.decode(match)
        except UnicodeDecodeError:
            detail += f", nor {match}"
    raise NotTextError(RejectionReason.WRONG_ENCODING, f"{detail}; save it as UTF-8")


def _detected(data: bytes, start: int) -> str | None:
    """Name the encoding of the bytes around one that is not UTF-8, where there is little doubt."""
    from charset_normalizer import from_bytes  # a rare case, slow to import

    begin = max(0, start - _SAMPLE_BYTES // 2)
    sample = data[begin : begin + _SAMPLE_BYTES]
    if len(sample) < _MIN_DETECTED_BYTES:
        return None
    best: CharsetMatch | None = from_bytes(sample).best()
    # Code pages of Europe differ in few letters, and that of its west is by far the most common.
    western: CharsetMatch | None = from_bytes(sample, cp_isolation=[_WESTERN]).best()
    if best is None or (
        western is not None
        and western.chaos <= best.chaos
        and western.coherence >= best.coherence - _LITTLE_COHERENCE
    ):
        best = western
    if best is None or best.chaos > _MAX_CHAOS or best.coherence < _MIN_COHERENCE:
        return None
    return best.encoding
