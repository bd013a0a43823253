"""What was read from the sources: texts on disk, and what is compared and counted in memory."""

import contextlib
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

from rubric_core.locks import folder_lock
from rubric_synth.collect.folder import (
    DOCUMENTS_FILE,
    FILES,
    REJECTED_FILE,
    document_line,
)
from rubric_synth.config import CollectConfig
from rubric_synth.document import (
    Document,
    DocumentKind,
    Rejection,
    RejectionReason,
    left_out,
)
from rubric_synth.duplicates.selection import Fingerprint, Twin, fingerprint
from rubric_synth.files import UNCHANGED, json_line, remove_leftovers, unwritable
from rubric_synth.language import words
from rubric_synth.sources.raw_text import printable


@contextlib.contextmanager
def alone_in(out: Path) -> Generator[None]:
    """Keep other processes out of a folder, and remove what a killed one has left in it.

    A folder that was made here, with the folders above it, is removed again if nothing was put
    into it.

    Raises:
        FolderLockError: Another process is writing into the folder, or it cannot be made.
    """
    paths = [folder for folder in out.parents if not folder.exists()]
    with contextlib.ExitStack() as stack:
        for folder in reversed(paths):
            stack.callback(_remove_empty, folder)
        stack.enter_context(folder_lock(out))
        remove_leftovers(out, FILES)
        yield


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


class LineSpool:
    """Lines in a nameless file, found by their place: memory does not grow with their length."""

    def __init__(self, shown: Path) -> None:
        """Make the file beside `shown`, which is what errors name."""
        self._shown = shown
        self._size = 0
        with self._named():
            self._file = tempfile.TemporaryFile(dir=shown.parent)  # noqa: SIM115 - see `close`

    def append(self, line: bytes) -> tuple[int, int]:
        """Write a line and return its place."""
        place = (self._size, len(line))
        with self._named():
            self._file.write(line)
        self._size += len(line)
        return place

    def read(self, place: tuple[int, int]) -> bytes:
        """Read a line back."""
        offset, length = place
        with self._named():
            if self._file.tell() != offset:
                self._file.seek(offset)
            return self._file.read(length)

    def close(self) -> None:
        """Close the file, written or not."""
        with contextlib.suppress(OSError):
            self._file.close()

    @contextlib.contextmanager
    def _named(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self._shown, error, UNCHANGED) from error


def admit(found: Document | Rejection, config: CollectConfig) -> Document | Rejection:
    """Return the document, or the reason why it is left out."""
    if isinstance(found, Rejection):
        texts = {"source": printable(found.source), "detail": printable(found.detail)}
        return found.model_copy(update=texts)
    count = len(words(found.text))
    limit = config.min_document_words
    if "\0" in found.text or "\0" in found.title:
        reason = RejectionReason.BINARY
        detail = f"{len(found.text)} characters"
    elif not all(map(_is_writable, (found.text, found.title, found.source))):
        reason = RejectionReason.WRONG_ENCODING
        detail = "half of a surrogate pair"
    elif count < limit:
        reason = RejectionReason.TOO_SHORT if count else RejectionReason.EMPTY
        detail = f"{count} words, below the {limit} of collect.min_document_words"
    else:
        return found
    doc_hash = found.doc_hash if _is_writable(found.text) else ""
    return left_out(printable(found.source), reason, detail, doc_hash)


def _is_writable(text: str) -> bool:
    return text.isascii() or printable(text) == text


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


class Intake:
    """Documents and rejections on their way into a collection."""

    def __init__(self, out: Path) -> None:
        """Make the two spools in the folder that is to be written; see `close`."""
        self.candidates: list[Candidate] = []
        self.reasons: dict[str, Counter[str]] = {}
        """Rejections by given source and reason."""
        self.left_out: list[tuple[str, str, str, tuple[int, int]]] = []
        """Source, hash, given source, and place in the spool of each rejection."""
        self._documents = LineSpool(out / DOCUMENTS_FILE)
        self._rejections = LineSpool(out / REJECTED_FILE)

    def take(
        self, item: Document | Rejection, given: str, config: CollectConfig
    ) -> None:
        """Keep a document that was read, or the reason why it is left out."""
        item = admit(item, config)
        if isinstance(item, Rejection):
            self.reject(item, given)
            return
        place = self._documents.append(document_line(item))
        doc_hash = bytes.fromhex(item.doc_hash)
        known = fingerprint(item)
        self.candidates.append(
            Candidate(item.source, doc_hash, given, item.kind, place, known)
        )

    def reject(self, rejection: Rejection, given: str) -> None:
        """Keep the reason why a document was left out."""
        row = rejection.model_dump(mode="json", exclude={"draft"})
        place = self._rejections.append(json_line(row))
        self.left_out.append((rejection.source, rejection.doc_hash, given, place))
        self.reasons.setdefault(given, Counter())[str(rejection.reason)] += 1

    def reject_twin(self, twin: Twin, later: Candidate, earlier: Candidate) -> None:
        """Leave out a document for an earlier one."""
        detail = f"of {earlier.source}"
        doc_hash = later.doc_hash.hex()
        self.reject(left_out(later.source, twin.reason, detail, doc_hash), later.given)

    def line(self, candidate: Candidate) -> bytes:
        """Return the line of a document as it was spooled."""
        return self._documents.read(candidate.place)

    def rejection_lines(self) -> Iterator[bytes]:
        """Return the rejections by the names of their sources."""
        return (self._rejections.read(place) for *_, place in sorted(self.left_out))

    def close(self) -> None:
        """Let go of the spools."""
        self._documents.close()
        self._rejections.close()
