"""Arms of `benchmarks/self_distillation.py` get equal CPU time: how many steps each makes of it."""

import runpy
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rubric_judge.ui.console.progress import Progress

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def script() -> Iterator[dict[str, Any]]:
    """What the benchmark defines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(FOLDER), *sys.path])
        yield runpy.run_path(str(FOLDER / "self_distillation.py"))


def spend(cpu_s: float) -> None:
    until_s = time.process_time() + cpu_s
    while time.process_time() < until_s:
        pass


@pytest.mark.parametrize(
    ("steps_s", "budget_s", "further"),
    [
        ([], 0.0, 1),  # an arm makes one step, however long it takes
        ([20.0], 150.0, 6),
        ([20.0, 30.0], 150.0, 4),  # as long as those so far on average
        ([50.0, 50.0], 150.0, 1),
        ([50.0, 50.1], 150.0, 0),
        ([40.0, 120.0], 150.0, 0),  # spent already
    ],
)
def test_an_arm_makes_the_steps_that_fit(
    script: dict[str, Any], steps_s: list[float], budget_s: float, further: int
) -> None:
    assert script["further_steps"](steps_s, budget_s) == further


def test_the_clock_counts_the_steps_of_a_run_and_nothing_beside_them(
    script: dict[str, Any],
) -> None:
    clock = script["Clock"]()
    spend(0.3)
    for _ in range(2):  # a run, and one that goes on with it
        with Progress.silent() as progress, progress.watched(clock.look):
            with progress.phase("loading the policy"):
                spend(0.3)
            with progress.phase("training"), progress.phase("sampling"):
                spend(0.02)
                clock.end_step()
                spend(0.02)
                clock.end_step()
                spend(0.3)
        clock.rest()

    assert len(clock.steps_s) == 4
    assert all(0.02 <= step_s < 0.3 for step_s in clock.steps_s)
