"""What a collection holds and what it left out: for the caller and for the manifest."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from rubric_synth.files import json_page
from rubric_synth.rejection import most_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rubric_synth.collect.intake import Candidate, Intake
    from rubric_synth.collect.older import Older
    from rubric_synth.config import CollectConfig

_LIBRARIES: Final = ("rensa", "scikit-learn")  # another release may find other duplicates


class CollectReport(BaseModel):
    """What a collection holds and what it left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    out: Path
    """The folder."""
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


def make_report(
    out: Path, given: Sequence[str], kept: Sequence[Candidate], intake: Intake, older: Older
) -> CollectReport:
    """Count what was kept and left out."""
    by_given = Counter(candidate.given for candidate in kept)
    reasons = sum(intake.reasons.values(), Counter[str]())
    stayed = sum(candidate.doc_hash in older.places for candidate in kept)
    return CollectReport(
        out=out,
        documents=len(kept),
        by_kind=dict(sorted(Counter(candidate.kind for candidate in kept).items())),
        by_source={
            name: {"documents": by_given[name], **most_first(intake.reasons.get(name, {}))}
            for name in given
        },
        rejected=most_first(reasons),
        stayed=stayed,
        gone=len(older.places) - stayed,
    )


def manifest(report: CollectReport, config: CollectConfig, hashes: Mapping[str, str]) -> bytes:
    """Return the manifest: the same documents, the same bytes, whatever the folder held before."""
    content = {
        "rubric_synth": version("rubric-synth"),
        "versions": {name: version(name) for name in _LIBRARIES},
        "sources": list(report.by_source),
        "documents": report.documents,
        "by_kind": report.by_kind,
        "by_source": report.by_source,
        "rejected": report.rejected,
        "config": config.model_dump(mode="json"),
        "sha256": dict(hashes),
    }
    return json_page(content)
