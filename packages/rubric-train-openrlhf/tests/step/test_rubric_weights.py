"""Weights of criteria that change from group to group: what moves, and what stays the rubric's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    Reason,
    Rubric,
    Task,
    group_advantages,
)
from rubric_train_openrlhf.config.train import dump_config, parse_config
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.step.credit import Crediting
from rubric_train_openrlhf.step.rewards import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig

RUBRIC = Rubric(
    criteria=(
        Criterion(id="saturated", weight=6),
        Criterion(id="live", weight=2),
        Criterion(id="rare", weight=2),
        Criterion(id="noted", weight=0),
    )
)
Z: dict[str, list[float]] = {
    "saturated": [1, 1, 1, 1],
    "live": [0, 1, 0, 1],
    "rare": [0, 0, 0, 1],
}
SIZES = Sizes.of([[4, 4, 4, 4]], [[True, False, True, True]])


def task_of(rubric: Rubric, question: str = "What does fn do?") -> Task:
    return Task(
        question=question, grounding=Grounding(text="A passage."), rubric=rubric
    )


def group_of(rubric: Rubric, z: dict[str, list[float]]) -> list[JudgeResult]:
    return [
        JudgeResult.scored(
            rubric,
            {one.id: one.weight * z.get(one.id, [0.0] * 9)[g] for one in rubric},
            judge="program",
        )
        for g in range(4)
    ]


TASK, GROUP = task_of(RUBRIC), group_of(RUBRIC, Z)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., TrainConfig]:
    def made(**changes: Any) -> TrainConfig:
        values: dict[str, Any] = {
            "model": {"type": "path", "path": tmp_path},
            "data": {"train": tmp_path / "t.jsonl"},
            "steps": 1,
            "out": tmp_path / "run",
        }
        return parse_config(values | changes)

    return made


def test_contrast_moves_the_advantage_and_leaves_the_reward(
    make: Callable[..., TrainConfig],
) -> None:
    config = make(rubric_weights={"by": "contrast", "least": 0.1, "most": 10})
    plain, plain_rows = Crediting(make()).of_step(1, [GROUP], [TASK], SIZES)

    credit, rows = Crediting(config).of_step(1, [GROUP], [TASK], SIZES)

    np.testing.assert_array_equal(credit.rewards_PG, plain.rewards_PG)
    np.testing.assert_array_equal(credit.shaped_PG, plain.shaped_PG)
    live, rare = 0.5, 3**0.5 / 4
    mean = 0.2 * live + 0.2 * rare
    parts = np.array([0.1 * 6, live / mean * 2, rare / mean * 2])
    alpha = parts / parts.sum()
    rewards = alpha @ np.array(list(Z.values()))
    np.testing.assert_allclose(credit.advantages_PG, group_advantages([rewards]))
    assert rows[0].weights == pytest.approx(
        dict(zip(RUBRIC.ids, [*alpha, 0.0], strict=True))
    )
    for row, before, advantage in zip(
        rows, plain_rows, credit.advantages_PG[0], strict=True
    ):
        assert sum(row.attribution.values()) == pytest.approx(advantage, abs=1e-9)
        assert (row.z, row.shares) == (before.z, before.shares)
    assert credit.figures.moved_weight_frac == pytest.approx(0.6 - alpha[0])
    without = credit.figures.model_copy(update={"moved_weight_frac": None})
    assert without == plain.figures


def test_a_run_without_it_writes_what_it_always_wrote(
    make: Callable[..., TrainConfig],
) -> None:
    config = make()
    credit, rows = Crediting(config).of_step(1, [GROUP], [TASK], SIZES)

    assert "rubric_weights" not in dump_config(config)
    assert "weights" not in rows[0].model_dump()
    assert "moved_weight_frac" not in credit.figures.model_dump()


def test_a_group_of_equal_rewards_is_kept_where_criteria_have_the_advantage(
    make: Callable[..., TrainConfig],
) -> None:
    z: dict[str, list[float]] = {
        "saturated": [1, 1 / 3, 2 / 3, 2 / 3],
        "live": [0, 1, 1, 1],
        "rare": [0, 1, 0, 0],
    }
    group = group_of(RUBRIC, z)
    by_criterion = Crediting(make(advantage={"estimator": "decoupled"}))

    assert Crediting(make()).informative([group], [TASK], SIZES) == [False]
    assert by_criterion.informative([group], [TASK], SIZES) == [True]
    credit, _ = by_criterion.of_step(1, [group], [TASK], SIZES)
    np.testing.assert_allclose(credit.rewards_PG, 0.6)
    assert np.abs(credit.advantages_PG).max() > 1
    assert credit.figures.degenerate_group_frac == 0


def test_penalties_are_of_the_reweighted_reward_too(
    make: Callable[..., TrainConfig],
) -> None:
    config = make(
        rubric_weights={"by": "contrast"},
        shaping={"alpha_stop": 0.5},
        advantage={"std": "none"},
    )

    credit, rows = Crediting(config).of_step(1, [GROUP], [TASK], SIZES)

    alpha = np.array(list(rows[0].weights.values()))[:3]
    rewards = alpha @ np.array(list(Z.values()))
    rewards[1] *= 0.5
    np.testing.assert_allclose(
        credit.advantages_PG, group_advantages([rewards], std="none")
    )
    assert rows[1].attribution["shaping"] < 0


@pytest.mark.parametrize(
    "weighting", [{"by": "contrast"}, {"by": "contrast", "dropout": 0.5}]
)
def test_a_group_that_agrees_on_every_criterion_has_exact_zeros(
    make: Callable[..., TrainConfig], weighting: dict[str, object]
) -> None:
    saturated = group_of(RUBRIC, {"saturated": [1] * 4, "live": [0.3] * 4})

    credit, rows = Crediting(make(rubric_weights=weighting)).of_step(
        1, [saturated], [TASK], SIZES
    )

    assert (credit.advantages_PG == 0).all()
    assert all(value == 0 for row in rows for value in row.attribution.values())


def test_a_rubric_of_one_criterion_is_left_as_it_is(
    make: Callable[..., TrainConfig],
) -> None:
    rubric = Rubric(criteria=(Criterion(id="live", weight=2),))
    task, group = task_of(rubric), group_of(rubric, Z)
    weighting = {"by": "contrast", "dropout": 0.9}

    credit, _ = Crediting(make(rubric_weights=weighting)).of_step(
        3, [group], [task], SIZES
    )

    plain, _ = Crediting(make()).of_step(3, [group], [task], SIZES)
    np.testing.assert_array_equal(credit.advantages_PG, plain.advantages_PG)
    assert credit.figures.moved_weight_frac == 0


def test_unavailable_judgements_stay_masked_and_invalid_ones_count_nothing(
    make: Callable[..., TrainConfig],
) -> None:
    group = [
        *GROUP[:2],
        JudgeResult.unavailable(Reason.TIMEOUT, judge="program"),
        JudgeResult.invalid(Reason.NOT_JSON, judge="program"),
    ]

    credit, rows = Crediting(make(rubric_weights={"by": "contrast"})).of_step(
        1, [group], [TASK], SIZES
    )

    assert credit.valid_PG.tolist() == [[True, True, False, True]]
    alpha = np.array(list(rows[0].weights.values()))[:3]
    z = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]])
    expected = group_advantages([alpha @ z])
    np.testing.assert_allclose(credit.advantages_PG[credit.valid_PG], expected[0])
    assert credit.advantages_PG[0, 2] == 0


def test_dropout_follows_from_seed_step_and_task_alone(
    make: Callable[..., TrainConfig],
) -> None:
    rubric = Rubric(
        criteria=tuple(Criterion(id=f"c{n}", weight=n + 1) for n in range(8))
    )
    draw = np.random.default_rng(0)
    tasks = [task_of(rubric, f"Question {n}?") for n in range(3)]
    z = {name: draw.random(4).tolist() for name in rubric.ids}
    groups = [group_of(rubric, z)] * 3
    sizes = Sizes.of([[4] * 4] * 3, [[True] * 4] * 3)

    def weights(step: int, order: list[int], seed: int = 0) -> list[dict[str, float]]:
        config = make(rubric_weights={"dropout": 0.5}, seed=seed)
        taken = [tasks[n] for n in order]
        _, rows = Crediting(config).of_step(step, groups, taken, sizes)
        return [rows[4 * n].weights for n in range(3)]

    first = weights(1, [0, 1, 2])
    assert first == weights(1, [2, 1, 0])[::-1]
    assert first != weights(2, [0, 1, 2])
    assert first != weights(1, [0, 1, 2], seed=1)
    assert len({tuple(one.values()) for one in first}) == 3
    for one in first:
        assert sum(one.values()) == pytest.approx(1)
        assert sum(share == 0 for share in one.values()) == 4


def test_decoupled_advantages_are_of_the_criteria_that_are_drawn(
    make: Callable[..., TrainConfig],
) -> None:
    estimator = {"estimator": "decoupled"}
    config = make(rubric_weights={"dropout": 0.7}, advantage=estimator)
    for step in range(1, 9):
        credit, rows = Crediting(config).of_step(step, [GROUP], [TASK], SIZES)
        is_drawn = rows[0].weights["live"] > 0 or rows[0].weights["rare"] > 0
        assert credit.advantages_PG.any() == is_drawn


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rubric_weights": {}}, "rubric_weights changes nothing"),
        ({"rubric_weights": {"dropout": 1}}, r"rubric_weights\.dropout"),
        ({"rubric_weights": {"by": "variance"}}, r"rubric_weights\.by"),
        ({"rubric_weights": {"by": "contrast", "least": 0}}, r"rubric_weights\.least"),
        ({"rubric_weights": {"by": "contrast", "most": 0.5}}, r"rubric_weights\.most"),
        (
            {
                "rubric_weights": {"by": "contrast"},
                "advantage": {"estimator": "decoupled"},
            },
            "which does not read the reward",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    make: Callable[..., TrainConfig], changes: dict[str, object], problem: str
) -> None:
    with pytest.raises(TrainConfigError, match=problem):
        make(**changes)
