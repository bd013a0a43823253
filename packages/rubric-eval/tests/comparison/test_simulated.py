"""Pairs of simulated runs with a planted difference, and without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rubric_eval.comparison import CompareSettings, compare_measured

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_eval.comparison import PairedResult
    from rubric_eval.records.run import Measured

RUNS = 500
SERIES = (2,)
"""Seeds of series in which nothing differs: none is chosen for what it finds."""

SETTINGS = CompareSettings(resamples=399)


@dataclass(frozen=True)
class Simulated:
    """What is measured, on how many questions."""

    kind: str
    questions: int = 150
    per_document: int = 1
    answers: int = 1

    def run(
        self, rng: np.random.Generator, effect: float, make: Callable[..., Measured]
    ) -> PairedResult:
        """Compare two models of which the second is better by `effect` on average."""
        documents = self.questions // self.per_document
        shape = (self.questions, self.answers)
        # A document is hard or easy for both, and the gain on it is larger or smaller.
        hard = np.repeat(rng.uniform(0.2, 0.6, documents), self.per_document)[:, None]
        gain = np.repeat(rng.gamma(4.0, effect / 4, documents), self.per_document)[
            :, None
        ]
        if self.kind == "reward":
            base, tuned = (
                rng.beta(4 * mean, 4 * (1 - mean), shape) for mean in (hard, hard)
            )
            tuned = (
                tuned + gain
            )  # a reward beyond 1 harms nobody here: the mean is what is planted
        else:
            base, tuned = (
                (rng.random(shape) < np.clip(share, 0, 1)).astype(float)
                for share in (hard, hard + effect)
            )
        names = [f"d{at // self.per_document}" for at in range(self.questions)]
        sides = [
            make(name, values.tolist(), clusters=names)
            for name, values in (("base", base), ("tuned", tuned))
        ]
        return compare_measured(sides, SETTINGS).differences[0]


KINDS = [
    Simulated("reward"),
    Simulated("reward", per_document=3),
    Simulated("reward", questions=60, answers=4),
    Simulated("accuracy"),
    Simulated("accuracy", questions=60, answers=3),
    Simulated("accuracy", per_document=3),
]


def _name(simulated: Simulated) -> str:
    return (
        f"{simulated.kind}-{simulated.questions}x{simulated.answers}-"
        f"{simulated.per_document}_a_document"
    )


@pytest.fixture
def simulate(
    make_measured: Callable[..., Measured], make_accuracy: Callable[..., Measured]
) -> Callable[..., list[PairedResult]]:
    """Results of so many pairs of runs."""

    def run(
        simulated: Simulated, runs: int, effect: float, seed: int
    ) -> list[PairedResult]:
        rng = np.random.default_rng(seed)
        make = make_measured if simulated.kind == "reward" else make_accuracy
        return [simulated.run(rng, effect, make) for _ in range(runs)]

    return run


def _covered(found: list[PairedResult], effect: float) -> float:
    return float(
        np.mean(
            [
                one.ci_low is not None
                and one.ci_high is not None
                and one.ci_low <= effect <= one.ci_high
                for one in found
            ]
        )
    )


@pytest.mark.parametrize("simulated", KINDS, ids=_name)
def test_intervals_cover_a_planted_difference(
    simulate: Callable[..., list[PairedResult]], simulated: Simulated
) -> None:
    assert (
        _covered(simulate(simulated, 40, 0.15, 5), 0.15) >= 0.85
    )  # 0.95 less three errors


@pytest.mark.slow
@pytest.mark.parametrize("simulated", KINDS, ids=_name)
def test_intervals_cover_a_planted_difference_at_the_nominal_rate(
    simulate: Callable[..., list[PairedResult]],
    simulated: Simulated,
) -> None:
    covered = _covered(simulate(simulated, RUNS, 0.15, 1), 0.15)
    assert 0.92 <= covered <= 0.98  # three standard errors either side


@pytest.mark.slow
@pytest.mark.parametrize("seed", SERIES)
@pytest.mark.parametrize("simulated", KINDS, ids=_name)
def test_two_runs_of_one_model_seldom_differ(
    simulate: Callable[..., list[PairedResult]],
    simulated: Simulated,
    seed: int,
) -> None:
    found = np.mean(
        [one.is_significant for one in simulate(simulated, RUNS, 0.0, seed)]
    )
    assert found <= 0.06


@pytest.mark.slow
@pytest.mark.parametrize("simulated", KINDS, ids=_name)
def test_the_detectable_difference_is_found_with_its_power(
    simulate: Callable[..., list[PairedResult]],
    simulated: Simulated,
) -> None:
    pilot = [one.detectable for one in simulate(simulated, 20, 0.1, 3)]
    planted = float(np.median([value for value in pilot if value is not None]))
    found = np.mean(
        [one.is_significant for one in simulate(simulated, 300, planted, 4)]
    )
    assert (
        0.7 <= found <= 0.9
    )  # 0.8, four standard errors of it and the pilot's own error
