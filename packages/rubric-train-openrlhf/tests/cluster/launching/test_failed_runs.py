"""What a run folder says of a run that failed, and what it lets a resumed run change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.cluster.driver import wall_s_at_failure
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.opening import begin, holds_run_to_resume
from rubric_train_openrlhf.run import RunFolder
from rubric_train_openrlhf.run.summary import write_summary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config import TrainConfig


def test_seconds_add_up_where_the_trainer_told_them(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_summary(folder, status="failed", wall_s=700.0, error=RuntimeError())
    assert wall_s_at_failure(folder, elapsed_s=30.0) == 700.0


def test_seconds_of_a_trainer_that_died_are_added_to_those_before(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_summary(folder, status="running", wall_s=400.0)
    assert wall_s_at_failure(folder, elapsed_s=30.0) == 430.0


def test_a_run_that_fails_before_its_trainer_begins_took_what_it_took(tmp_path: Path) -> None:
    assert wall_s_at_failure(RunFolder(tmp_path), elapsed_s=30.0) == 30.0


def test_a_resumed_run_may_be_longer_and_on_another_cluster(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    sections: dict[str, Any] = {"out": tmp_path / "run"}
    config = make_config(**sections)
    folder = RunFolder(config.out)
    begin(folder, config=config, tasks_sha256={})
    for ray in ({"address": "10.0.0.2:6379"}, {"dashboard": "http://10.0.0.3:8265"}, {"cpus": 64}):
        elsewhere = make_config(**sections, steps=config.steps + 1, cluster={"ray": ray})
        assert holds_run_to_resume(folder, config=elsewhere, resume=True)
    with pytest.raises(ResumeError, match=r"cluster\.engines\.tensor_parallel"):
        holds_run_to_resume(
            folder,
            config=make_config(**sections, cluster={"engines": {"tensor_parallel": 2}}),
            resume=True,
        )
