"""Planted noise is found again, and what has no scores is no number."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeResult,
    Reason,
    Rubric,
    RubricFileError,
    Task,
)
from rubric_judge.quality.reliability import Rating, collect, measure, read_ratings
from rubric_judge.quality.responses import JudgedResponse, write_judgements
from rubric_judge.statistics.estimate import Estimate

WEIGHTS = (3.0, 1.0, 1.0)
MakeTasks = Callable[[int], dict[str, Task]]
Simulated = Callable[..., list[Rating]]


def _scored(task: Task, z_M: np.ndarray, judge: str) -> JudgeResult:
    scores = {c.id: c.weight * float(z) for c, z in zip(task.rubric, z_M, strict=True)}
    return JudgeResult.scored(task.rubric, scores, judge=judge)


def _holds(estimate: Estimate, value: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= value <= estimate.high


ALPHA = np.array(WEIGHTS) / sum(WEIGHTS)
SIGNAL = 0.34**2 / 12 * float((ALPHA**2).sum())
"""Variance of the reward over responses: uniform z of width 0.34, independent over criteria."""


def test_planted_noise_is_measured_and_predicts_the_noise_of_the_reward(
    make_tasks: MakeTasks, simulated: Simulated
) -> None:
    tasks = make_tasks(20)
    report = measure(
        collect(simulated(tasks, noise={"a": 0.05, "b": 0.1}, bias=0.02), tasks),
        resamples=200,
    )

    for judge, std in zip(report.judges, (0.05, 0.1), strict=True):
        noise = std**2 * float((ALPHA**2).sum())
        assert judge.judgements == 640
        assert judge.tau2.value == pytest.approx(std**2, rel=0.1)
        assert _holds(judge.tau2, std**2)
        assert _holds(judge.predicted, noise)
        assert _holds(judge.independent, noise)
        assert _holds(judge.measured, noise)
        assert _holds(judge.inflation, 1.0)
        assert judge.icc1.value == pytest.approx(SIGNAL / (SIGNAL + noise), abs=0.06)
        assert judge.icc1_within.value == pytest.approx(
            SIGNAL / (SIGNAL + noise), abs=0.06
        )
    (pair,) = report.pairs
    assert _holds(pair.bias, -0.02)
    assert pair.responses == 160
    first, second = report.judges
    assert (first.flips.value or 0) < (second.flips.value or 0)
    assert {one.criterion for one in report.criteria} == {"c0", "c1", "c2"}
    assert report.criteria[0].judge == "b"


def test_errors_that_criteria_share_do_not_average_away(
    make_tasks: MakeTasks, simulated: Simulated
) -> None:
    tasks = make_tasks(20)
    report = measure(
        collect(simulated(tasks, noise={"a": 0.08}, shared=1.0), tasks), resamples=100
    )
    (judge,) = report.judges

    # Fully shared: Var = τ² instead of τ² Σα².
    assert judge.measured.value == pytest.approx(0.08**2, rel=0.15)
    assert _holds(judge.inflation, 1 / float((ALPHA**2).sum()))
    assert report.panel is None


def test_a_judge_without_noise_has_none_in_any_figure(
    make_tasks: MakeTasks, simulated: Simulated
) -> None:
    tasks = make_tasks(9)
    report = measure(
        collect(simulated(tasks, noise={"a": 0.0, "b": 0.0}), tasks), resamples=50
    )

    for judge in report.judges:
        assert judge.tau2.value == judge.predicted.value == judge.measured.value == 0.0
        assert judge.icc1.value == judge.icc1_within.value == 1.0
        assert judge.flips.value == judge.flipped_weight.value == 0.0
        assert judge.below_noise_frac.value == judge.constant_frac.value == 0.0
        assert judge.replicates_needed == {"0.8": 1, "0.9": 1, "0.95": 1}
    (pair,) = report.pairs
    assert pair.spearman.value == pytest.approx(1)
    assert pair.kendall_within.value == pytest.approx(1)
    assert pair.kappa.value == 1.0
    assert pair.bias.value == 0.0
    assert report.panel is not None
    assert report.panel.alpha.value == pytest.approx(1)
    assert report.panel.icc_a1.value == pytest.approx(1)
    assert report.panel.effective_judges.value == pytest.approx(1)


def _coverage(
    runs: int, by_id: dict[str, Task], simulated: Simulated, *, resamples: int
) -> dict[str, float]:
    """Share of simulated studies whose intervals hold the planted values."""
    noise = 0.08**2 * float((ALPHA**2).sum())
    held: dict[str, list[bool]] = {"tau2": [], "measured": [], "icc1_within": []}
    for seed in range(runs):
        ratings = simulated(by_id, noise={"a": 0.08}, seed=seed, group=6, replicates=3)
        (judge,) = measure(collect(ratings, by_id), resamples=resamples).judges
        held["tau2"].append(_holds(judge.tau2, 0.08**2))
        held["measured"].append(_holds(judge.measured, noise))
        held["icc1_within"].append(_holds(judge.icc1_within, SIGNAL / (SIGNAL + noise)))
    return {name: float(np.mean(values)) for name, values in held.items()}


def test_most_intervals_hold_the_planted_values(
    make_tasks: MakeTasks, simulated: Simulated
) -> None:
    assert min(_coverage(12, make_tasks(15), simulated, resamples=99).values()) >= 0.75


@pytest.mark.slow
def test_nearly_all_intervals_hold_the_planted_values(
    make_tasks: MakeTasks, simulated: Simulated
) -> None:
    coverage = _coverage(100, make_tasks(25), simulated, resamples=400)

    assert min(coverage.values()) >= 0.88, coverage


def test_what_has_no_scores_is_counted_and_never_a_number(
    make_tasks: MakeTasks,
) -> None:
    tasks = make_tasks(2)
    task = next(iter(tasks.values()))
    good = _scored(task, np.array([1.0, 0.0, 0.5]), "a")
    results = [
        good,
        JudgeResult.invalid(Reason.NOT_JSON, judge="a"),
        JudgeResult.unavailable(Reason.TIMEOUT, judge="a"),
        good,
    ]
    ratings = collect(
        [Rating("a", task.task_id, 1, result) for result in results], tasks
    )
    (judge,) = measure(ratings, resamples=50).judges

    assert (judge.invalid_frac, judge.unavailable_frac) == (0.25, 0.25)
    assert judge.reasons == {"not_json": 1, "timeout": 1}
    assert judge.replicates == 2
    assert judge.mean_reward.value == pytest.approx(3.5 / 5)
    assert judge.measured.value == 0.0
    assert judge.flips.value is None  # a group of one has no advantage


def test_rubrics_of_different_length_and_weight_zero_are_kept_apart() -> None:
    wide = Rubric(
        criteria=(Criterion(id="x", weight=1), Criterion(id="none", weight=0))
    )
    narrow = Rubric(criteria=(Criterion(id="y", weight=2),))
    tasks = {
        task.task_id: task
        for task in (
            Task(question="One?", grounding=Grounding("One."), rubric=wide),
            Task(question="Two?", grounding=Grounding("Two."), rubric=narrow),
        )
    }
    first, second = tasks.values()
    ratings = [
        Rating(
            "a",
            first.task_id,
            1,
            JudgeResult.scored(wide, {"x": z, "none": 0}, judge="a"),
        )
        for z in (0.4, 0.6)
    ]
    ratings += [
        Rating("a", second.task_id, 2, JudgeResult.scored(narrow, {"y": s}, judge="a"))
        for s in (1.0, 1.0)
    ]

    report = measure(collect(ratings, tasks), resamples=50)

    assert {one.criterion: one.tau2.value for one in report.criteria} == pytest.approx(
        {"x": 0.02, "y": 0.0}
    )
    assert report.judges[0].measured.value == pytest.approx(0.01)


def test_there_must_be_a_judgement() -> None:
    with pytest.raises(ConfigError, match="there is no judgement"):
        collect([], {})


def test_a_judgement_of_another_rubric_is_refused_with_its_place(
    tmp_path: Path, make_tasks: MakeTasks
) -> None:
    tasks = make_tasks(1)
    (task,) = tasks.values()
    path = tmp_path / "a.jsonl"
    view = task.judge_view("Text.")
    result = _scored(task, np.ones(3), "")
    write_judgements(path, [JudgedResponse(line=7, view=view, result=result)])

    assert [(one.judge, one.line) for one in read_ratings(path, tasks)] == [("a", 7)]

    path.write_text("\n" + path.read_text().replace('"c1"', '"other"'))
    with pytest.raises(RubricFileError, match=r"a\.jsonl:2: the scores have 3 ids"):
        list(read_ratings(path, tasks))
    with pytest.raises(RubricFileError, match=r"a\.jsonl:2: no task has the id"):
        list(read_ratings(path, {}))


def test_a_missing_library_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['scipy'] = None\n"
        "from rubric_core import MissingExtraError\n"
        "try:\n    import rubric_judge.quality.reliability\n"
        "except MissingExtraError as error: print(error)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert (
        "uv pip install --no-sources './packages/rubric-judge[reliability]'"
        in done.stdout
    )
