"""Sources to one folder of distinct, cleaned documents, with everything left out counted."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from structlog import get_logger

from rubric_synth.config import CollectConfig
from rubric_synth.document import Document
from rubric_synth.duplicates import without_duplicates
from rubric_synth.errors import CollectedFolderError, SourceError
from rubric_synth.files import file_sha256, json_line, write_json, write_lines
from rubric_synth.language import words
from rubric_synth.rejection import Rejection, RejectionReason, count_reasons
from rubric_synth.sources import read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_log = get_logger(__name__)

DOCUMENTS_FILE: Final = "documents.jsonl"
REJECTED_FILE: Final = "rejected.jsonl"
MANIFEST_FILE: Final = "manifest.json"


class CollectReport(BaseModel):
    """What a collection holds and what it left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    out: Path
    """The folder."""
    documents: int
    """Documents kept."""
    by_kind: dict[str, int]
    """Documents kept, by kind."""
    rejected: dict[str, int]
    """Documents left out, by reason."""


class _Row(Document):
    """A line of the documents file."""

    expected_hash: str = Field(alias="doc_hash")


def collect(
    sources: Sequence[str | Path],
    out: Path,
    *,
    config: CollectConfig | None = None,
    on_document: Callable[[int], None] | None = None,
) -> CollectReport:
    """Read sources into `OUT/documents.jsonl`, `OUT/rejected.jsonl` and `OUT/manifest.json`.

    The same sources give the same bytes, whatever their order.

    Args:
        sources: Folders, files and `python:PACKAGE` names; see `read_source`.
        out: Folder to write; made if missing.
        config: Limits; the defaults if None.
        on_document: Told the number of documents read so far, for progress.

    Raises:
        SourceError: A source is missing, or all of them together hold no document.
        OutputError: The folder could not be written.
    """
    config = config or CollectConfig()
    if not sources:
        message = "no source was given; name a folder, a file or python:PACKAGE"
        raise SourceError(message)
    candidates: list[Document] = []
    rejections: list[Rejection] = []
    for source in sources:
        for found in read_source(source, config=config):
            admitted = _admit(found, config)
            if isinstance(admitted, Document):
                candidates.append(admitted)
            else:
                rejections.append(admitted)
            if on_document is not None:
                on_document(len(candidates) + len(rejections))
    documents, duplicates = without_duplicates(candidates, cosine=config.near_duplicate_cosine)
    rejections = sorted([*rejections, *duplicates], key=lambda r: (r.source, r.doc_hash))
    if not documents:
        message = f"no document was found in {[str(s) for s in sources]!r}; left out: "
        raise SourceError(message + repr(count_reasons(rejections)), source=str(sources[0]))
    report = CollectReport(
        out=out,
        documents=len(documents),
        by_kind=_kinds(documents),
        rejected=count_reasons(rejections),
    )
    _write(report, sources, documents, rejections, config)
    _log.info("synth.collect.finished", documents=report.documents, rejected=report.rejected)
    return report


def read_collected(folder: Path) -> Iterator[Document]:
    """Yield the documents of a collected folder.

    Raises:
        CollectedFolderError: The folder was not written by `collect`, or a line of it is damaged.
    """
    path = folder / DOCUMENTS_FILE
    try:
        lines = path.open(encoding="utf-8")
    except OSError as error:
        message = f"{str(path)!r} cannot be read; make the folder with `rubric-synth collect`"
        raise CollectedFolderError(message, path=path) from error
    with lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = _Row.model_validate_json(line)
            except ValidationError as error:
                message = f"{str(path)!r}, line {number}, is not a document; collect again"
                raise CollectedFolderError(message, path=path, line=number) from error
            document = Document.model_validate(row.model_dump(exclude={"expected_hash"}))
            if document.doc_hash != row.expected_hash:
                message = f"{str(path)!r}, line {number}: text and doc_hash differ; collect again"
                raise CollectedFolderError(message, path=path, line=number)
            yield document


def _admit(found: Document | Rejection, config: CollectConfig) -> Document | Rejection:
    if isinstance(found, Rejection):
        return found
    count = len(words(found.text))
    if count >= config.min_document_words:
        return found
    return Rejection(
        source=found.source,
        stage="collect",
        reason=RejectionReason.TOO_SHORT if count else RejectionReason.EMPTY,
        detail=f"{count} words",
        doc_hash=found.doc_hash,
    )


def _kinds(documents: Sequence[Document]) -> dict[str, int]:
    kinds = [document.kind for document in documents]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def _write(
    report: CollectReport,
    sources: Sequence[str | Path],
    documents: Sequence[Document],
    rejections: Sequence[Rejection],
    config: CollectConfig,
) -> None:
    out = report.out
    rows = ({"doc_hash": d.doc_hash, **d.model_dump(mode="json")} for d in documents)
    write_lines(out / DOCUMENTS_FILE, (json_line(row) for row in rows))
    write_lines(out / REJECTED_FILE, (json_line(_rejection_row(r)) for r in rejections))
    manifest = {
        "rubric_synth": version("rubric-synth"),
        "sources": sorted(str(source) for source in sources),
        "documents": report.documents,
        "by_kind": report.by_kind,
        "rejected": report.rejected,
        "config": config.model_dump(mode="json"),
        "sha256": {DOCUMENTS_FILE: file_sha256(out / DOCUMENTS_FILE)},
    }
    write_json(out / MANIFEST_FILE, manifest)


def _rejection_row(rejection: Rejection) -> dict[str, object]:
    return rejection.model_dump(mode="json", exclude={"draft"})
