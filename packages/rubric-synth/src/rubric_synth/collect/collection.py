"""Collection of sources into one folder of distinct, cleaned documents, with counts of the rest."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from rubric_synth.collect import folder
from rubric_synth.collect.duplicates.selection import find_twins
from rubric_synth.collect.intake import Candidate, Intake, alone_in
from rubric_synth.config import CollectConfig, Frozen
from rubric_synth.document import Found, most_first
from rubric_synth.errors import SourceError
from rubric_synth.events import log_finished
from rubric_synth.files import json_page, writing
from rubric_synth.remedies import remedies
from rubric_synth.sources import DATASET_PREFIX, PACKAGE_PREFIX, SUFFIXES, read_source


class CollectReport(Frozen):
    """Counts of the documents that a collection holds, and of those that it left out."""

    out: Path
    """Folder of the collection."""
    documents: int
    """Documents kept."""
    by_kind: dict[str, int]
    """Documents kept, by kind."""
    by_source: dict[str, dict[str, int]]
    """For each source as it was given: `documents` kept, and the number left out by reason."""
    rejected: dict[str, int]
    """Documents left out, by reason."""
    stayed: int = 0
    """Documents that the folder held before and still holds."""
    gone: int = 0
    """Documents that the folder held before and that the sources no longer give."""


Step = Literal["reading", "comparing", "writing"]


class CollectProgress(NamedTuple):
    """Progress of a collection."""

    step: Step
    read: int
    """Documents read, whatever became of them."""
    left_out: int
    """Documents left out among these; duplicates are known only after reading."""


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
        on_progress: Called after each document that was read, and before each further step.

    Raises:
        SourceError: A source is missing or holds the folder to write, or all of them together
            hold no document.
        OutputError: The folder could not be written, or holds other files of these names.
    """
    config = config or CollectConfig()
    sources_by_name = _sources_by_name(sources, out)
    readers = _readers(sources_by_name, config)
    older = folder.read_older(out, config)
    with alone_in(out), contextlib.closing(Intake(out)) as intake:

        def report_progress(step: Step) -> None:
            if on_progress is not None:
                left_out = len(intake.left_out)
                read = len(intake.candidates) + left_out
                on_progress(CollectProgress(step, read, left_out))

        for name, items in readers:
            for item in items:
                intake.take(item, name, config)
                report_progress("reading")
        report_progress("comparing")
        distinct = _distinct(intake, older, config)
        report_progress("writing")
        report = _report(out, list(sources_by_name), distinct, intake, older)
        if not distinct:
            raise _nothing_found(report, intake)
        with writing([out / name for name in folder.FILES]) as (
            documents,
            rejected,
            manifest,
        ):
            for candidate in distinct:
                documents.write(intake.line(candidate))
            for line in intake.rejection_lines():
                rejected.write(line)
            hashes = {
                folder.DOCUMENTS_FILE: documents.sha256,
                folder.REJECTED_FILE: rejected.sha256,
            }
            manifest.write(_manifest(report, config, hashes))
    log_finished(
        "synth.collect.finished", documents=report.documents, rejected=report.rejected
    )
    return report


def _sources_by_name(sources: Sequence[str | Path], out: Path) -> dict[str, str | Path]:
    """Return the sources by name, in the order of their names, each of them once.

    Raises:
        SourceError: There is none, or one of them is or holds the folder to write.
    """
    if not sources or "" in sources:
        problem = "a source has no name" if sources else "no source was given"
        raise SourceError(f"{problem}; name a folder, a file or python:PACKAGE")
    by_identity: dict[str, str | Path] = {}
    target = out.resolve()
    for source in sorted(sources, key=str):
        name = str(source)
        is_path = not name.startswith((PACKAGE_PREFIX, DATASET_PREFIX))
        identity = str(Path(source).resolve()) if is_path else name
        if is_path and _is_output(Path(identity), target):
            raise SourceError(
                f"source {name!r} holds the folder to write, {str(out)!r}, so that collecting "
                "would read its own output; choose a folder outside the source",
                source=name,
            )
        by_identity.setdefault(identity, source)
    return {str(source): source for source in by_identity.values()}


