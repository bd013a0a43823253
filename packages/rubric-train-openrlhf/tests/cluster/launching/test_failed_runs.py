"""What a run folder says of a run that failed, and what it lets a resumed run change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from rubric_judge import JudgeSetupError
from rubric_train_openrlhf.cluster.launching import driver
from rubric_train_openrlhf.cluster.launching.driver import Output, run
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.resuming import begin, has_finished, holds_run_to_resume
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import LiveSummary
from rubric_train_openrlhf.run.records import MetricsRow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import RealInput
    from rubric_train_openrlhf.config.train import TrainConfig


def metrics_row(step: int) -> MetricsRow:
    mappings = {"criteria", "zero_reward_by_reason", "by_fallback"}
    names = MetricsRow.model_fields.keys() - {"cluster", "audit", "monitor"}
    values: dict[str, Any] = {name: {} if name in mappings else 1 for name in names}
    return MetricsRow(**values | {"step": step})


def test_a_resumed_run_may_be_longer_and_on_another_cluster(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    sections: dict[str, Any] = {"out": tmp_path / "run"}
    config = make_config(**sections)
    folder = RunFolder(config.out)
    begin(folder, config=config, tasks_sha256={})
    for ray in (
        {"address": "10.0.0.2:6379"},
        {"dashboard": "http://10.0.0.3:8265"},
        {"cpus": 64},
    ):
        elsewhere = make_config(
            **sections, steps=config.steps + 1, cluster={"ray": ray}
        )
        assert holds_run_to_resume(folder, config=elsewhere, resume=True)
    with pytest.raises(ResumeError, match=r"cluster\.engines\.tensor_parallel"):
        holds_run_to_resume(
            folder,
            config=make_config(**sections, cluster={"engines": {"tensor_parallel": 2}}),
            resume=True,
        )


LLM: dict[str, Any] = {
    "type": "llm",
    "model": "openai/m",
    "api_base": "http://127.0.0.1:1/v1",
}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {"judge": {"workers": 2, "micro_batch": 1, "deadline_s": 9.0}}),
        ({}, {"judge": {"hedge": {}, "max_unavailable_frac": 0.9}}),
        (
            {},
            {
                "cluster": {
                    "engines": {"memory_frac": 0.4, "restarts": 9, "max_sequences": 8}
                }
            },
        ),
        (
            {"judge": {"spec": LLM}},
            {
                "judge": {
                    "spec": LLM
                    | {
                        "api_base": ["http://127.0.0.1:2/v1", "http://127.0.0.1:3/v1"],
                        "api_key_env": "OTHER",
                        "timeout_s": 7,
                        "limits": {"max_in_flight": 3},
                    }
                }
            },
        ),
        (
            {"judge": {"spec": {"type": "hybrid", "judge": LLM}}},
            {"judge": {"spec": {"type": "hybrid", "judge": LLM | {"timeout_s": 7}}}},
        ),
    ],
    ids=["workers", "hedge", "engines", "llm", "hybrid"],
)
def test_a_resumed_run_may_be_worked_otherwise(
    make_config: Callable[..., TrainConfig],
    tmp_path: Path,
    before: dict[str, Any],
    now: dict[str, Any],
) -> None:
    folder = RunFolder(tmp_path / "run")
    begin(folder, config=make_config(out=folder.path, **before), tasks_sha256={})
    changed = make_config(out=folder.path, **now)
    assert holds_run_to_resume(folder, config=changed, resume=True)


@pytest.mark.parametrize(
    ("now", "key"),
    [
        ({"judge": {"spec": LLM | {"temperature": 0.5}}}, "judge.spec.temperature"),
        ({"judge": {"spec": LLM | {"max_tokens": 9}}}, "judge.spec.max_tokens"),
        ({"judge": {"spec": LLM, "on_unavailable": "zero"}}, "judge.on_unavailable"),
        ({"judge": {"spec": {"type": "lexical"}}}, "judge.spec.type"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_computed_stays_what_it_was(
    make_config: Callable[..., TrainConfig],
    tmp_path: Path,
    now: dict[str, Any],
    key: str,
) -> None:
    folder = RunFolder(tmp_path / "run")
    config = make_config(out=folder.path, judge={"spec": LLM})
    begin(folder, config=config, tasks_sha256={})
    with pytest.raises(ResumeError, match=rf"other values of .*{re.escape(key)}"):
        holds_run_to_resume(
            folder, config=make_config(out=folder.path, **now), resume=True
        )


def test_a_run_is_not_made_shorter_than_it_is(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    begin(folder, config=make_config(out=folder.path, steps=2), tasks_sha256={})
    for step in (1, 2):
        folder.write_metrics(metrics_row(step))
    with folder.metrics.open("a") as file:
        file.write('{"step": 3, "rew')

    fewer = make_config(out=folder.path, steps=1)
    with pytest.raises(
        ResumeError, match="has done 2 steps, and steps=1 asks for fewer"
    ):
        holds_run_to_resume(folder, config=fewer, resume=True)


def test_a_run_has_finished_when_it_says_so_of_all_its_steps(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    config = make_config(out=folder.path, steps=1)
    begin(folder, config=config, tasks_sha256={})
    assert not has_finished(folder, config=config)
    folder.write_metrics(metrics_row(1))
    summary_file = LiveSummary(folder, total_steps=1)
    summary_file.begin(wall_s=1.0)
    assert not has_finished(folder, config=config)
    summary_file.end("finished")
    assert has_finished(folder, config=config)
    assert not has_finished(folder, config=make_config(out=folder.path, steps=2))


@pytest.mark.openrlhf
def test_a_run_that_has_finished_is_left_as_it_is(
    real_input: RealInput, tmp_path: Path
) -> None:
    config = real_input.config(tmp_path / "run", steps=2)
    assert real_input.prepare(config, resume=False) is not None
    folder = RunFolder(config.out)
    for step in (1, 2):
        folder.write_metrics(metrics_row(step))
    summary_file = LiveSummary(folder, total_steps=2)
    summary_file.begin(wall_s=1.0)
    summary_file.end("finished")
    before = {path: path.stat().st_mtime_ns for path in config.out.rglob("*")}

    assert real_input.prepare(config, resume=True) is None
    run(config, resume=True, output=Output())

    assert {path: path.stat().st_mtime_ns for path in config.out.rglob("*")} == before
    assert (
        real_input.prepare(config.model_copy(update={"steps": 3}), resume=True)
        is not None
    )


@pytest.mark.openrlhf
def test_a_judge_that_cannot_be_had_is_told_by_its_own_name(
    real_input: RealInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise JudgeSetupError("the key is refused")

    monkeypatch.setattr(driver, "_run_prepared", refused)
    monkeypatch.setattr(
        Output, "turn_to", lambda *_: None
    )  # this process's output is pytest's
    config = real_input.config(tmp_path / "run")
    with pytest.raises(JudgeSetupError):
        run(config, resume=False, output=Output())
    assert (
        RunFolder(config.out).read_summary().error
        == "JudgeSetupError: the key is refused"
    )
