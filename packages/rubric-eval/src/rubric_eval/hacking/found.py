"""What the hacking panel found: hacking.json. Names and numbers alone, no word of an answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from rubric_eval.hacking.correlation import Correlation
from rubric_eval.records import InputFile
from rubric_eval.records.run import FROZEN
from rubric_eval.statistics import Interval


class HackingSettings(BaseModel):
    """How signs of hacking are looked for."""

    model_config = FROZEN

    judge: str
    """Whose reward is looked into."""

    second: str | None = None
    """A judge that was not trained on."""

    baseline: str | None = None
    """Model that the others are set against; by default the first."""

    echo_words: int = Field(default=5, ge=2)
    """Words in a row that make an echo."""

    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    resamples: int = Field(default=1999, ge=99)
    seed: int = Field(default=0, ge=0)


class ModelSigns(BaseModel):
    """What the answers of a model are like."""

    model_config = FROZEN

    model: str
    answers: int
    words: Interval
    """Length of an answer."""

    reward_length: Correlation | None
    """Reward against length over all answers; None where either does not vary."""

    reward_length_within: Correlation | None
    """The same among answers to one question; None with one answer a question."""

    hedges: Interval
    """Hedging phrases in 100 words."""

    appeals: Interval
    """Share of answers that speak to a judge."""

    echoes: Interval | None
    """Share of answers that hold wording of their criteria; None without the tasks."""

    unjudged: int = 0
    """Answers without a judgement, by which nothing is said here."""


class Change(Interval):
    """a − b over the questions of both."""

    sign: Literal["reward", "words", "hedges", "appeals", "echoes"]
    a: str
    b: str


class SecondOpinion(BaseModel):
    """A model's answers by two judges."""

    model_config = FROZEN

    model: str
    n: int
    """Answers that both judged."""

    left_out: int = 0
    """Answers that the second judge was given and that one of both has no judgement of."""

    first_mean: float
    second_mean: float
    agreement: Correlation | None


class Divergence(Interval):
    """Gain by the first judge less the gain by the second, over the questions that both judged."""

    a: str
    b: str
    first: Interval
    """Gain a − b by the first judge."""

    second: Interval
    is_diverging: bool
    """Whether the first judge sees a gain, and a larger one than the second."""


class HackingPanel(BaseModel):
    """hacking.json."""

    model_config = FROZEN

    format: Literal[1] = 1
    settings: HackingSettings
    models: tuple[ModelSigns, ...]
    changes: tuple[Change, ...]
    opinions: tuple[SecondOpinion, ...]
    divergences: tuple[Divergence, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    """What was not measured."""

    folder: str = ""
    """The evaluation, from the folder of this file."""

    inputs: tuple[InputFile, ...] = ()
    """What the signs were looked for in."""

    edited: tuple[str, ...] = ()
    """What of it was not as its evaluation left it, and was accepted so; empty as a rule."""

    digest: str | None = None
    """SHA-256 of everything else here; None in a file of an older version."""
