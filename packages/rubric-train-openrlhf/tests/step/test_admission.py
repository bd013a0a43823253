"""What a calibration admits to the reward of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    CriterionKind,
    Grounding,
    JudgeResult,
    Pool,
    Pooling,
    Reason,
    Rubric,
    Task,
    group_advantages,
)
from rubric_core.schema.pools import pool_of_any
from rubric_judge import LexicalJudge
from rubric_judge.quality.calibration.record import labelled_rubrics
from rubric_train_openrlhf.config.sections import JudgingConfig
from rubric_train_openrlhf.config.train import parse_config
from rubric_train_openrlhf.errors import ResumeError, TrainConfigError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.step.admission import Admission, described, read_admission
from rubric_train_openrlhf.step.credit import Crediting
from rubric_train_openrlhf.step.rewards import Sizes, judge_rewards

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig

    Write = Callable[..., Path]

JUDGE = LexicalJudge().fingerprint
RUBRIC = Rubric(
    criteria=(
        Criterion(id="named", weight=2),
        Criterion(id="parameters", weight=3),
        Criterion(id="returns", weight=1),
    )
)
TASK = Task(
    question="What does fn do?", grounding=Grounding(text="A passage."), rubric=RUBRIC
)
GROUP = [
    JudgeResult.scored(RUBRIC, scores, judge="program")
    for scores in (
        {"named": 2.0, "parameters": 0.0, "returns": 1.0},
        {"named": 1.0, "parameters": 3.0, "returns": 0.0},
        {"named": 0.0, "parameters": 3.0, "returns": 1.0},
    )
]
SIZES = Sizes.of([[4, 4, 4]], [[True] * 3])
BY_ID = {name: pool_of_any(name) for name in RUBRIC.ids}
WHOLE = dict.fromkeys(BY_ID.values(), 1.0)
MASKED = Admission(WHOLE | {BY_ID["parameters"]: 0.0})
POOLING = Pooling.of([TASK])


def _by_name(values: Mapping[Pool, Any]) -> dict[str, Any]:
    return {pool.name: value for pool, value in values.items()}


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    values: dict[str, Any] = {
        "model": {"type": "path", "path": tmp_path},
        "data": {"train": tmp_path / "t.jsonl"},
        "steps": 1,
        "out": tmp_path / "run",
    }
    return parse_config(values)


def test_a_masked_criterion_is_in_no_reward_share_attribution_or_m_eff(
    config: TrainConfig,
) -> None:
    credit, rows = Crediting(config, MASKED, POOLING).of_step(1, [GROUP], [TASK], SIZES)

    rewards = np.array([[1.0, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(credit.rewards_PG, rewards)
    np.testing.assert_allclose(credit.advantages_PG, group_advantages(rewards))
    assert credit.figures.m_eff_mean == pytest.approx(9 / 5)
    assert credit.figures.withheld_weight_frac == pytest.approx(0.5)
    assert credit.figures.criteria.keys() == {"named", "returns"}
    assert rows[0].shares == pytest.approx(
        {"named": 2 / 3, "parameters": 0.0, "returns": 1 / 3}
    )
    assert rows[0].attribution["parameters"] == 0
    assert sum(rows[0].attribution.values()) == pytest.approx(
        credit.advantages_PG[0, 0]
    )
    assert rows[1].result.scores["parameters"] == 3, (
        "what the judge said is kept as it was"
    )
    assert rows[0].task_id == TASK.task_id
    passed = Crediting(config, MASKED, POOLING).of_heldout(1, [GROUP], [TASK])
    assert passed.reward_mean == pytest.approx(rewards.mean())


def test_a_calibration_that_admits_all_changes_nothing(config: TrainConfig) -> None:
    all_admitted = Admission(WHOLE)
    credit, rows = Crediting(config, all_admitted, POOLING).of_step(
        1, [GROUP], [TASK], SIZES
    )
    plain, plain_rows = Crediting(config, pooling=POOLING).of_step(
        1, [GROUP], [TASK], SIZES
    )
    np.testing.assert_array_equal(credit.rewards_PG, plain.rewards_PG)
    np.testing.assert_array_equal(credit.advantages_PG, plain.advantages_PG)
    assert rows == plain_rows
    assert credit.figures.withheld_weight_frac == 0
    assert plain.figures.withheld_weight_frac is None


def test_noise_rates_make_the_rewards_of_verdicts_unbiased() -> None:
    rates = {"named": (0.9, 0.3), "parameters": (0.95, 0.4), "returns": (0.8, 0.5)}
    admission = Admission(WHOLE, {BY_ID[name]: one for name, one in rates.items()})
    rng = np.random.default_rng(5)
    labels = rng.random((4000, 3)) < [0.3, 0.6, 0.5]
    met = rng.random(labels.shape) < np.where(
        labels, *np.array([rates[name] for name in RUBRIC.ids]).T
    )
    group = [
        JudgeResult.scored(
            RUBRIC,
            dict(zip(RUBRIC.ids, (row * RUBRIC.weights_M).tolist(), strict=True)),
            judge="p",
        )
        for row in met
    ]
    rewards = judge_rewards(
        [group], [RUBRIC], on_unavailable="mask", admission=admission
    )
    truth = (labels * RUBRIC.shares_M).sum(axis=1).mean()
    assert rewards.rewards_PG.mean() == pytest.approx(truth, abs=0.03)
    assert abs((met * RUBRIC.shares_M).sum(axis=1).mean() - truth) > 0.03
    assert rewards.rewards_PG.min() < 0
    assert rewards.rewards_PG.max() > 1


def test_advantages_of_corrected_rewards_are_shared_out_by_criterion(
    config: TrainConfig,
) -> None:
    rates = {BY_ID["named"]: (0.9, 0.3), BY_ID["returns"]: (0.6, 0.2)}
    admission = Admission(MASKED.factors, rates)
    credit, rows = Crediting(config, admission).of_step(1, [GROUP], [TASK], SIZES)
    advantages = [sum(row.attribution.values()) for row in rows]
    np.testing.assert_allclose(credit.advantages_PG, [advantages], atol=1e-9)
    # Within a rubric the correction weighs a criterion by 1/J.
    weighed = [2 / 0.6 + 1 / 0.4, 2 / 0.6, 1 / 0.4]  # "named" of 1 of 2 counts as met
    np.testing.assert_allclose(
        credit.advantages_PG, group_advantages([weighed]), rtol=1e-6
    )


def test_a_failure_is_not_corrected() -> None:
    admission = Admission(WHOLE, dict.fromkeys(WHOLE, (0.9, 0.2)))
    group = [
        GROUP[0],
        JudgeResult.invalid(Reason.NOT_JSON),
        JudgeResult.unavailable(Reason.TIMEOUT),
    ]
    rewards = judge_rewards(
        [group], [RUBRIC], on_unavailable="mask", admission=admission
    )
    assert rewards.rewards_PG[0, 1] == 0
    assert rewards.valid_PG.tolist() == [[True, True, False]]


def _admission(path: Path | None, judge: str = JUDGE, **changed: Any) -> Admission:
    config = JudgingConfig(calibration=path, **changed)
    return read_admission(config, [TASK], judge_fingerprint=judge)


def test_without_a_calibration_all_is_admitted() -> None:
    assert _admission(None) == Admission()


def test_factors_come_from_the_calibration_and_the_rest_from_the_configuration(
    write_calibration: Write,
) -> None:
    path = write_calibration({"named": 1.0, "parameters": 0.25})
    with pytest.raises(
        TrainConfigError, match=r"1 of 3 criteria .* not calibrated \(returns\)"
    ):
        _admission(path)
    assert _admission(path, uncalibrated="mask").changed["returns"] == 0
    admitted = _admission(path, uncalibrated="admit")
    assert _by_name(admitted.factors) == {
        "named": 1.0,
        "parameters": 0.25,
        "returns": 1.0,
    }
    assert admitted.changed == {"parameters": 0.25}
    assert described(admitted, [RUBRIC]) == (
        "admission: 0 of 3 criteria masked; 1 weighed down (parameters × 0.25); 38% of the weight "
        "kept from the reward; mean M_eff 2.57 → 2.53"
    )


def test_another_judge_rubric_or_file_is_refused(
    write_calibration: Write, tmp_path: Path
) -> None:
    whole = dict.fromkeys(RUBRIC.ids, 1.0)
    with pytest.raises(ConfigError, match="not of 'another prompt'"):
        _admission(write_calibration(whole), "another prompt")
    labelled = Task(
        question=TASK.question,
        grounding=TASK.grounding,
        rubric=Rubric(criteria=(Criterion(id="named", weight=9), *RUBRIC.criteria[1:])),
    )
    assert labelled.task_id != TASK.task_id
    changed = write_calibration(whole, rubrics=labelled_rubrics([labelled]))
    with pytest.raises(
        ConfigError, match=f"rubric of task '{TASK.task_id}' has changed"
    ):
        _admission(changed)
    with pytest.raises(TrainConfigError, match="none of the 3 criteria of the tasks"):
        _admission(write_calibration({"tone": 1.0}), uncalibrated="admit")
    with pytest.raises(
        TrainConfigError, match=r"cannot read the calibration .*No such file"
    ):
        _admission(tmp_path / "none.json")
    (tmp_path / "calibration.json").write_text("[1]")
    with pytest.raises(ConfigError, match="this is no calibration"):
        _admission(tmp_path / "calibration.json")


def test_a_task_of_which_nothing_is_left_is_refused(write_calibration: Write) -> None:
    path = write_calibration(dict.fromkeys(RUBRIC.ids, 0.0))
    with pytest.raises(
        TrainConfigError, match=rf"1 tasks, first '{TASK.task_id}': every criterion"
    ):
        _admission(path)


@pytest.mark.parametrize(
    "rates", [(0.4, 0.4), (0.4 + 1e-9, 0.4), (0.2, 0.5), (None, 0.1)]
)
def test_what_tells_nothing_cannot_be_corrected(
    write_calibration: Write, rates: tuple[float | None, float | None]
) -> None:
    whole = dict.fromkeys(RUBRIC.ids, 1.0)
    with pytest.raises(TrainConfigError, match=r"'named' cannot be corrected \(TPR"):
        _admission(write_calibration(whole, rates), correction="noise_rates")
    masked = write_calibration(whole | {"named": 0.0})
    rates = _admission(masked, correction="noise_rates").rates
    assert _by_name(rates).keys() == {"parameters", "returns"}


def test_a_run_keeps_what_it_was_started_with(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_admission() == {}
    MASKED.keep(folder)
    MASKED.keep(folder)
    assert folder.read_admission() == {"parameters": 0.0}
    with pytest.raises(ResumeError, match="admits other criteria"):
        Admission(WHOLE).keep(folder)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"judge": {"correction": "noise_rates"}}, "give judge.calibration"),
        (
            {
                "judge": {"correction": "noise_rates", "calibration": "c.json"},
                "advantage": {"estimator": "decoupled"},
            },
            "normalises each criterion by itself",
        ),
        (
            {
                "judge": {"correction": "noise_rates", "calibration": "c.json"},
                "shaping": {"alpha_stop": 0.5},
            },
            "rewards that may be negative",
        ),
    ],
)
def test_settings_that_do_not_go_together(
    config: TrainConfig, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(TrainConfigError, match=told):
        parse_config(config.model_dump(mode="json") | changes)


CAUSE, LIMIT = CriterionKind.CAUSE, CriterionKind.LIMIT


def _free(place: int, kind: CriterionKind | None = CAUSE) -> Task:
    """Return a task with ids of its own: one of a kind, one without."""
    rubric = Rubric(
        criteria=(
            Criterion(id=f"why_{place}", weight=3, kind=kind),
            Criterion(id=f"bare_{place}", weight=1),
        )
    )
    return Task(
        question=f"Why {place}?", grounding=Grounding(text="A passage."), rubric=rubric
    )


def _of_kinds(**factors: float) -> dict[str, Any]:
    """Return pools by kind, as a calibration of free ids has them."""
    pools = {"cause": Pool(kind=CAUSE), "limit": Pool(kind=LIMIT), "none": Pool()}
    return {"pools": {pools[kind].name: pools[kind] for kind in factors}}


def test_free_ids_are_admitted_by_their_kind(write_calibration: Write) -> None:
    path = write_calibration(
        {"kind.cause": 1.0, "kind.none": 0.0}, **_of_kinds(cause=1, none=0)
    )
    tasks = [_free(place) for place in range(30)]
    judging = JudgingConfig(calibration=path)
    admitted = read_admission(judging, tasks, judge_fingerprint=JUDGE)

    assert admitted.changed == {"kind.none": 0.0}
    for task in tasks:
        assert [one.weight for one in admitted.rubric(task.rubric)] == [3, 0]
    result = JudgeResult.scored(tasks[0].rubric, {"why_0": 3, "bare_0": 1}, judge="p")
    assert admitted.result(result, tasks[0].rubric).scores == {"why_0": 3, "bare_0": 0}
    assert described(admitted, [task.rubric for task in tasks]).startswith(
        "admission: 1 of 2 criteria masked (kind.none); 60 ids by 2 kinds; 0 weighed down; 25%"
    )


def test_a_kind_that_was_not_calibrated_is_not_admitted_and_named(
    write_calibration: Write,
) -> None:
    path = write_calibration({"kind.cause": 1.0}, **_of_kinds(cause=1))
    tasks = [_free(0), _free(1, LIMIT)]
    with pytest.raises(
        TrainConfigError, match=r"3 of 4 .* not calibrated \(bare_0, why_1, bare_1\)"
    ):
        read_admission(JudgingConfig(calibration=path), tasks, judge_fingerprint=JUDGE)
    masking = JudgingConfig(calibration=path, uncalibrated="mask")
    with pytest.raises(
        TrainConfigError, match=rf"1 tasks, first '{tasks[1].task_id}': every"
    ):
        read_admission(masking, tasks, judge_fingerprint=JUDGE)
    admitting = JudgingConfig(calibration=path, uncalibrated="admit")
    assert read_admission(admitting, tasks, judge_fingerprint=JUDGE).changed == {}


def test_an_id_of_another_kind_than_was_calibrated_is_found_by_its_kind(
    write_calibration: Write,
) -> None:
    """The id decides where it asks for the same, the kind where it does not."""
    pools = {"why": Pool(id="why", kind=CAUSE), "kind.limit": Pool(kind=LIMIT)}
    path = write_calibration({"why": 0.5, "kind.limit": 1.0}, pools=pools)
    tasks = [
        Task(
            question=f"{kind}?",
            grounding=Grounding(text="A passage."),
            rubric=Rubric(criteria=(Criterion(id="why", weight=2, kind=kind),)),
        )
        for kind in (CAUSE, LIMIT)
    ]
    judging = JudgingConfig(calibration=path, correction="noise_rates")
    admitted = read_admission(judging, tasks, judge_fingerprint=JUDGE)

    assert [admitted.rubric(task.rubric).total_weight for task in tasks] == [1, 2]
    assert _by_name(admitted.rates).keys() == {"why", "kind.limit"}
    z_M = admitted.corrected_z(np.array([1.0]), tasks[1].rubric)
    assert z_M == pytest.approx([(1 - 0.2) / 0.7])


def test_figures_of_free_ids_are_by_kind(config: TrainConfig) -> None:
    tasks = [_free(place) for place in range(30)]
    groups = [
        [
            JudgeResult.scored(
                task.rubric, {f"why_{p}": 3.0 * g, f"bare_{p}": 0.5}, judge="program"
            )
            for g in (0, 1)
        ]
        for p, task in enumerate(tasks)
    ]
    sizes = Sizes.of([[4, 4]] * 30, [[True] * 2] * 30)
    crediting = Crediting(config, pooling=Pooling.of(tasks))
    credit, rows = crediting.of_step(1, groups, tasks, sizes)

    assert credit.figures.criteria == {"kind.cause": 0.5, "kind.none": 0.5}
    assert credit.attribution_abs.keys() == {"kind.cause", "kind.none"}
    assert credit.attribution_abs["kind.none"] == 0
    assert rows[0].z.keys() == {"why_0", "bare_0"}  # of one response all is kept
    passed = crediting.of_heldout(1, groups, tasks)
    assert passed.criteria == {"kind.cause": 0.5, "kind.none": 0.5}
