"""Studies that a report shows beside an evaluation: a training run, and the noise of a judge."""

from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rubric_core import RubricFileError
from rubric_core.rows import read_growing, read_model, rising_steps
from rubric_judge.ui.page.tables import Cell


class _Part(BaseModel):
    """The part of a row or a file that the page uses; there is more in it."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class TrainingStep(_Part):
    """A line of metrics.jsonl."""

    step: int
    reward_mean: float
    reward_std: float | None = None
    zero_reward_frac: float


class ValidationPass(_Part):
    """A line of heldout.jsonl."""

    step: int
    reward_mean: float
    zero_reward_frac: float
    n: int


@dataclass(frozen=True)
class Training:
    """Rows of a training run, up to the last one written."""

    path: Path
    steps: tuple[TrainingStep, ...]
    passes: tuple[ValidationPass, ...]

    @property
    def best(self) -> ValidationPass | None:
        """Validation pass that picks the checkpoint: the earliest with the highest reward."""
        known = [row for row in self.passes if isfinite(row.reward_mean)]
        return max(known, key=lambda row: row.reward_mean, default=None)


class Bounded(Cell):
    """A number and its interval as a table cell; None where the data do not determine it."""

    model_config = ConfigDict(extra="ignore")


class JudgeNoise(_Part):
    """One judge on its own."""

    judge: str
    judgements: int
    icc1_within: Bounded
    """Reliability of one judgement within the answers to a question."""
    flips: Bounded
    """Share of advantages whose sign a second judgement reverses."""
    tau2: Bounded
    """Variance of a criterion's score over judgements of the same answer."""


class JudgeAgreement(_Part):
    """Two judges on the same answers."""

    a: str
    b: str
    responses: int
    bias: Bounded
    spearman: Bounded
    kappa: Bounded


class Reliability(_Part):
    """Results of a reliability study of judges."""

    tasks: int
    responses: int
    confidence: float
    judges: tuple[JudgeNoise, ...]
    pairs: tuple[JudgeAgreement, ...] = ()


@dataclass(frozen=True)
class Studies:
    """Studies that are shown beside an evaluation; None for one that nobody has named."""

    training: Training | None
    reliability: Reliability | None


def read_studies(
    training: Path | None = None, reliability: Path | None = None
) -> Studies:
    """Read the curves of a run and the noise of a judge.

    Args:
        training: run folder, with metrics.jsonl if its steps have rewards, and with heldout.jsonl
            if it validated.
        reliability: reliability.json, or its folder.

    Returns:
        Both, where named. A torn last line, which a run may still be writing, is left out.

    Raises:
        RubricFileError: the folder holds no run, a row is broken, or steps do not rise; or there is
            no such study, or the file holds something else.
    """
    run: Training | None = None
    if training is not None:
        metrics = training / "metrics.jsonl"
        heldout = training / "heldout.jsonl"
        if not (metrics.exists() or heldout.exists()):
            problem = (
                "holds no rewards of a training run: no metrics.jsonl, no heldout.jsonl"
            )
            raise RubricFileError(f"{problem}; name the `out` of a run", path=training)
        run = Training(
            path=training,
            steps=rising_steps(read_growing(metrics, TrainingStep), path=metrics),
            passes=rising_steps(read_growing(heldout, ValidationPass), path=heldout),
        )
    study: Reliability | None = None
    if reliability is not None:
        is_folder = reliability.is_dir()
        file = reliability / "reliability.json" if is_folder else reliability
        remedy = "name a reliability.json that `rubric-judge reliability` wrote"
        try:
            study = read_model(file, Reliability, remedy=remedy)
        except FileNotFoundError:
            remedy = "name the reliability.json that `rubric-judge reliability` wrote"
            raise RubricFileError(f"no such study; {remedy}", path=file) from None
    return Studies(run, study)
