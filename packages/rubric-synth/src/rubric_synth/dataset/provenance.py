"""Where a dataset comes from: what the writer cannot see in the tasks themselves."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rubric_synth.calls import CallTotals
from rubric_synth.rejection import Stage


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("rubric-core", "rubric-judge", "rubric-synth")}


class Provenance(BaseModel):
    """Documents, prompts, model and judge behind a dataset; no address, no key, no time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    collected_sha256: str
    """Of the collected documents' file."""
    documents: int = Field(ge=0)
    """Documents collected."""
    pending: int = Field(default=0, ge=0)
    """Those of them without an outcome yet."""
    collect: dict[str, Any] | None = None
    """Configuration of the collection, as its own manifest has it; None where that is not known."""
    spent: dict[Stage, CallTotals] | None = None
    """What all calls took that were made for this dataset, of finished documents or not; None for
    those that the outcomes name."""
    prompts: dict[str, str] = {}
    """SHA-256 of each prompt file by its name; empty where no model was asked."""
    model: dict[str, Any] | None = None
    """Identity of the model, as `ChatModel.identity` gives it; None where none was asked."""
    judge: str = ""
    """Name of the judge that checked the tasks."""
    versions: dict[str, str] = Field(default_factory=_versions)
    """Of the packages that made it."""
