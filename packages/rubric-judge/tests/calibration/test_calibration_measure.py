"""What a calibration finds of a planted judge."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from rubric_core import ConfigError, JudgeResult, Reason
from rubric_judge.quality.calibration.measure import Settings, calibrate
from rubric_judge.quality.calibration.pairing import Combining, Paired, pair
from rubric_judge.quality.calibration.record import (
    Calibration,
    CriterionCalibration,
    Verdict,
    labelled_rubrics,
)
from rubric_judge.quality.calibration.report import CalibrationReport
from rubric_judge.quality.labels.rows import Label
from rubric_judge.quality.reliability import Rating, collect
from rubric_judge.quality.reliability.shared_errors import (
    error_correlation,
    error_inflation,
)

QUICK = Settings(resamples=50)


def _by_name(report: CalibrationReport) -> dict[str, CriterionCalibration]:
    return {one.criterion: one for one in report.criteria}


def test_planted_rates_are_found_and_judged(planted: Callable[..., Paired]) -> None:
    rates = {
        "good": (0.95, 0.05),
        "weak": (0.75, 0.5),
        "blind": (0.5, 0.5),
        "wrong": (0.1, 0.8),
    }
    report = calibrate(
        planted(rates, tasks=80), fingerprint="planted 1", settings=QUICK
    )
    found = _by_name(report)

    for name, (tpr, fpr) in rates.items():
        one = found[name]
        assert one.labels == 320
        for interval, truth in (
            (one.tpr, tpr),
            (one.fpr, fpr),
            (one.youden_j, tpr - fpr),
        ):
            assert (interval.low or 0) - 0.02 < truth < (interval.high or 0) + 0.02
        assert one.bias.value == pytest.approx((tpr + fpr - 1) / 2, abs=0.06)
    assert [one.criterion for one in report.criteria] == [
        "wrong",
        "blind",
        "weak",
        "good",
    ]
    assert found["good"].verdict is Verdict.ADMIT
    assert found["wrong"].verdict is Verdict.MASK
    assert found["blind"].factor == 0
    assert report.judge_fingerprint == "planted 1"
    assert len(report.reward.pairs) == 320
    assert report.reward.error_inflation.value == pytest.approx(1, abs=0.2)
    assert report.reward.error_correlation.value == pytest.approx(0, abs=0.06)


def test_people_decide_between_a_stronger_judge_and_another_wording(
    planted: Callable[..., Paired],
) -> None:
    rates = {"blind": (0.5, 0.5)}
    for error, verdict in ((0.02, Verdict.STRONGER_JUDGE), (0.45, Verdict.REWRITE)):
        paired = planted(rates, raters={"anna": error, "ben": error}, tasks=80)
        (one,) = calibrate(paired, settings=QUICK).criteria
        assert one.verdict is verdict
        assert f"{one.people.value:.2f}".replace("-", "−") in one.reason
        assert one.factor == 0


def test_replicates_measure_the_noise(planted: Callable[..., Paired]) -> None:
    rates = {"a": (0.8, 0.2), "b": (0.8, 0.2)}
    reward = calibrate(planted(rates, replicates=4), settings=QUICK).reward

    assert reward.independent.value == pytest.approx(
        0.5 * 0.16, rel=0.1
    )  # Σ α² τ², τ² = .8 · .2
    assert reward.predicted.value == pytest.approx(reward.independent.value)
    assert reward.measured.value == pytest.approx(0.08, rel=0.15)
    assert reward.inflation.value == pytest.approx(1, abs=0.15)
    assert 0 < (reward.flips.value or 0) < 0.5
    (one, _) = calibrate(planted(rates, replicates=4), settings=QUICK).criteria
    assert [(level.low, level.high) for level in one.levels] == [(0, 0), (1, 1)]
    assert sum(level.labels for level in one.levels) == one.labels
    assert one.levels[0].bias.value == pytest.approx(0.2, abs=0.06)
    assert one.levels[1].bias.value == pytest.approx(-0.2, abs=0.06)
    assert one.levels[0].noise.value == pytest.approx(0.16, rel=0.2)


def test_one_judgement_says_nothing_of_noise(planted: Callable[..., Paired]) -> None:
    report = calibrate(planted({"a": (0.8, 0.2)}), settings=QUICK)

    assert report.reward.measured.value is None
    assert report.criteria[0].noise.value is None
    assert "name and nothing of its model" in report.notes[0]
    assert report.judge_fingerprint == "planted"


@pytest.mark.parametrize("combining", ["mean", "majority"])
def test_raters_who_are_evenly_divided_give_no_label_for_rates(
    planted: Callable[..., Paired], combining: Combining
) -> None:
    """Two raters who err in 10 % agree on the truth where they agree: J of a perfect judge is 1."""
    raters = {"anna": 0.1, "ben": 0.1}
    paired = planted(
        {"a": (1.0, 0.0)}, raters=raters, tasks=200, met=0.1, combining=combining
    )
    report = calibrate(paired, settings=QUICK)
    (one,) = report.criteria

    assert one.youden_j.value is not None
    assert one.youden_j.value > 0.85
    divided = int((paired.people_JNM[0] != paired.people_JNM[1]).sum())
    assert one.divided == (divided if combining == "mean" else 0)
    if combining == "mean":
        assert one.labels == 800
        assert any(
            f"{divided} response–criterion pairs: as many raters" in n
            for n in report.notes
        )


def test_the_factor_is_the_slope_of_the_label_on_the_score(
    planted: Callable[..., Paired],
) -> None:
    """J π (1 − π) / (q (1 − q)): 0.25 · 0.25 / (0.525 · 0.475) for TPR 0.65 and FPR 0.4."""
    paired = planted({"a": (0.65, 0.4)}, tasks=400, group=1)
    (one,) = calibrate(paired, settings=Settings(resamples=20, bound=0.6)).criteria

    assert one.verdict is Verdict.WEIGH_DOWN
    assert one.factor == pytest.approx(0.2506, abs=0.1)


def test_what_is_written_can_be_read_and_holds_nothing_of_texts(
    planted: Callable[..., Paired],
) -> None:
    report = calibrate(planted({"a": (0.9, 0.1)}), fingerprint="x", settings=QUICK)
    text = report.model_dump_json()

    assert Calibration.model_validate_json(text) == Calibration(**report.model_dump())
    assert "Passage" not in text
    assert "Question" not in text
    assert json.loads(text)["criteria"][0]["verdict"] == "admit"
    assert (
        calibrate(planted({"a": (0.9, 0.1)}), fingerprint="x", settings=QUICK) == report
    )


def test_errors_that_are_equal_correlate_and_add_up() -> None:
    equal = np.array([[0.3, 0.3], [-0.2, -0.2], [0.1, 0.1]])
    opposite = equal * np.array([1, -1])
    half = np.full((3, 2), 0.5)
    rows = np.arange(3)

    assert error_correlation(equal)(rows) == pytest.approx(1)
    assert error_inflation(equal, half)(rows) == pytest.approx(2)
    assert error_correlation(opposite)(rows) == pytest.approx(-1)
    assert error_inflation(opposite, half)(rows) == 0
    alone = np.array([[0.3, np.nan], [-0.2, np.nan], [0.1, np.nan]])
    assert np.isnan(error_correlation(alone)(rows))
    assert error_inflation(alone, np.array([[1.0, 0.0]] * 3))(rows) == pytest.approx(1)


@pytest.fixture
def one_task(make_tasks: Callable[..., dict]) -> Callable[..., Paired]:
    """Return a function that pairs raters' scores of criterion "a", 0 to 2, with a judge's 2."""

    def make(scores: dict[str, list[float | None]], combining: str = "mean") -> Paired:
        by_id = make_tasks(("a", "b"), 1)
        ((name, task),) = by_id.items()
        count = max(map(len, scores.values()))
        result = JudgeResult.scored(task.rubric, {"a": 2.0, "b": 0.0}, judge="j")
        ratings = [Rating("j", name, line, result) for line in range(1, count + 1)]
        labels = [
            Label(line=line, task_id=name, criterion="a", score=score, rater=rater)
            for rater, given in scores.items()
            for line, score in enumerate(given, 1)
        ]
        return pair(labels, collect(ratings, by_id), combining=combining)  # type: ignore[arg-type]

    return make


def test_several_raters_are_one_label(one_task: Callable[..., Paired]) -> None:
    scores = {"anna": [2.0, 1.0, None, 0.5], "ben": [0.0, 2.0, None, 0.0], "cem": [2.0]}
    mean, majority = one_task(scores), one_task(scores, "majority")

    assert mean.label_NM[:, 0] == pytest.approx(
        [2 / 3, 0.75, np.nan, 0.125], nan_ok=True
    )
    assert np.isnan(mean.label_NM[:, 1]).all()  # nobody labelled it
    assert majority.label_NM[:, 0] == pytest.approx([1, 1, np.nan, 0], nan_ok=True)
    divided = one_task({"anna": [2.0], "ben": [0.0]}, "majority")
    assert np.isnan(divided.label_NM).all()
    assert not mean.complete_N.any()


def _drawn(scores: list[float], inclusion: list[float | None], by_id: dict) -> Paired:
    """A judge that says 2 of every second response, and labels with π."""
    names = list(by_id)
    labels, ratings = [], []
    for line, (score, pi) in enumerate(zip(scores, inclusion, strict=True), 1):
        name = names[line % len(names)]
        labels.append(
            Label(
                line=line,
                task_id=name,
                criterion="a",
                score=score,
                rater="r",
                inclusion=pi,
            )
        )
        result = JudgeResult.scored(
            by_id[name].rubric, {"a": 2.0 * (line % 2)}, judge="j"
        )
        ratings.append(Rating("j", name, line, result))
    return pair(labels, collect(ratings, by_id))


def test_labels_weigh_by_their_inclusion(make_tasks: Callable[..., dict]) -> None:
    by_id = make_tasks(("a",), 64)
    scores = [2.0, 2.0, 0.0, 0.0, 2.0, 0.0, 2.0, 0.0] * 8
    # The judge says 2, 0, 2, 0 and so on; what it calls not met is drawn a quarter as often.
    settings = Settings(resamples=50, bound=0.9)
    report = calibrate(_drawn(scores, [0.8, 0.2] * 32, by_id), settings=settings)
    (one,) = report.criteria

    assert one.tpr.value == pytest.approx(3 / (3 + 4))
    assert one.fpr.value == pytest.approx(1 / (1 + 12))
    assert one.bias.value == pytest.approx((1 - 4) / 20)
    assert (one.labels, one.positives) == (64, 32)
    assert sorted({pair.weight for pair in report.reward.pairs}) == [0.25, 1.0]
    assert report.reward.bias == one.bias
    z, y, w = np.arange(1, 65) % 2, np.array(scores) / 2, np.tile([1, 4], 32)
    assert one.factor == pytest.approx(np.polyfit(z, y, 1, w=np.sqrt(w))[0])
    assert any("Not weighed" in note for note in report.notes)


def test_equal_inclusion_leaves_every_bit(make_tasks: Callable[..., dict]) -> None:
    by_id = make_tasks(("a",), 4)
    scores = [2.0, 2.0, 0.0, 0.5, 2.0, 0.0, 1.5, 0.0, 0.0, 2.0]
    equal, none = (
        calibrate(_drawn(scores, [pi] * len(scores), by_id), settings=QUICK)
        for pi in (0.3, None)
    )
    assert equal == none


@pytest.mark.parametrize(
    ("first", "told"),
    [(None, "1 labelled responses, of which line 1 is the first, have no inclusion"),
     (0.4, "response 1 has two inclusion probabilities, 0.4 and 0.2")],
)  # fmt: skip
def test_an_unknown_weight_is_refused(
    make_tasks: Callable[..., dict], first: float | None, told: str
) -> None:
    by_id = make_tasks(("a",), 1)
    (name,) = by_id
    result = JudgeResult.scored(by_id[name].rubric, {"a": 2.0}, judge="j")
    lines = [
        (1, "anna", first),
        (2, "anna", 0.2),
        *([(1, "ben", 0.2)] if first else []),
    ]
    labels = [
        Label(
            line=line, task_id=name, criterion="a", score=1, rater=rater, inclusion=pi
        )
        for line, rater, pi in lines
    ]
    with pytest.raises(ConfigError, match=told):
        pair(
            labels, collect([Rating("j", name, line, result) for line in (1, 2)], by_id)
        )


def test_a_judge_without_scores_is_refused(make_tasks: Callable[..., dict]) -> None:
    by_id = make_tasks(("a",), 1)
    (name,) = by_id
    result = JudgeResult.unavailable(Reason.TIMEOUT, judge="slow")
    label = Label(line=1, task_id=name, criterion="a", score=1.0, rater="anna")
    paired = pair([label], collect([Rating("slow", name, 1, result)], by_id))

    with pytest.raises(
        ConfigError, match=r"'slow' has scores for not a single .*timeout 1"
    ):
        calibrate(paired)


def test_two_judges_are_refused(make_tasks: Callable[..., dict]) -> None:
    by_id = make_tasks(("a",), 1)
    ((name, task),) = by_id.items()
    ratings = [
        Rating(judge, name, 1, JudgeResult.scored(task.rubric, {"a": 1.0}, judge=judge))
        for judge in "xy"
    ]

    with pytest.raises(
        ConfigError, match="2 judges, 'x' and 'y': a calibration is of one judge"
    ):
        pair([], collect(ratings, by_id))


def test_another_judge_or_rubric_is_refused(
    planted: Callable[..., Paired], make_tasks: Callable[..., dict]
) -> None:
    report = calibrate(
        planted({"a": (0.9, 0.1)}), fingerprint="planted 1", settings=QUICK
    )
    tasks = make_tasks(("a",), 40).values()

    report.require("planted 1", tasks, source="c.json")
    with pytest.raises(
        ConfigError, match="of the judge 'planted 1', not of 'planted 2'"
    ):
        report.require("planted 2", tasks, source="c.json")
    changed = make_tasks(("a", "b"), 40).values()
    assert not {task.task_id for task in changed} & {task.task_id for task in tasks}
    assert report.labels_any(changed)
    with pytest.raises(ConfigError, match=r"the rubric of task .* has changed"):
        report.require("planted 1", changed, source="c.json")
    both = report.model_copy(update={"rubrics": labelled_rubrics([*tasks, *changed])})
    both.require("planted 1", [*tasks, *changed], source="c.json")
    by_name = calibrate(planted({"a": (0.9, 0.1)}), settings=QUICK)
    with pytest.raises(ConfigError, match="knows by name only"):
        by_name.require("planted 2", tasks, source="c.json")
