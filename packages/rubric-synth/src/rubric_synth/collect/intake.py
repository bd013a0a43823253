"""Documents read from the sources: texts on disk, fingerprints and counts in memory."""

import contextlib
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

from rubric_core.locks import folder_lock
from rubric_synth.collect.duplicates.selection import Fingerprint, Twin, fingerprint
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
from rubric_synth.files import UNCHANGED, json_line, remove_leftovers, unwritable
from rubric_synth.language import words
from rubric_synth.sources.raw_text import printable


@contextlib.contextmanager
def alone_in(out: Path) -> Generator[None]:
    """Keep other processes out of a folder, and remove what a killed process has left in it.

    A folder that is made here, with the folders above it, is removed again if it stays empty.

    Raises:
        FolderLockError: Another process is writing into the folder, or it cannot be made.
    """
    missing_folders = [folder for folder in out.parents if not folder.exists()]
    with contextlib.ExitStack() as stack:
        for folder in reversed(missing_folders):
            stack.callback(_remove_empty, folder)
        stack.enter_context(folder_lock(out))
        remove_leftovers(out, FILES)
        yield


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


class LineSpool:
    """Lines in a nameless file, read back by place: memory does not grow with their length."""

    def __init__(self, path: Path) -> None:
        """Make the file beside `path`, which errors name in its place."""
        self._path = path
        self._size = 0
        with self._errors_name_path():
            self._file = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 - see `close`

    def append(self, line: bytes) -> tuple[int, int]:
        """Write a line and return its place."""
        place = (self._size, len(line))
        with self._errors_name_path():
            self._file.write(line)
        self._size += len(line)
        return place

    def read(self, place: tuple[int, int]) -> bytes:
        """Read a line back."""
        offset, length = place
        with self._errors_name_path():
            if self._file.tell() != offset:
                self._file.seek(offset)
            return self._file.read(length)

    def close(self) -> None:
        """Close the file, written or not."""
        with contextlib.suppress(OSError):
            self._file.close()

    @contextlib.contextmanager
    def _errors_name_path(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self._path, error, UNCHANGED) from error


def admit(item: Document | Rejection, config: CollectConfig) -> Document | Rejection:
    """Return the document, or the reason why it is left out."""
    if isinstance(item, Rejection):
        texts = {"source": printable(item.source), "detail": printable(item.detail)}
        return item.model_copy(update=texts)
    count = len(words(item.text))
    limit = config.min_document_words
    fields = (item.text, item.title, item.source)
    if "\0" in item.text or "\0" in item.title:
        reason = RejectionReason.BINARY
        detail = f"{len(item.text)} characters"
    elif not all(map(_is_writable, fields)):
        reason = RejectionReason.WRONG_ENCODING
        detail = "half of a surrogate pair"
    elif count < limit:
        reason = RejectionReason.TOO_SHORT if count else RejectionReason.EMPTY
        detail = f"{count} words, below the {limit} of collect.min_document_words"
    else:
        return item
    doc_hash = item.doc_hash if _is_writable(item.text) else ""
    return left_out(printable(item.source), reason, detail, doc_hash)


def _is_writable(text: str) -> bool:
    return text.isascii() or printable(text) == text


class Candidate(NamedTuple):
    """A document that may enter the collection."""

    source: str
    doc_hash: bytes
    given_source: str
    """The source as it was given: a folder, a package."""
    kind: DocumentKind
    place: tuple[int, int]
    """Offset and length of its line in the spool."""
    fingerprint: Fingerprint


class Intake:
    """Documents and rejections on their way into a collection."""

    def __init__(self, out: Path) -> None:
        """Make the two spools in the folder that is to be written; see `close`."""
        self.candidates: list[Candidate] = []
        self.reasons: dict[str, Counter[str]] = {}
        """Number of rejections by given source and reason."""
        self.left_out: list[tuple[str, str, str, tuple[int, int]]] = []
        """Source, hash, given source, and place in the spool of each rejection."""
        self._documents = LineSpool(out / DOCUMENTS_FILE)
        self._rejections = LineSpool(out / REJECTED_FILE)

    def take(
        self,
        item: Document | Rejection,
        given_source: str,
        config: CollectConfig,
    ) -> None:
        """Keep a document that was read, or the reason why it is left out."""
        item = admit(item, config)
        if isinstance(item, Rejection):
            self.reject(item, given_source)
            return
        candidate = Candidate(
            source=item.source,
            doc_hash=bytes.fromhex(item.doc_hash),
            given_source=given_source,
            kind=item.kind,
            place=self._documents.append(document_line(item)),
            fingerprint=fingerprint(item),
        )
        self.candidates.append(candidate)

    def reject(self, rejection: Rejection, given_source: str) -> None:
        """Keep the reason why a document was left out."""
        row = rejection.model_dump(mode="json", exclude={"draft"})
        place = self._rejections.append(json_line(row))
        entry = (rejection.source, rejection.doc_hash, given_source, place)
        self.left_out.append(entry)
        counts = self.reasons.setdefault(given_source, Counter())
        counts[str(rejection.reason)] += 1

    def reject_twin(
        self,
        twin: Twin,
        later: Candidate,
        earlier: Candidate,
    ) -> None:
        """Leave out a document that repeats an earlier one."""
        detail = f"of {earlier.source}"
        rejection = left_out(
            later.source,
            twin.reason,
            detail,
            later.doc_hash.hex(),
        )
        self.reject(rejection, later.given_source)

    def line(self, candidate: Candidate) -> bytes:
        """Return the line of a document as it was spooled."""
        return self._documents.read(candidate.place)

    def rejection_lines(self) -> Iterator[bytes]:
        """Return the rejections by the names of their sources."""
        return (self._rejections.read(place) for *_, place in sorted(self.left_out))

    def close(self) -> None:
        """Close the spools."""
        self._documents.close()
        self._rejections.close()
