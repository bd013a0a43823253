"""The policy that a run starts from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rubric_train_openrlhf.config.sections import (
    Section,
    UserPath,
)  # pydantic resolves it at runtime
from rubric_train_openrlhf.policy_config import PretrainConfig, TinyConfig


class PathModel(Section):
    """A causal language model saved in Hugging Face format."""

    type: Literal["path"] = "path"
    path: UserPath
    """Folder with config.json, weights and tokenizer."""


class TinyModel(Section):
    """A small Llama built in code and pre-trained on documents, for a machine with no model."""

    type: Literal["tiny"] = "tiny"
    documents: UserPath
    """JSONL as `rubric-synth collect` writes it; the documents of held-out tasks are left out."""
    architecture: TinyConfig = Field(default_factory=TinyConfig)
    """Size of the model and its vocabulary."""
    pretrain: PretrainConfig = Field(default_factory=PretrainConfig)
    """How long it is pre-trained."""


ModelConfig = Annotated[PathModel | TinyModel, Field(discriminator="type")]
