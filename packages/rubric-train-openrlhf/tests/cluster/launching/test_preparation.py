"""What a run looks at before it starts anything."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rubric_judge import JudgeSetupError
from rubric_judge.testing import FakeEndpoint, Fault
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.cluster.launching.preparation import (
    check_key,
    check_machine,
    prepare,
)
from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.errors import PolicyLoadError, ResumeError, TrainConfigError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import live_summary
from rubric_train_openrlhf.run.writing import sync_files
from rubric_train_openrlhf.step import probe
from rubric_train_openrlhf.step.probe import probe_judge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import RealInput
    from rubric_train_openrlhf.config.train import TrainConfig

MANY: dict[str, Any] = {"gpus_per_node": 64, "deepspeed": {"forward_micro_batch": 1}}
"""More GPUs than any machine has that tests run on."""


@pytest.mark.parametrize(
    ("cluster", "location", "words"),
    [
        (MANY, "cluster.gpus_per_node", "takes 64 GPUs, and this machine has"),
        (
            {"nodes": 2, "deepspeed": {"forward_micro_batch": 4}},
            "cluster.nodes",
            "cluster.nodes=2: the Ray that a run starts is on this machine alone",
        ),
    ],
)
def test_a_machine_that_cannot_hold_the_run(
    make_config: Callable[..., TrainConfig],
    cluster: dict[str, Any],
    location: str,
    words: str,
) -> None:
    config = make_config(cluster=cluster, optim={"micro_batch": 4})
    with pytest.raises(TrainConfigError, match=words) as caught:
        check_machine(config)
    assert caught.value.location == location


@pytest.mark.parametrize(
    "cluster",
    [
        MANY | {"ray": {"address": "auto"}},
        MANY | {"ray": {"dashboard": "http://head:8265"}},
        MANY | {"device": "cpu"},
    ],
)
def test_a_cluster_that_is_elsewhere_is_not_looked_for_here(
    make_config: Callable[..., TrainConfig], cluster: dict[str, Any]
) -> None:
    config = make_config(cluster=cluster, optim={"micro_batch": 4})
    check_machine(config)
    assert config.cluster.run_gpus == 64


LLM: dict[str, Any] = {
    "type": "llm",
    "model": "openai/m",
    "api_key_env": "RUBRIC_NO_SUCH_KEY",
}


@pytest.mark.parametrize(
    "spec", [LLM, {"type": "hybrid", "judge": LLM}], ids=["llm", "hybrid"]
)
def test_a_key_that_is_missing_here(
    make_config: Callable[..., TrainConfig],
    monkeypatch: pytest.MonkeyPatch,
    spec: dict[str, Any],
) -> None:
    monkeypatch.delenv("RUBRIC_NO_SUCH_KEY", raising=False)
    with pytest.raises(JudgeSetupError, match="'RUBRIC_NO_SUCH_KEY', which is not set"):
        check_key(make_config(judge={"spec": spec}))
    # The processes of a cluster that runs have an environment of their own.
    check_key(make_config(judge={"spec": spec}, cluster={"ray": {"address": "auto"}}))
    monkeypatch.setenv("RUBRIC_NO_SUCH_KEY", "x")
    check_key(make_config(judge={"spec": spec}))


def answering_with(address: str) -> dict[str, Any]:
    return {
        "type": "llm",
        "model": "openai/m",
        "api_base": address,
        "transport": "direct",
        "max_transport_attempts": 1,
    }


def test_a_judge_that_refuses_the_key_or_is_not_there(
    make_config: Callable[..., TrainConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_AGAIN_S", 0.0)
    with FakeEndpoint(0.5, faults=itertools.repeat(Fault.UNAUTHORIZED)) as endpoint:
        refusing = {"spec": answering_with(endpoint.url)}
        with pytest.raises(JudgeSetupError, match=r"does not answer: auth after .*401"):
            probe_judge(make_config(judge=refusing))
        # Its own processes are asked there.
        probe_judge(make_config(judge=refusing, cluster={"ray": {"address": "auto"}}))
    with pytest.raises(JudgeSetupError, match="does not answer: connection after"):
        probe_judge(make_config(judge=refusing))


def test_a_judge_that_fails_now_and_then_is_there_and_is_asked_one_line(
    make_config: Callable[..., TrainConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_AGAIN_S", 0.0)
    faults = itertools.chain([Fault.RESET] * 2, itertools.repeat(None))
    with FakeEndpoint(0.5, faults=faults) as endpoint:
        probe_judge(make_config(judge={"spec": answering_with(endpoint.url)}))
    assert len(endpoint.calls) == 3
    probe_judge(make_config(judge={"spec": {"type": "lexical"}}))


@pytest.mark.openrlhf
def test_a_refused_key_is_found_before_the_folder_is_touched(
    real_input: RealInput, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(probe, "_AGAIN_S", 0.0)
    out = tmp_path / "run"
    with FakeEndpoint(0.5, faults=itertools.repeat(Fault.UNAUTHORIZED)) as endpoint:
        config = real_input.config(out, judge={"spec": answering_with(endpoint.url)})
        with pytest.raises(JudgeSetupError, match="auth"):
            real_input.prepare(config, resume=False)
    assert not out.exists()


@pytest.mark.openrlhf
def test_what_is_wrong_is_found_before_the_folder_is_touched(
    real_input: RealInput, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RUBRIC_NO_SUCH_KEY", raising=False)
    out = tmp_path / "run"
    with pytest.raises(JudgeSetupError, match="RUBRIC_NO_SUCH_KEY"):
        real_input.prepare(real_input.config(out, judge={"spec": LLM}), resume=False)
    with pytest.raises(PolicyLoadError, match=r"^model\.path: no folder at .*absent"):
        real_input.prepare(
            real_input.config(out, model={"type": "path", "path": tmp_path / "absent"}),
            resume=False,
        )
    with pytest.raises(
        TrainConfigError, match=r"no task file at .*absent' \(data\.validation\);"
    ):
        real_input.prepare(
            real_input.config(out, data={"validation": tmp_path / "absent"}),
            resume=False,
        )
    assert not out.exists()


@pytest.mark.openrlhf
def test_a_run_says_that_it_runs_as_soon_as_there_is_a_folder(
    real_input: RealInput, tmp_path: Path
) -> None:
    config = real_input.config(tmp_path / "run")
    assert real_input.prepare(config, resume=False) is not None
    summary = RunFolder(config.out).read_summary()
    assert (summary.status, summary.steps) == ("running", 0)


@pytest.mark.openrlhf
def test_engines_and_policy_are_told_what_the_model_s_folder_says(
    real_input: RealInput, misset_model: Path, tmp_path: Path
) -> None:
    model = {"type": "path", "path": misset_model}
    for said, expected in ((None, "float32"), ({"dtype": "bfloat16"}, "bfloat16")):
        out = tmp_path / expected
        sections = {"checkpoint": said} if said else {}
        config = real_input.config(
            out, model=model, cluster={"max_len": 128}, **sections
        )
        assert real_input.prepare(config, resume=False) is not None
        run = PolicyRun.model_validate_json(ClusterPaths(out).run.read_text())
        assert run.end_token_ids == (2, 1)
        assert run.saved_dtype == expected


@pytest.mark.openrlhf
def test_a_warm_start_that_fails_is_told(real_input: RealInput, tmp_path: Path) -> None:
    config = real_input.config(
        tmp_path / "run", sft={"max_answer_tokens": 1, "learning_rate": 1e-5}
    )
    folder = RunFolder(config.out)
    watched = live_summary(
        folder, total_steps=config.steps, resume=False, progress=Progress.silent()
    )
    with (
        pytest.raises(TrainConfigError, match="raise the limits of sft"),
        watched as summary_file,
    ):
        prepare(config, resume=False, namespace="tests", summary_file=summary_file)
    summary = folder.read_summary()
    assert summary.status == "failed"
    assert (summary.error or "").startswith("TrainConfigError: ")


@pytest.mark.openrlhf
def test_a_run_goes_on_from_its_last_whole_state(
    real_input: RealInput, tmp_path: Path
) -> None:
    config = real_input.config(tmp_path / "run")
    assert real_input.prepare(config, resume=False) is not None
    states = DeepSpeedStates(ClusterPaths(config.out).trainer_state)
    for step in (2, 4):
        states.path(step).mkdir(parents=True)
        (states.path(step) / "model_states.pt").write_text("x")
    latest = states.path(4).with_name("latest")
    latest.write_text("step_000004")

    # Killed while it wrote its first state: there is none to load.
    policy = RunFolder(config.out).checkpoints / "step_000004"
    policy.mkdir()
    with pytest.raises(
        ResumeError, match=r"policy of step 4.*that of step 0.*checkpoints/trainer"
    ):
        real_input.prepare(config, resume=True)
    assert states.path(4).exists(), "nothing is deleted where the run cannot go on"
    policy.rmdir()
    states.mark(2, [sync_files(states.path(2))], keep=2)
    latest.write_text("step_000004")

    words = real_input.prepare(config, resume=True)

    assert words is not None
    assert "--ckpt.load_enable" in words
    assert latest.read_text() == "step_000002"
    assert not states.path(4).exists()


@pytest.mark.openrlhf
def test_a_run_without_a_whole_state_loads_none(
    real_input: RealInput, tmp_path: Path
) -> None:
    config = real_input.config(tmp_path / "run")
    assert real_input.prepare(config, resume=False) is not None
    half = DeepSpeedStates(ClusterPaths(config.out).trainer_state).path(2)
    half.mkdir(parents=True)
    half.with_name("latest").write_text(half.name)

    words = real_input.prepare(config, resume=True)

    assert words is not None
    assert "--ckpt.load_enable" not in words
    assert list(half.parent.iterdir()) == []


@pytest.mark.openrlhf
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_run_does_not_go_on_with_another_model_as_its_reference(
    real_input: RealInput, tmp_path: Path, name: str
) -> None:
    config = real_input.config(tmp_path / "run")
    model = tmp_path / "model"
    shutil.copytree(str(getattr(config.model, "path", "")), model)
    config = real_input.config(
        tmp_path / "run", model={"type": "path", "path": str(model)}
    )
    assert real_input.prepare(config, resume=False) is not None
    content = (model / name).read_bytes()
    (model / name).write_bytes(content + b" ")

    with pytest.raises(
        ResumeError, match=rf"model\.path .*: {name} is missing, or is another"
    ):
        real_input.prepare(config, resume=True)

    (model / name).write_bytes(content)
    assert real_input.prepare(config, resume=True) is not None
