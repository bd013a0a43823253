"""What may enter a collection: text that a file can hold, with enough words."""

from __future__ import annotations

from typing import Final

from rubric_synth.config import CollectConfig
from rubric_synth.document import Document
from rubric_synth.language import words
from rubric_synth.rejection import Rejection, RejectionReason

_MIN_WORDS: Final = "collect.min_document_words"
_REPLACED: Final = "backslashreplace"  # half of a surrogate pair, as in a file's damaged name


def admit(found: Document | Rejection, config: CollectConfig) -> Document | Rejection:
    """Return the document, or the reason why it is left out."""
    if isinstance(found, Rejection):
        return found.model_copy(
            update={"source": _writable(found.source), "detail": _writable(found.detail)}
        )
    if "\0" in found.text or "\0" in found.title:
        return _left_out(found, RejectionReason.BINARY, f"{len(found.text)} characters")
    if not (_is_writable(found.text) and _is_writable(found.title + found.source)):
        return _left_out(found, RejectionReason.WRONG_ENCODING, "half of a surrogate pair")
    count = len(words(found.text))
    if count < config.min_document_words:
        reason = RejectionReason.TOO_SHORT if count else RejectionReason.EMPTY
        detail = f"{count} words, below the {config.min_document_words} of {_MIN_WORDS}"
        return _left_out(found, reason, detail)
    return found


def _left_out(document: Document, reason: RejectionReason, detail: str) -> Rejection:
    return Rejection(
        source=_writable(document.source),
        stage="collect",
        reason=reason,
        detail=detail,
        doc_hash=document.doc_hash if _is_writable(document.text) else "",
    )


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _writable(text: str) -> str:
    return text.encode(errors=_REPLACED).decode()
