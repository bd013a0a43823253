"""Ids that never come again are calibrated by kind, and found by it again."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rubric_core import (
    Criterion,
    CriterionKind,
    Grounding,
    JudgeResult,
    Rubric,
    Task,
    known_pool,
)
from rubric_core.schema.kinds import TO_AVOID
from rubric_judge.quality.calibration.measure import (
    PoolOfCells,
    Settings,
    Study,
    calibrate,
)
from rubric_judge.quality.calibration.pairing import Paired, pair
from rubric_judge.quality.calibration.record import Calibration, Verdict
from rubric_judge.quality.labels.rows import Label
from rubric_judge.quality.reliability import Rating, collect

KINDS = (CriterionKind.CAUSE, CriterionKind.LIMIT, CriterionKind.STEP)
QUICK = Settings(resamples=30)
Criteria = Callable[[int], tuple[Criterion, ...]]


def _free(task: int) -> tuple[Criterion, ...]:
    return (Criterion(id=f"id_{task}", weight=2, kind=KINDS[task // 2 % 3]),)


def _tasks(count: int, criteria: Criteria = _free) -> dict[str, Task]:
    """Return tasks by id, two of each document."""
    tasks = [
        Task(
            question=f"Question {p}?",
            grounding=Grounding(f"Passage {p // 2}."),
            rubric=Rubric(criteria=criteria(p)),
        )
        for p in range(count)
    ]
    return {task.task_id: task for task in tasks}


def _paired(
    tasks: dict[str, Task], agreement: float = 0.95, *, seed: int = 0
) -> Paired:
    """Two responses a task; people call half of it met, and the judge agrees so often."""
    rng = np.random.default_rng(seed)
    labels: list[Label] = []
    ratings: list[Rating] = []
    for line, task in enumerate((task for task in tasks.values() for _ in range(2)), 1):
        met = {one.id: bool(rng.random() < 0.5) for one in task.rubric}
        said = {
            one.id: one.weight * (met[one.id] == (rng.random() < agreement))
            for one in task.rubric
        }
        for one in task.rubric:
            score = one.weight * met[one.id]
            labels.append(
                Label(
                    line=line, task_id=task.task_id, criterion=one.id, score=score, rater="anna"
                )
            )  # fmt: skip
        ratings.append(
            Rating(
                "planted",
                task.task_id,
                line,
                JudgeResult.scored(task.rubric, said, judge="p"),
            )
        )
    return pair(labels, collect(ratings, tasks))


def test_three_hundred_labels_of_free_ids_admit_their_kinds() -> None:
    report = calibrate(_paired(tasks := _tasks(150)), fingerprint="p", settings=QUICK)

    assert [one.verdict for one in report.criteria] == [Verdict.ADMIT] * 3
    assert {one.criterion for one in report.criteria} == {
        "kind.cause",
        "kind.limit",
        "kind.step",
    }
    assert [one.labels for one in report.criteria] == [100, 100, 100]
    assert report.kinds == ()
    for one in report.criteria:
        assert (one.tpr.low or 0) < 0.95 < (one.tpr.high or 0)
        assert (one.fpr.low or 0) < 0.05 < (one.fpr.high or 0)
        assert one.youden_j.unit == "document"
    assert report.summary().startswith(
        "planted, against 300 labels by 1 rater on 300 response–"
    )
    assert "100% of the labelled weight is admitted" in report.summary()
    (told,) = [note for note in report.notes if "by kind" in note]
    assert told.startswith("150 ids of criteria stand in too few of the labelled tasks")
    assert "(kind.cause 50, kind.limit 50, kind.step 50)" in told
    # Written, read and looked up for the criteria of tasks that nobody labelled.
    found = Calibration.model_validate_json(report.model_dump_json())
    assert found == Calibration(**report.model_dump())
    new = Criterion(id="new", weight=1, kind=KINDS[0])
    pool = known_pool(new, found.by_pool)
    assert pool is not None
    assert found.by_pool[pool].verdict is Verdict.ADMIT
    assert known_pool(Criterion(id="new", weight=1), found.by_pool) is None
    assert all(
        known_pool(one, found.by_pool) for task in tasks.values() for one in task.rubric
    )


def test_intervals_by_kind_cover_the_planted_rates() -> None:
    """Documents err alike: half of them in 1 %, half in 9 %, and are met alike."""
    rng, repeats = np.random.default_rng(7), 300
    paired = _paired(_tasks(150))
    cells = paired.ratings.cells(paired.pooling)
    study = Study(paired, Settings())
    document_N = np.repeat(np.arange(75), 4)
    truth = {"tpr": 0.95, "fpr": 0.05, "youden_j": 0.9}
    covered = dict.fromkeys(truth, 0)
    admitted = 0
    for _ in range(repeats):
        error_N = rng.choice([0.01, 0.09], 75)[document_N]
        label_N = (rng.random(300) < rng.choice([0.3, 0.7], 75)[document_N]).astype(
            float
        )
        judge_N = np.where(rng.random(300) < error_N, 1 - label_N, label_N)
        for n, _ in cells.values():
            people_JN = label_N[None, n]
            one = PoolOfCells(
                study.intervals(n), judge_N[n, None], label_N[n], people_JN
            )
            _, found = one.decided(label_N[n])
            for name, value in truth.items():
                interval = getattr(found, name)
                covered[name] += interval.low <= value <= interval.high
            admitted += (found.youden_j.low or 0) > study.settings.bound
    of = 3 * repeats
    assert admitted > 0.98 * of
    least = (
        0.95 - 3 * (0.95 * 0.05 / of) ** 0.5
    )  # three standard errors below what is promised
    assert {
        name: count / of for name, count in covered.items() if count < least * of
    } == {}


def test_several_criteria_of_a_kind_in_a_response_are_all_counted() -> None:
    def three(task: int) -> tuple[Criterion, ...]:
        return tuple(
            Criterion(id=f"{task}_{m}", weight=m + 1, kind=KINDS[0]) for m in range(3)
        )

    (one,) = calibrate(_paired(_tasks(20, three)), settings=QUICK).criteria

    assert (one.criterion, one.labels) == ("kind.cause", 20 * 2 * 3)
    assert one.share == pytest.approx(1 / 3)


def test_an_id_that_repeats_is_one_criterion_and_its_kind_is_there_for_other_ids() -> (
    None
):
    def shared(task: int) -> tuple[Criterion, ...]:
        own = Criterion(id="why", weight=1, kind=KINDS[0])
        return own, Criterion(id=f"id_{task}", weight=1, kind=KINDS[task // 2 % 2])

    report = calibrate(_paired(_tasks(40, shared)), settings=QUICK)
    found = {one.criterion: one for one in report.criteria}

    assert found.keys() == {"why", "kind.cause", "kind.limit"}
    assert found["why"].labels == 80
    assert (
        found["kind.cause"].labels == 80 + 40
    )  # a kind is measured on all of its criteria
    assert "on 160 response–criterion pairs" in report.summary()
    # Where all criteria of a kind have their own, it is measured for ids that are to come.
    alone = calibrate(_paired(_tasks(40, lambda _: shared(0)[:1])), settings=QUICK)
    assert [one.criterion for one in alone.criteria] == ["why"]
    assert [one.criterion for one in alone.kinds] == ["kind.cause"]
    assert (
        known_pool(Criterion(id="new", weight=1, kind=KINDS[0]), alone.by_pool)
        is not None
    )
    assert "Other ids, by kind" in alone.markdown([])


def test_a_judge_that_is_wrong_of_faults_alone_is_masked_there_alone() -> None:
    def signed(task: int) -> tuple[Criterion, ...]:
        return (
            Criterion(id=f"said_{task}", weight=1, description="Gives the dose."),
            Criterion(
                id=f"left_{task}", weight=1, description=f"{TO_AVOID}gives a dose."
            ),
        )

    paired = _paired(_tasks(60, signed))
    z_JNRM = paired.ratings.z_JNRM.copy()
    z_JNRM[..., 1] = 1 - z_JNRM[..., 1]
    turned = replace(paired, ratings=replace(paired.ratings, z_JNRM=z_JNRM))
    found = {one.criterion: one for one in calibrate(turned, settings=QUICK).criteria}

    assert found["kind.none"].verdict is Verdict.ADMIT
    assert found["kind.none.avoided"].verdict is Verdict.MASK


def test_a_calibration_of_an_older_version_is_read_by_id() -> None:
    report = calibrate(
        _paired(_tasks(40, lambda _: (Criterion(id="why", weight=1),))), settings=QUICK
    )
    older = json.loads(report.model_dump_json())
    del older["kinds"]
    for row in older["criteria"]:
        del row["pool"]
    found = Calibration.model_validate(older)

    of_kind = Criterion(id="why", weight=1, kind=KINDS[0])
    assert known_pool(of_kind, found.by_pool) == found.criteria[0].pooled
    assert known_pool(Criterion(id="other", weight=1), found.by_pool) is None
    assert "pool" not in json.loads(found.model_dump_json())["criteria"][0]


def test_labels_that_cannot_tell_are_counted_by_kind() -> None:
    tasks = _tasks(12, lambda p: (*_free(p), Criterion(id=f"bare_{p}", weight=1)))
    labels, ratings = [], []
    for line, task in enumerate(tasks.values(), 1):
        first, bare = task.rubric
        for one, score in ((first, 2.0 * (line % 2)), (bare, None)):
            labels.append(
                Label(
                    line=line,
                    task_id=task.task_id,
                    criterion=one.id,
                    score=score,
                    rater="anna",
                )
            )
        result = JudgeResult.scored(
            task.rubric, {first.id: 2.0 * (line % 2), bare.id: 1}, judge="p"
        )
        ratings.append(Rating("p", task.task_id, line, result))
    report = calibrate(pair(labels, collect(ratings, tasks)), settings=QUICK)
    found = {one.criterion: one for one in report.criteria}

    assert (
        "Every label, 12 of them, says that the rater cannot tell"
        in found["kind.none"].reason
    )
