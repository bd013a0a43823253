"""A whole run with a calibration: what is trained on, and where it is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rubric_core import ConfigError
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.local.plan import describe_plan
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.run.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig

    MakeConfig = Callable[..., TrainConfig]
    Write = Callable[..., Path]

FACTORS = {"named": 1.0, "parameters": 0.0, "returns": 0.5}


def test_a_run_says_what_it_masks_and_trains_on_the_rest(
    make_config: MakeConfig, write_calibration: Write
) -> None:
    judge = {"calibration": write_calibration(FACTORS), "spec": {"type": "lexical"}}
    config = make_config(steps=2, judge=judge)

    plan = describe_plan(config)
    assert (
        "admission: 1 of 3 criteria masked (parameters); 1 weighed down (returns × 0.5)"
        in plan
    )
    assert "admission: none of these tasks was labelled" in plan
    assert "58% of the weight kept from the reward; mean M_eff 2.57 → 1.47" in plan

    summary = run_grpo(config)

    folder = RunFolder(config.out)
    assert summary.admission == {"parameters": 0.0, "returns": 0.5}
    for row in folder.read_metrics():
        assert row.withheld_weight_frac == pytest.approx(3.5 / 6)
        assert row.m_eff_mean == pytest.approx(2.5**2 / 4.25)
        assert row.criteria.keys() == {"named", "returns"}
        means = {
            name: row.criteria[name] * w for name, w in (("named", 2), ("returns", 0.5))
        }
        assert row.reward_mean == pytest.approx(sum(means.values()) / 2.5)
    text = (folder.judgements / "step_000001.jsonl").read_text()
    assert json.loads(text.splitlines()[0])["shares"]["parameters"] == 0

    write_calibration(FACTORS | {"parameters": 1.0})
    longer = make_config(steps=3, judge=judge)
    with pytest.raises(ResumeError, match="admits other criteria"):
        run_grpo(longer, resume=True)


def test_a_plan_refuses_another_judge_or_says_that_it_cannot_look(
    make_config: MakeConfig, write_calibration: Write, tmp_path: Path
) -> None:
    path = write_calibration(FACTORS, judge_fingerprint="another")
    with pytest.raises(ConfigError, match="it is of the judge 'another'"):
        describe_plan(make_config(judge={"calibration": path}))

    absent = {
        "type": "llm",
        "model": "openai/m",
        "litellm_config": str(tmp_path / "none.yaml"),
    }
    plan = describe_plan(make_config(judge={"calibration": path, "spec": absent}))
    assert "1 of 3 criteria masked" in plan
    assert "admission: identity not checked" in plan


def test_a_plan_without_its_calibration_says_that_it_is_not_there(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    plan = describe_plan(make_config(judge={"calibration": tmp_path / "later.json"}))
    assert "judge.calibration is missing: there is no file" in plan
    assert "later.json" in plan


def test_another_judge_is_refused_before_the_run_folder_is_touched(
    make_config: MakeConfig, write_calibration: Write
) -> None:
    path = write_calibration(FACTORS, judge_fingerprint="another")
    config = make_config(judge={"calibration": path})
    with pytest.raises(ConfigError, match="it is of the judge 'another'"):
        run_grpo(config)
    assert not RunFolder(config.out).config.exists()
