"""Sources to one folder of distinct, cleaned documents, with everything left out counted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from rubric_synth.collect.folder import DOCUMENTS_FILE, MANIFEST_FILE, REJECTED_FILE
from rubric_synth.collect.intake import PACKAGE_PREFIX, Intake, admit, given_sources
from rubric_synth.collect.older import read_older
from rubric_synth.collect.report import make_report, manifest
from rubric_synth.collect.staging import staging
from rubric_synth.config import CollectConfig
from rubric_synth.document import Document
from rubric_synth.duplicates import find_twins
from rubric_synth.errors import SourceError
from rubric_synth.events import log_finished
from rubric_synth.files import file_sha256
from rubric_synth.remedies import remedies
from rubric_synth.sources import read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rubric_synth.collect.intake import Candidate
    from rubric_synth.collect.older import Older
    from rubric_synth.collect.report import CollectReport
    from rubric_synth.rejection import Rejection

    _Reader = tuple[str, Callable[[], Iterator[Document | Rejection]]]


Step = Literal["reading", "comparing", "writing"]


class CollectProgress(NamedTuple):
    """How far a collection is."""

    step: Step
    read: int
    """Documents read, whatever became of them."""
    left_out: int
    """Of these; duplicates are known after reading."""


def collect(
    sources: Sequence[str | Path],
    out: Path,
    *,
    config: CollectConfig | None = None,
    on_progress: Callable[[CollectProgress], None] | None = None,
) -> CollectReport:
    """Read sources into `OUT/documents.jsonl`, `OUT/rejected.jsonl` and `OUT/manifest.json`.

    The same sources give the same bytes, whatever their order. Where the folder holds an older
    collection, documents of it that the sources still give stay, in their order and before all
    new ones: a new document is compared with them and never takes the place of one.

    Memory grows with the number of documents (about 1 kB each), not with their length, but for
    the word counts of API entries. A run that fails or is killed leaves an older folder whole.

    Args:
        sources: Folders, files, and names of packages and data sets; see `read_source`.
        out: Folder to write; made if missing.
        config: Limits; the defaults if None.
        on_progress: Told after each document that was read, and before each further step.

    Raises:
        SourceError: A source is missing or holds the folder to write, or all of them together
            hold no document.
        OutputError: The folder could not be written, or holds other files of these names.
    """
    config = config or CollectConfig()
    given = given_sources(sources, out)
    readers = _readers(given, config)
    older = read_older(out, config)
    tell = on_progress or _silent
    with staging(out) as staged:
        intake = Intake(staged)
        for name, read in readers:
            for found in read():
                admitted = admit(found, config)
                if isinstance(admitted, Document):
                    intake.add(admitted, name)
                else:
                    intake.reject(admitted, name)
                tell(_progress("reading", intake))
        tell(_progress("comparing", intake))
        kept = _distinct(intake, older, config)
        tell(_progress("writing", intake))
        report = make_report(out, list(given), kept, intake, older)
        if not kept:
            raise _nothing_found(report)
        files = {
            DOCUMENTS_FILE: staged.write(DOCUMENTS_FILE, map(intake.line, kept)),
            REJECTED_FILE: staged.write(REJECTED_FILE, intake.rejection_lines()),
        }
        hashes = {name: file_sha256(path) for name, path in files.items()}
        staged.write(MANIFEST_FILE, [manifest(report, config, hashes)])
        staged.publish()
    log_finished("synth.collect.finished", documents=report.documents, rejected=report.rejected)
    return report


def _readers(given: Mapping[str, str | Path], config: CollectConfig) -> list[_Reader]:
    """Find all sources before the first is read, so that a missing one is told at once.

    Packages are imported as they are read, and before all else: importing one may change the
    docstrings of another.
    """
    packages = [name for name in given if name.startswith(PACKAGE_PREFIX)]
    others = [name for name in given if name not in packages]
    found = [(name, read_source(given[name], config=config)) for name in others]
    return [
        *((name, partial(read_source, given[name], config=config)) for name in packages),
        *((name, partial(iter, documents)) for name, documents in found),
    ]


def _distinct(intake: Intake, older: Older, config: CollectConfig) -> list[Candidate]:
    """Drop duplicates; what the folder held already is kept before anything new."""

    def rank(candidate: Candidate) -> tuple[int, bool, str, bytes, str]:
        place = older.places.get(candidate.doc_hash)
        order = len(older.places) if place is None else place.order
        has_moved = place is not None and place.source != candidate.source
        return order, has_moved, candidate.source, candidate.doc_hash, candidate.given

    ordered = sorted(intake.candidates, key=rank)
    stayed = sum(candidate.doc_hash in older.places for candidate in ordered)
    twins = find_twins(
        [candidate.fingerprint for candidate in ordered],
        lambda index: intake.text(ordered[index]),
        config=config,
        settled=stayed if older.same_thresholds else 0,
    )
    for later, twin in twins.items():
        intake.reject_twin(twin, ordered[later], ordered[twin.earlier])
    return [candidate for index, candidate in enumerate(ordered) if index not in twins]


def _nothing_found(report: CollectReport) -> SourceError:
    message = f"no document was found in {', '.join(report.by_source)}"
    if report.rejected:
        reasons = ", ".join(f"{count} {reason}" for reason, count in report.rejected.items())
        message += f"; left out: {reasons}"
        if advice := remedies(report.rejected):
            message += f". What to do: {advice}"
    else:
        message += "; there is no file to read"
    return SourceError(message, source=next(iter(report.by_source)))


def _progress(step: Step, intake: Intake) -> CollectProgress:
    return CollectProgress(step, len(intake.candidates) + intake.left_out, intake.left_out)


def _silent(_progress: CollectProgress) -> None:
    pass
