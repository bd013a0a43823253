"""What was read from the sources: texts on disk, and what is compared and counted in memory."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rubric_synth.collect.folder import DOCUMENTS_FILE, MANIFEST_FILE, REJECTED_FILE, document_line
from rubric_synth.config import CollectConfig
from rubric_synth.document import Document
from rubric_synth.duplicates import Fingerprint, fingerprint
from rubric_synth.errors import SourceError
from rubric_synth.files import json_line
from rubric_synth.language import words
from rubric_synth.rejection import Rejection, RejectionReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rubric_synth.collect.staging import Staging
    from rubric_synth.document import Document, DocumentKind
    from rubric_synth.duplicates import Twin

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


class Candidate(NamedTuple):
    """A document that may enter the collection."""

    source: str
    doc_hash: bytes
    given: str
    """The source as it was given: a folder, a package."""
    kind: DocumentKind
    place: tuple[int, int]
    """Of its line in the spool."""
    fingerprint: Fingerprint


class _LeftOut(NamedTuple):
    source: str
    doc_hash: str
    given: str
    place: tuple[int, int]


class Intake:
    """Documents and rejections on their way into a collection."""

    def __init__(self, staged: Staging) -> None:
        """Make the two spools."""
        self.candidates: list[Candidate] = []
        self.reasons: dict[str, Counter[str]] = {}
        """Rejections by given source and reason."""
        self._left_out: list[_LeftOut] = []
        self._documents = staged.spool("documents.spool", shown=DOCUMENTS_FILE)
        self._rejections = staged.spool("rejections.spool", shown=REJECTED_FILE)

    @property
    def left_out(self) -> int:
        """Rejections so far."""
        return len(self._left_out)

    def add(self, document: Document, given: str) -> None:
        """Keep a document that was read."""
        place = self._documents.append(document_line(document))
        self.candidates.append(
            Candidate(
                source=document.source,
                doc_hash=bytes.fromhex(document.doc_hash),
                given=given,
                kind=document.kind,
                place=place,
                fingerprint=fingerprint(document),
            )
        )

    def reject(self, rejection: Rejection, given: str) -> None:
        """Keep the reason why a document was left out."""
        row = rejection.model_dump(mode="json", exclude={"draft"})
        place = self._rejections.append(json_line(row))
        self._left_out.append(_LeftOut(rejection.source, rejection.doc_hash, given, place))
        self.reasons.setdefault(given, Counter())[str(rejection.reason)] += 1

    def reject_twin(self, twin: Twin, later: Candidate, earlier: Candidate) -> None:
        """Leave out a document for an earlier one."""
        rejection = Rejection(
            source=later.source,
            stage="collect",
            reason=twin.reason,
            detail=f"of {earlier.source}",
            doc_hash=later.doc_hash.hex(),
        )
        self.reject(rejection, later.given)

    def line(self, candidate: Candidate) -> bytes:
        """Return the line of a document as it was spooled."""
        return self._documents.read(candidate.place)

    def text(self, candidate: Candidate) -> str:
        """Return the text of a document."""
        return str(json.loads(self.line(candidate))["text"])

    def rejection_lines(self) -> Iterator[bytes]:
        """Yield the rejections by the names of their sources."""
        for left_out in sorted(self._left_out):
            yield self._rejections.read(left_out.place)


PACKAGE_PREFIX: Final = "python:"
_NO_PATHS: Final = (PACKAGE_PREFIX, "hf:")
_FILES: Final = frozenset({DOCUMENTS_FILE, REJECTED_FILE, MANIFEST_FILE})


def given_sources(sources: Sequence[str | Path], out: Path) -> dict[str, str | Path]:
    """Return the sources by name, in the order of their names; one that is given twice is one.

    Raises:
        SourceError: There is none, or one of them is or holds the folder to write.
    """
    if not sources:
        message = "no source was given; name a folder, a file or python:PACKAGE"
        raise SourceError(message)
    given: dict[str, str | Path] = {}
    seen: set[str] = set()
    target = out.resolve()
    for source in sorted(sources, key=str):
        name = str(source)
        is_path = not name.startswith(_NO_PATHS)
        identity = str(Path(source).resolve()) if is_path else name
        if is_path and _is_output(Path(identity), target):
            message = (
                f"source {name!r} holds the folder to write, {str(out)!r}, so that collecting "
                "would read its own output; choose a folder outside the source"
            )
            raise SourceError(message, source=name)
        if identity not in seen:
            seen.add(identity)
            given[name] = source
    return given


def _is_output(source: Path, target: Path) -> bool:
    is_around = target.is_relative_to(source) and not source.is_file()
    return is_around or (source.parent == target and source.name in _FILES)
