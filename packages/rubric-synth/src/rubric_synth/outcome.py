"""All that came of one document: what a worker hands back and what a shard keeps."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rubric_synth.calls import CallTotals
from rubric_synth.rejection import Rejection, Stage


class Outcome(BaseModel):
    """Tasks, rejections and account of one document; every document ends as one of these."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    source: str
    """Where the document came from."""
    doc_hash: str
    """SHA-256 of its text."""
    tasks: tuple[dict[str, Any], ...] = Field(default=(), repr=False)
    """Checked tasks in the paper's JSON, passages included."""
    rejections: tuple[Rejection, ...] = Field(default=(), repr=False)
    """What was refused, and why."""
    totals: dict[Stage, CallTotals] = {}
    """What each stage asked and what it cost, earlier runs included."""

    @property
    def is_settled(self) -> bool:
        """Whether the document is done: False where a model or a judge gave no answer."""
        return all(rejection.reason.is_settled for rejection in self.rejections)
