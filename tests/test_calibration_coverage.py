"""Labels that were drawn by the judge's score: what the weights are for."""

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def coverage(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The benchmark's names."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    return runpy.run_path(str(FOLDER / "calibration_coverage.py"))


def test_a_draw_by_the_score_biases_rates_that_are_not_weighed(
    coverage: dict[str, Any],
) -> None:
    planted = coverage["Drawn"](1000, 200, 2, met=0.15, tpr=0.6, fpr=0.1)
    rng = np.random.default_rng(0)
    weighed, plain = (
        [
            coverage["drawn_rates"](planted, rng, weighed=is_weighed)
            for _ in range(repetitions)
        ]
        for is_weighed, repetitions in ((True, 100), (False, 20))
    )

    assert np.mean([one.tpr.value for one in plain]) > planted.tpr + 0.2
    assert np.mean([one.fpr.value for one in plain]) > planted.fpr + 0.15
    assert np.mean([one.tpr.value for one in weighed]) == pytest.approx(
        planted.tpr, abs=0.04
    )
    assert np.mean([one.fpr.value for one in weighed]) == pytest.approx(
        planted.fpr, abs=0.01
    )
    assert sum(one.tpr.low < planted.tpr < one.tpr.high for one in plain) <= 2
    assert sum(one.tpr.low < planted.tpr < one.tpr.high for one in weighed) >= 89
