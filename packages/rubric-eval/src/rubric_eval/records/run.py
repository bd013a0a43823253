"""What was evaluated, on what and how: the manifest of an evaluation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rubric_core import Decoding

FORMAT: Final = 1
"""Of run.json: raised where an older version would take its content for something else."""

FROZEN = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""Of a model or judge in tables and file names."""


class ModelEntry(BaseModel):
    """One model of an evaluation."""

    model_config = FROZEN

    name: Name
    spec: str
    """As it was given, such as `policy:runs/q/base`; never a key."""

    fingerprint: str
    """SHA-256 of the identity, in hexadecimal; two runs with the same one share answers."""

    identity: dict[str, JsonValue]

    form: str | None = None
    """How questions are put to it, as its responder says; see `rubric_core.SaysPromptForm`."""

    @property
    def prompt_form(self) -> str | None:
        """How questions are put to it, also in records from before `form`; None where unknown."""
        if self.form is not None:
            return self.form
        if self.identity.get("kind") == "chat":  # a server takes messages
            return "chat"
        form = self.identity.get("prompt_form")
        return form if isinstance(form, str) else None


class JudgeEntry(BaseModel):
    """One judge of an evaluation."""

    model_config = FROZEN

    name: Name
    fingerprint: str
    """SHA-256 of all that may change a judgement: model, prompt, parameters, router file."""

    identity: dict[str, JsonValue]


class Questions(BaseModel):
    """What was asked."""

    model_config = FROZEN

    source: str
    """Path or name that was given."""

    sha256: str
    """Of ids and texts of all questions, in order."""

    count: int = Field(ge=1)


class FileDigest(BaseModel):
    """A file of an evaluation as its end left it."""

    model_config = FROZEN

    path: str
    """From the evaluation's folder, with slashes."""

    sha256: str
    size: int = Field(ge=0)
    """Bytes."""

    rows: int = Field(ge=0)
    """Lines."""


class EvalRun(BaseModel):
    """run.json: written before the first answer, and again with its status at the end."""

    model_config = FROZEN

    format: Literal[1] = FORMAT
    """Folders from before there was one are read as 1."""

    kind: Literal["heldout", "transfer"]
    status: Literal["running", "finished", "failed"] = "running"
    started: str
    """ISO 8601, with a zone."""

    finished: str | None = None
    error: str | None = None
    models: tuple[ModelEntry, ...]
    judges: tuple[JudgeEntry, ...] = ()
    questions: dict[str, Questions]
    """By benchmark; the one key "heldout" in a held-out evaluation."""

    decoding: Decoding
    seeds: tuple[int, ...]
    samples: int = Field(default=1, ge=1)
    """Answers a question and seed."""

    template: str
    """Hash of what turns a question into a prompt, benchmark by benchmark."""

    suite: str = ""
    """Of a transfer evaluation."""

    templates: dict[str, str] = {}
    """`template` of each benchmark."""

    max_tokens: dict[str, int] = {}
    """Of an answer, benchmark by benchmark, in place of `decoding`'s."""

    stops: dict[str, tuple[str, ...]] = {}
    """Texts that end an answer, benchmark by benchmark, in place of `decoding`'s."""

    versions: dict[str, str]
    """Packages that took part."""

    files: tuple[FileDigest, ...] = ()
    """Every file of a finished evaluation but this one and the ledger, which is a cache. They let
    accidents and careless edits be noticed; against forgery they are no protection."""

    digest: str | None = None
    """SHA-256 of everything else here; None before the end, and in folders of an older version."""


def now() -> str:
    """Return the time, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
