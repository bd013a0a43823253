"""A real audited run by weights of each group: its numbers are those of the local backend."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest

from rubric_train_openrlhf.run.records import JudgementRow, RolloutRow
from rubric_train_openrlhf.step.credit import Crediting
from rubric_train_openrlhf.step.rewards import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from conftest import Ended, RealInput
    from rubric_judge.testing import FakeCall

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

GROUP, STEPS = 4, 16
FOOLED_AFTER = 110
"""Calls after which the training judge gives nearly everything to everybody."""


def fooled(call: FakeCall) -> float:
    """Scores that differ within a group, and rise at once where the judge is fooled."""
    return (0.05 if call.number < FOOLED_AFTER else 0.8) + 0.05 * (call.number % 4)


@pytest.fixture(scope="module")
def ended(
    real_input: RealInput,
    open_judge: Callable[..., AbstractContextManager[dict[str, Any]]],
    run_to_end: Callable[..., Ended],
    tmp_path_factory: pytest.TempPathFactory,
) -> Ended:
    with open_judge(fooled) as judge:
        config = real_input.config(
            tmp_path_factory.mktemp("watch") / "run",
            steps=STEPS,
            judge=judge,
            rubric_weights={"by": "contrast", "dropout": 0.4},
            objective={"kl_coef": 0.0},  # no reference: one process less
            checkpoint={"every": 2, "keep": STEPS},
            validation={"every": STEPS},
            audit={
                "spec": {"type": "lexical"},
                "start": 16,
                "heldout_frac": 0.0,
                "training_frac": 1.0,
                "on_divergence": "rollback",
                "alpha": 0.4,
            },
        )
        return run_to_end(config)


_Row = TypeVar("_Row", RolloutRow, JudgementRow)


def groups(path: Path, kind: type[_Row]) -> list[list[_Row]]:
    rows = [kind.model_validate_json(line) for line in path.read_text().splitlines()]
    return [rows[first : first + GROUP] for first in range(0, len(rows), GROUP)]


def test_weights_and_advantages_are_those_of_a_local_run(
    ended: Ended, real_input: RealInput
) -> None:
    tasks = {task.task_id: task for task in real_input.tasks}
    crediting = Crediting(ended.config)
    moved = 0
    for metrics in ended.folder.read_metrics():
        name = f"step_{metrics.step:06d}.jsonl"
        rollouts_P = groups(ended.folder.rollouts / name, RolloutRow)
        judgements_P = groups(ended.folder.judgements / name, JudgementRow)
        sizes = Sizes.of(
            [[row.tokens for row in group] for group in rollouts_P],
            [[row.ended for row in group] for group in rollouts_P],
        )
        local, local_rows = crediting.of_step(
            metrics.step,
            [[row.result for row in group] for group in judgements_P],
            [tasks[group[0].task_id] for group in rollouts_P],
            sizes,
        )
        trained_B = [row.advantage for group in rollouts_P for row in group]
        assert np.abs(local.advantages_PG.reshape(-1) - trained_B).max() <= 1e-4
        assert metrics.moved_weight_frac == pytest.approx(
            local.figures.moved_weight_frac, abs=1e-4
        )
        for here, there in zip(local_rows, chain(*judgements_P), strict=True):
            assert there.weights == pytest.approx(here.weights, abs=1e-4)
            moved += bool(there.weights) and there.weights != there.shares
    assert moved
