"""The manifest of a dataset: counts, costs, origins, configuration and hashes of the files."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any, Final, cast

from pydantic import Field

from rubric_core.configuration import may_be_key
from rubric_synth.calls import CallTotals
from rubric_synth.config import Frozen
from rubric_synth.rejection import Stage


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("rubric-core", "rubric-judge", "rubric-synth")}


class Provenance(Frozen):
    """Documents, prompts, model and judge behind a dataset; no address, no key, no time."""

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
    prompts: dict[str, str] = Field(default_factory=dict[str, str])
    """SHA-256 of each prompt file by its name; empty where no model was asked."""
    model: dict[str, Any] | None = None
    """Identity of the model, as `ChatModel.identity` gives it; None where none was asked."""
    judge: str = ""
    """Name of the judge that checked the tasks."""
    versions: dict[str, str] = Field(default_factory=_versions)
    """Of the packages that made it."""


_PLACES: Final = frozenset({"address", "api_base", "api_key_env", "litellm_config"})
"""Settings that say where a model runs or which variable holds its key: not for publication."""
_OPTIONS: Final = frozenset({"options", "parameters"})
"""Settings that are passed on as they are: anything may stand there, a key by mistake too."""
_SECRET: Final = re.compile(r"key|secret|password|credential|auth|token$", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])")
_UNSHOWN: Final = "…"


class Usage(Frozen):
    """Calls, tokens and costs."""

    total: CallTotals = CallTotals()
    """Of all calls that were made for this dataset."""
    by_stage: dict[Stage, CallTotals] = Field(default_factory=dict[Stage, CallTotals])
    """The same by the stage that asked."""
    unfinished: CallTotals = CallTotals()
    """Of the total, what no finished document used: calls for pending documents, for earlier
    settings or collections, and tokens of calls without an answer."""


class Manifest(Frozen):
    """What `manifest.json` holds; the same answers give the same bytes."""

    versions: dict[str, str]
    """Of the packages that made the dataset."""
    collected_sha256: str
    """Of the collected documents' file."""
    documents: int = Field(ge=0)
    """Documents collected: accepted, rejected and pending ones."""
    accepted_documents: int = Field(ge=0)
    """Finished documents with at least one task."""
    rejected_documents: int = Field(ge=0)
    """Finished documents without a task, each with its reasons in rejected.jsonl."""
    pending_documents: int = Field(ge=0)
    """Documents that another run goes on with."""
    unanswered_documents: int = Field(default=0, ge=0)
    """Those of the pending ones that were worked on and got no answer from a model or judge: each
    has a line in rejected.jsonl that says so, and tasks where some of its questions were done."""
    tasks: dict[str, int]
    """Tasks by split."""
    rejected: dict[str, int]
    """Lines of rejected.jsonl by reason."""
    rejected_by_stage: dict[Stage, dict[str, int]]
    """The same, by stage and reason."""
    model: dict[str, Any] | None
    """Identity of the model that was asked; no address, no key."""
    judge: str
    """Name of the judge that checked the tasks."""
    prompts: dict[str, str]
    """SHA-256 of each prompt file."""
    usage: Usage
    """What the calls took, over all runs."""
    config: dict[str, Any]
    """Configuration, without the places of models and keys."""
    sha256: dict[str, str]
    """Of each file of the folder but the manifest."""


def published(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without addresses, paths and what may be a key in a wrong place."""
    return cast("dict[str, Any]", _shown(settings, name="", is_option=False))


def without_key(name: str) -> str:
    """Return the name of a model or judge; `…` for what may be a key. Dates are numbers."""
    return _UNSHOWN if may_be_key(_NUMBER.sub("", name)) else name


def _shown(value: object, *, name: str, is_option: bool) -> object:
    match value:
        case dict():
            fields = cast("dict[str, object]", value)
            return {
                _UNSHOWN if is_option and may_be_key(key) else key: _shown(
                    field, name=key, is_option=is_option or key in _OPTIONS
                )
                for key, field in fields.items()
                if key not in _PLACES
            }
        case list():
            items = cast("list[object]", value)
            return [_shown(item, name=name, is_option=is_option) for item in items]
        case str() if is_option and (may_be_key(value) or _SECRET.search(name)):
            return _UNSHOWN
        case str() if name == "model":
            return without_key(value)
        case _:
            return value


SPLITS: Final = ("train", "validation", "test")
REJECTED_FILE: Final = "rejected.jsonl"
MANIFEST_FILE: Final = "manifest.json"
CARD_FILE: Final = "README.md"
WORK_FOLDER: Final = "work"
"""What a run keeps in the folder so that the next one can go on with it."""
