"""Configuration of collection and synthesis: frozen, checked, read from YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rubric_core.configuration import config_error
from rubric_judge.yaml_files import read_yaml


class _Config(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class CollectConfig(_Config):
    """What a document must be to be collected."""

    min_document_words: int = Field(default=30, ge=1)
    """Documents with fewer words are too short."""
    max_document_bytes: int = Field(default=5_000_000, ge=1_000)
    """Files and records above this size are too long."""
    near_duplicate_cosine: float = Field(default=0.55, gt=0.0, le=1.0)
    """Two documents whose TF-IDF vectors are closer than this are near duplicates."""


class ExtractiveConfig(_Config):
    """The synthesiser that needs no model: every word comes from the document."""

    type: Literal["extractive"] = "extractive"
    """Name of the synthesiser."""
    questions_per_document: int = Field(default=1, ge=1, le=5)
    """At most this many questions from one document (K_d)."""
    key_terms: int = Field(default=5, ge=2, le=8)
    """At most this many expected keywords per criterion."""
    min_passage_words: int = Field(default=120, ge=30)
    """A passage of a prose document has at least this many words."""
    max_passage_words: int = Field(default=900, ge=60)
    """And at most this many."""


class QualityConfig(_Config):
    """What a task must be to enter the dataset."""

    min_criteria: int = Field(default=5, ge=1)
    """Fewest criteria of a rubric."""
    max_criteria: int = Field(default=10, ge=1)
    """Most criteria of a rubric."""
    min_total_weight: float = Field(default=5.0, gt=0.0)
    """Least total weight W of a rubric."""
    leak_words: int = Field(default=8, ge=3)
    """A run of this many words shared by question and passage or rubric is a leak."""
    min_reference_reward: float = Field(default=0.7, ge=0.0, le=1.0)
    """The reference answer, judged by its own rubric, earns at least this reward."""
    max_empty_reward: float = Field(default=0.05, ge=0.0, le=1.0)
    """An empty answer earns at most this reward."""
    max_echo_reward: float = Field(default=0.35, ge=0.0, le=1.0)
    """The question, given back as the answer, earns at most this reward."""

    @model_validator(mode="after")
    def _ordered(self) -> QualityConfig:
        if self.max_criteria < self.min_criteria:
            message = f"max_criteria {self.max_criteria} is below min_criteria {self.min_criteria}"
            raise ValueError(message)
        return self


class SynthConfig(_Config):
    """From documents to a dataset."""

    collect: CollectConfig = CollectConfig()
    """Collection."""
    synthesiser: ExtractiveConfig = ExtractiveConfig()
    """The three stages."""
    quality: QualityConfig = QualityConfig()
    """Checks of each task."""
    max_concurrency: int = Field(default=8, ge=1, le=1024)
    """Documents in work at one time."""
    train_frac: float = Field(default=0.70, gt=0.0, lt=1.0)
    """Share of documents for training."""
    validation_frac: float = Field(default=0.15, gt=0.0, lt=1.0)
    """Share of documents for validation; the rest is the test split."""

    @model_validator(mode="after")
    def _leaves_a_test_split(self) -> SynthConfig:
        if self.train_frac + self.validation_frac >= 1.0:
            message = (
                f"train_frac {self.train_frac} and validation_frac {self.validation_frac} "
                "leave nothing for the test split; their sum must stay below 1"
            )
            raise ValueError(message)
        return self


def load_config(path: Path) -> SynthConfig:
    """Read a YAML file.

    Raises:
        ConfigError: The file is missing, is not a YAML mapping, or holds a key that is unknown,
            wrong, or there twice.
    """
    content = read_yaml(path)
    try:
        return SynthConfig.model_validate({} if content is None else content)
    except ValidationError as error:
        raise config_error(error, model=SynthConfig, source=str(path)) from None
