"""Bytes to text, or the reason why they are none."""

from __future__ import annotations

import codecs
from typing import Final

from rubric_synth.cleaning import clean_markdown
from rubric_synth.errors import SynthError
from rubric_synth.rejection import Rejection, RejectionReason

_OTHER_ENCODINGS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


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


def decoded(data: bytes) -> str:
    """Return UTF-8 bytes as text.

    Raises:
        NotTextError: They are in another encoding.
    """
    if data.startswith(_OTHER_ENCODINGS):
        raise NotTextError(RejectionReason.WRONG_ENCODING, "UTF-16; save it as UTF-8")
    if b"\0" in data:
        raise NotTextError(RejectionReason.BINARY, f"{len(data)} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        detail = f"not UTF-8 at byte {error.start}"
        raise NotTextError(RejectionReason.WRONG_ENCODING, detail) from None


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
