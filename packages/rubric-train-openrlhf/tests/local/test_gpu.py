from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.run.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_judge.testing import ScriptedJudge
    from rubric_train_openrlhf.config.train import TrainConfig


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_run_on_a_gpu_trains_and_resumes(
    make_config: Callable[..., TrainConfig], spread_judge: ScriptedJudge, precision: str
) -> None:
    run_grpo(
        make_config(device="cuda", precision=precision, steps=2), judge=spread_judge
    )
    longer = make_config(device="cuda", precision=precision, steps=4)
    run_grpo(longer, judge=spread_judge, resume=True)

    rows = RunFolder(longer.out).read_metrics()
    assert [row.step for row in rows] == [1, 2, 3, 4]
    assert all(abs(row.ratio_mean - 1) < 0.1 and row.grad_norm > 0 for row in rows)
