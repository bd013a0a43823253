"""What a run tells of the dataset that it wrote."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rubric_synth.calls import CallTotals


class SynthReport(BaseModel):
    """What a dataset holds and what was left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    out: Path
    """The folder."""
    documents: int
    """Documents of the collection."""
    accepted_documents: int
    """Finished documents with at least one task."""
    pending_documents: int = 0
    """Documents that another run goes on with."""
    unanswered_documents: int = 0
    """Those of them that were worked on and got no answer from a model or judge."""
    tasks: dict[str, int]
    """Tasks by split."""
    rejected: dict[str, int]
    """Documents and drafts left out, by reason."""
    usage: CallTotals = CallTotals()
    """What all calls for this dataset took, earlier runs and unfinished documents included."""
