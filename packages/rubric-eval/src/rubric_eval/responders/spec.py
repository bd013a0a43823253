"""A model that was named: what kind it is, and where."""

from __future__ import annotations

from pydantic import BaseModel, Field, JsonValue

from rubric_eval.records.run import FROZEN, Name

CHAT = ("server", "litellm", "file")
"""Kinds that are called over a network, with the fields of `rubric_judge.ModelConfig`."""

HARNESS = "hf"
"""Folders that lm-eval loads; every other kind is a plugin's."""


class ModelSpec(BaseModel):
    """One model of an evaluation, before it is opened."""

    model_config = FROZEN

    name: Name
    """In tables and file names."""

    kind: str = Field(min_length=1)
    """`server`, `litellm`, `file`, `hf`, or the name of a plugin such as `policy`."""

    options: dict[str, JsonValue]
    """What the kind takes: a `path`, or the fields of a `ModelConfig`."""

    spec: str
    """As it was given."""
