"""A whole run with weights that change from group to group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.report.page import write_report
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import JudgementRow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig

    MakeConfig = Callable[..., TrainConfig]

WEIGHTING = {"by": "contrast", "dropout": 0.4}


class KilledError(Exception):
    pass


def judgements(out: Path, step: int) -> list[JudgementRow]:
    path = RunFolder(out).judgements / f"step_{step:06d}.jsonl"
    return [
        JudgementRow.model_validate_json(line) for line in path.read_text().splitlines()
    ]


def test_a_run_of_two_steps_says_what_it_moved(make_config: MakeConfig) -> None:
    config = make_config(
        steps=2, rubric_weights=WEIGHTING, judge={"spec": {"type": "lexical"}}
    )

    run_grpo(config)

    metrics = list(RunFolder(config.out).read_metrics())
    assert len(metrics) == 2
    drawn: set[tuple[str, ...]] = set()
    for row in metrics:
        rows = judgements(config.out, row.step)
        rewards = [
            sum(one.shares[name] * z for name, z in one.z.items()) for one in rows
        ]
        assert row.reward_mean == pytest.approx(np.mean(rewards)), "the full rubric's"
        assert row.moved_weight_frac is not None
        assert 0 < row.moved_weight_frac < 1
        drawn |= {tuple(n for n, share in one.weights.items() if share) for one in rows}
    assert len(drawn) > 1
    write_report(config.out)


def test_a_run_that_goes_on_has_the_numbers_of_one_that_was_never_stopped(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {
        "steps": 4,
        "rubric_weights": WEIGHTING,
        "checkpoint": {"every": 2},
        "judge": {"spec": {"type": "lexical"}},
    }
    whole = make_config(out=tmp_path / "whole", **changes)
    run_grpo(whole)
    parts = make_config(out=tmp_path / "parts", **changes)

    def stop(row: Any) -> None:
        if row.step == 3:
            raise KilledError

    with pytest.raises(KilledError):
        run_grpo(parts, on_step=stop)
    run_grpo(parts, resume=True)

    for step in range(1, 5):
        assert judgements(parts.out, step) == judgements(whole.out, step)
