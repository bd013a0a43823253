from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun, read_policy_run
from rubric_train_openrlhf.cluster.settings import RUN_FILE
from rubric_train_openrlhf.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig


def test_a_run_reads_back_as_it_was_written(
    make_config: Callable[..., TrainConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Infinity has no word in the JSON of other languages, and is how a norm is left unclipped.
    config = make_config(optim={"max_grad_norm": float("inf")}, dynamic_sampling={})
    written = PolicyRun.of(config, namespace="rubric-1")
    written.write(tmp_path / "run.json")
    monkeypatch.setenv(RUN_FILE, str(tmp_path / "run.json"))

    read = read_policy_run()
    assert read == written
    assert read.rollout.prompts * read.rollout.group_size == 2048
    assert read.judge_calls == 128
    assert read.out.is_absolute()


def test_it_names_no_task_file_and_no_judge(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    judge = {"spec": {"type": "llm", "model": "hosted_vllm/secret-judge"}}
    config = make_config(judge=judge)
    PolicyRun.of(config, namespace="n").write(tmp_path / "run.json")

    text = (tmp_path / "run.json").read_text()
    assert str(config.data.train) not in text
    assert str(config.data.validation) not in text
    assert "secret-judge" not in text


def test_a_process_outside_a_run_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_FILE, raising=False)
    with pytest.raises(ClusterError, match="rubric-train run"):
        read_policy_run()


@pytest.mark.parametrize("text", [None, "{", '{"steps": 3}'])
def test_a_file_that_is_no_run_names_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    path = tmp_path / "run.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(RUN_FILE, str(path))
    with pytest.raises(ClusterError, match=r"run\.json"):
        read_policy_run()
