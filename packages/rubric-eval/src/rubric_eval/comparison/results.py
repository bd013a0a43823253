"""The results of a comparison of evaluations: comparison.json. Ids, names and numbers alone."""

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field

from rubric_eval.records.inputs import Derived
from rubric_eval.records.run import Measure, Record
from rubric_eval.statistics import Correction, Interval, intervals
from rubric_eval.statistics.intervals import ModelScore
from rubric_judge.statistics.bootstrap import Draws


class CompareSettings(Record):
    """Settings of a comparison of evaluations."""

    pairs: tuple[tuple[str, str], ...] = ()
    """(a, b) to take a − b of; by default each model minus the first and minus the one before."""

    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence of all intervals; 1 − confidence is the level of a family of tests."""

    correction: Correction = Correction.HOLM
    family: Literal["benchmarks", "all"] = "benchmarks"
    """Tests held together: a pair's on all benchmarks (its rewards by all judges are a family of
    their own), or all tests of all pairs."""

    power: float = Field(default=0.8, ge=0.5, lt=1)
    """Chance that the detectable difference is found; one that is missed more often than found is
    not detectable."""

    resamples: int = Field(default=9999, ge=99, le=10**6)
    seed: int = Field(default=0, ge=0)

    @property
    def draws(self) -> Draws:
        """Settings of the draws of bootstraps."""
        return {"resamples": self.resamples, "seed": self.seed}


class PairedResult(intervals.Difference):
    """a − b over the questions that both have."""

    benchmark: str
    measure: Measure
    judge: str | None
    a_mean: float
    """Mean of a over these questions."""

    b_mean: float
    clusters: int
    left_out: int
    """Number of questions that a side has no value for."""

    won: int
    """Number of questions on which a is higher."""

    lost: int
    test: str
    p: float
    """p-value; ci_low and ci_high leave out 0 exactly where it is below 1 − confidence."""

    p_adjusted: float
    """p-value corrected for the family."""

    is_significant: bool
    level: float
    """Level of this test within its family."""

    decided_low: float | None
    """Lower limit at 1 − level: the limits leave out 0 exactly where the difference is
    significant."""

    decided_high: float | None
    detectable: float | None
    """Smallest difference that this test at this level would find; None if none."""


class AverageDelta(intervals.Difference):
    """Mean over the benchmarks of one suite of a − b, each counting alike; n benchmarks.

    The interval is computed from those of the benchmarks (`mean_of_estimates`), and unknown where
    one of them is.
    """

    suite: str = ""
    """Empty for benchmarks that are in no suite."""

    benchmarks: tuple[str, ...]


class Part(intervals.Difference):
    """a − b on a part of a benchmark. Exploratory: nothing is corrected for the number of parts."""

    kind: Literal["criterion", "field"]
    name: str
    benchmark: str
    judge: str | None


class EvalComparison(Derived):
    """comparison.json."""

    settings: CompareSettings
    scores: tuple[ModelScore, ...]
    differences: tuple[PairedResult, ...]
    averages: tuple[AverageDelta, ...]
    exploratory: tuple[Part, ...]
    folders: tuple[str, ...] = ()
    """Paths of the evaluations from the folder of this file."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The same, as for every file that is made of evaluations."""
        return self.folders


def result_sentence(
    rows: Mapping[str, Interval],
    controls: Mapping[str, Interval],
    gain: Callable[[str, str], str],
    *,
    on: str,
    shown: Callable[[str], str] = str,
) -> str:
    """Return a sentence on the last model, the best of the others, and the strongest control.

    Args:
        rows: rewards by name, in the order of training; at least one.
        controls: rewards of the controls by name.
        gain: a function that returns the text on the difference of two rows.
        on: the questions, in words.
        shown: a function that returns the name of a row to write.
    """
    *others, last = rows
    sentence = f"{shown(last)} {100 * rows[last].mean:.1f} %"
    if others:
        best = max(others, key=lambda name: rows[name].mean)
        reward = f"{100 * rows[best].mean:.1f} %"
        sentence += f" against {shown(best)} {reward}{gain(last, best)}"
    sentence += f" on {on}"
    if controls:
        best = max(controls, key=lambda name: controls[name].mean)
        sentence += f"; strongest control, {best}: {100 * controls[best].mean:.1f} %"
    return f"{sentence}."
