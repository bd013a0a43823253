"""Values of one model on one set of questions: what is compared, whatever it was measured by."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, Field, model_validator

from rubric_eval.records.run import FROZEN


class Measure(StrEnum):
    """What a value is."""

    REWARD = "reward"
    """Rubric reward in [0, 1]."""

    ACCURACY = "accuracy"
    """0 or 1 an item."""


class Measured(BaseModel):
    """N questions, K values each; ids, hashes and numbers alone."""

    model_config = FROZEN

    measure: Measure
    benchmark: str
    """"heldout", or the name of a transfer task."""

    model: str
    fingerprint: str
    """The model's."""

    judge: str | None = None
    """Name of the judge, for rewards."""

    protocol: str
    """Decoding, template and judge as a JSON object: comparable only where it is the same."""

    prompt_form: str | None = None
    """How questions were put to the model, such as "chat"; None where it does not say."""

    chance: float | None = None
    """Accuracy of guessing."""

    ids: tuple[str, ...] = Field(min_length=1)
    clusters: tuple[str, ...]
    """Document of each question: what is resampled; the id itself where there is none."""

    prompts: tuple[str, ...]
    """prompt_sha256 of each question."""

    fields: tuple[str, ...] = ()
    """Field or subject of each question, for a breakdown; empty where unknown."""

    seeds: tuple[int, ...]
    values_NK: tuple[tuple[float | None, ...], ...]
    """K = seeds · samples, seed-major; None where nothing could be measured."""

    criteria_z_N: tuple[dict[str, float], ...] = ()
    """Mean z over the K judged answers, by criterion; for rewards."""

    invalid_frac: float = 0.0
    """Of judged answers; they count as reward 0."""

    unavailable_frac: float = 0.0
    """Of all N·K answers; they are None."""

    reasons: dict[str, int] = Field(default_factory=dict)
    """Why answers are invalid or unavailable, with how many are."""

    by_fallback: dict[str, int] = Field(default_factory=dict)
    """How many answers each fallback of a `litellm_config` judged."""

    truncated_frac: float | None = None
    no_answer_frac: float | None = None
    tokens_mean: float | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        n = len(self.ids)
        for name in ("clusters", "prompts", "values_NK"):
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries for {n} ids")
        for name in ("fields", "criteria_z_N"):
            if getattr(self, name) and len(getattr(self, name)) != n:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries for {n} ids")
        if len(set(self.ids)) < n:
            raise ValueError("an id is there twice")
        if len({len(values) for values in self.values_NK}) > 1:
            raise ValueError("numbers of values a question differ")
        return self