def _is_output(source: Path, target: Path) -> bool:
    is_around = target.is_relative_to(source) and not source.is_file()
    if is_around:
        return True
    return source.parent == target and source.name in folder.FILES


def _readers(
    sources: Mapping[str, str | Path], config: CollectConfig
) -> Iterator[tuple[str, Found]]:
    """Find all sources before the first is read, so that a missing one is reported at once.

    Packages are imported as they are read, and before all else: importing one may change the
    docstrings of another.
    """
    others = [
        (name, read_source(source, config=config))
        for name, source in sources.items()
        if not name.startswith(PACKAGE_PREFIX)
    ]
    lazy = (
        (name, read_source(source, config=config))
        for name, source in sources.items()
        if name.startswith(PACKAGE_PREFIX)
    )
    return chain(lazy, others)


def _distinct(
    intake: Intake,
    older: folder.Older,
    config: CollectConfig,
) -> list[Candidate]:
    """Drop duplicates; documents that the folder held already go before new ones."""

    def rank(candidate: Candidate) -> tuple[int, bool, str, bytes, str]:
        place = older.places.get(candidate.doc_hash)
        order = len(older.places) if place is None else place.order
        has_moved = place is not None and place.source != candidate.source
        return (
            order,
            has_moved,
            candidate.source,
            candidate.doc_hash,
            candidate.given_source,
        )

    ordered = sorted(intake.candidates, key=rank)
    stayed = sum(candidate.doc_hash in older.places for candidate in ordered)
    twins = find_twins(
        [candidate.fingerprint for candidate in ordered],
        lambda index: json.loads(intake.line(ordered[index]))["text"],
        config=config,
        settled=stayed if older.same_thresholds else 0,
    )
    for later, twin in twins.items():
        intake.reject_twin(twin, ordered[later], ordered[twin.earlier])
    return [candidate for index, candidate in enumerate(ordered) if index not in twins]


def _nothing_found(report: CollectReport, intake: Intake) -> SourceError:
    why = f"there is no file to read: put files in that end in {', '.join(SUFFIXES)}"
    if report.rejected:
        examples: dict[str, str] = {}
        for line in intake.rejection_lines():
            row = json.loads(line)
            texts = [text for text in (row["source"], row["detail"]) if text]
            examples.setdefault(row["reason"], ", ".join(texts))
        reasons = "; ".join(
            f"{count} {reason} (first {examples[reason]})"
            for reason, count in report.rejected.items()
        )
        why = f"left out: {reasons}"
        if advice := remedies(report.rejected):
            why += f". What to do: {advice}"
    names = list(report.by_source)
    message = f"no document was found in {', '.join(names)}; {why}"
    return SourceError(message, source=names[0])


def _report(
    out: Path,
    sources: Sequence[str],
    documents: Sequence[Candidate],
    intake: Intake,
    older: folder.Older,
) -> CollectReport:
    """Count the documents of a collection and what was left out."""
    kinds = Counter(candidate.kind for candidate in documents)
    documents_by_source = Counter(candidate.given_source for candidate in documents)
    by_source = {
        name: {
            "documents": documents_by_source[name],
            **most_first(intake.reasons.get(name, {})),
        }
        for name in sources
    }
    stayed = sum(candidate.doc_hash in older.places for candidate in documents)
    return CollectReport(
        out=out,
        documents=len(documents),
        by_kind=dict(sorted(kinds.items())),
        by_source=by_source,
        rejected=most_first(sum(intake.reasons.values(), Counter[str]())),
        stayed=stayed,
        gone=len(older.places) - stayed,
    )


def _manifest(
    report: CollectReport,
    config: CollectConfig,
    hashes: Mapping[str, str],
) -> bytes:
    """Return the manifest: the same documents, the same bytes, whatever the folder held before."""
    content: dict[str, object] = {
        "rubric_synth": version("rubric-synth"),
        # Another release may find other duplicates.
        "versions": {name: version(name) for name in ("rensa", "scikit-learn")},
        "sources": list(report.by_source),
        **report.model_dump(include={"documents", "by_kind", "by_source", "rejected"}),
        "config": config.model_dump(mode="json"),
        "sha256": dict(hashes),
    }
    return json_page(content)
