"""What was read from the sources: texts on disk, and what is compared and counted in memory."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from rubric_synth.collect.folder import DOCUMENTS_FILE, REJECTED_FILE, document_line
from rubric_synth.duplicates import Fingerprint, fingerprint
from rubric_synth.files import json_line
from rubric_synth.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_synth.collect.staging import Staging
    from rubric_synth.document import Document, DocumentKind
    from rubric_synth.duplicates import Twin


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
