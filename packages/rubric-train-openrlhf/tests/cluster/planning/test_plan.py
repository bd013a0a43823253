"""What `rubric-train plan` says about a run on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_train_openrlhf.cluster.planning.plan import describe_plan
from rubric_train_openrlhf.config.train import load_config, parse_config
from rubric_train_openrlhf.errors import PolicyLoadError, TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_train_openrlhf.config.train import TrainConfig

PRESET = Path(__file__).parents[5] / "configs" / "train" / "paper_llama31_8b_8gpu.yaml"


@pytest.fixture(scope="module")
def preset() -> str:
    return describe_plan(load_config(PRESET), full=True)


def _numbers(plan: str, row: str) -> list[float]:
    line = next(line for line in plan.splitlines() if line.startswith(row))
    return [float(number.replace(",", "")) for number in line[len(row) :].split()]


def test_resolved_configuration_comes_first(preset: str) -> None:
    """It can be cut out and run."""
    text = preset[: preset.index("layout:")]
    assert parse_config(yaml.safe_load(text)) == load_config(PRESET)


def test_layout_and_step(preset: str) -> None:
    assert (
        "layout: 1 × 8 GPUs\n  train   4: policy, reference and engines in turns"
        in preset
    )
    assert "  judge   4 left alone, the last 4 of each machine" in preset
    assert "  sample  64 prompts × 32 responses = 2048" in preset
    assert "  update  1 × 2048 responses, in 256 passes of 2 on each of 4" in preset


def test_sizes_stand_beside_their_guesses(preset: str) -> None:
    assert "model: 8,030,261,248 parameters; keys and values 128 KiB a token" in preset
    small, large = _numbers(preset, "  in an update")
    assert small < 80
    assert large < 141
    assert "share of peak bandwidth while sampling" in preset
    assert "do not fit" not in preset


def test_the_command_and_the_keys_it_follows_from(preset: str) -> None:
    assert "python -m openrlhf.cli.train_ppo_ray --actor.num_nodes 1" in preset
    assert "--train.batch_size 2048" in preset
    assert "[optim.updates_per_rollout] P·G / updates per rollout" in preset
    assert "(no --actor.dual_clip)" in preset


def test_a_summary_is_part_of_the_whole_and_fits_a_screen(preset: str) -> None:
    summary = describe_plan(load_config(PRESET)).splitlines()

    assert set(summary) < set(preset.splitlines())
    assert len(summary) < 32
    assert _numbers("\n".join(summary), "  in all") == _numbers(preset, "  in all")


def test_memory_that_does_not_fit_is_a_warning(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(model={"type": "path", "path": "models/Llama-3.1-70B"})
    plan = describe_plan(config)
    assert "warning: H100 80 GB: " in plan
    assert "in an update do not fit; lower optim.micro_batch" in plan
    assert "an engine's share holds no response beside the weights" in plan


def test_a_plan_names_what_is_not_there_and_the_supervised_steps(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    lost = tmp_path / "train.jsonl"
    sft = {"steps": 300, "batch_size": 64, "learning_rate": 5e-6}
    plan = describe_plan(make_config(data={"train": lost}, sft=sft))
    assert f"not there yet: {lost} (data.train)" in plan
    assert (
        "warm start: 300 supervised steps of 64 reference answers, learning rate 5e-06"
        in plan
    )
    assert "warm start" not in describe_plan(make_config())


def test_traps_are_warnings(make_config: Callable[..., TrainConfig]) -> None:
    plan = describe_plan(
        make_config(optim={"updates_per_rollout": 1}, objective={"clip_high": 0.28})
    )
    assert "warning: optim.updates_per_rollout=1, as in the paper: " in plan


def test_validation_tasks_that_are_trained_on_are_a_warning(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    rubric = Rubric(criteria=(Criterion(id="a", weight=1.0),))
    task = Task(question="Which?", grounding=Grounding("A passage."), rubric=rubric)
    write_tasks(file := tmp_path / "tasks.jsonl", [task])
    plan = describe_plan(make_config(data={"train": file, "validation": file}))
    assert (
        "warning: data.validation: 1 of 1 validation tasks are training tasks; name"
        in plan
    )


def test_a_warm_start_has_a_command_of_its_own(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(sft={"steps": 10, "batch_size": 64, "learning_rate": 1e-5})
    plan = describe_plan(config, full=True)
    assert "python -m openrlhf.cli.train_sft --data.dataset runs/x/cluster" in plan


def test_a_warm_start_that_cannot_run_has_no_plan(
    make_config: Callable[..., TrainConfig],
) -> None:
    with pytest.raises(TrainConfigError, match=r"sft\.batch_size=9 is not divisible"):
        describe_plan(
            make_config(sft={"steps": 10, "batch_size": 9, "learning_rate": 1e-5})
        )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "it holds list, not a JSON object"),
        (
            '{"model_type": "llama", "num_attention_heads": 0, "hidden_size": 8}',
            "not 0",
        ),
        ('{"model_type": "llama", "hidden_size": "big"}', "not 'big'"),
    ],
)
def test_a_model_whose_sizes_are_none(
    make_config: Callable[..., TrainConfig], tmp_path: Path, content: str, words: str
) -> None:
    (tmp_path / "config.json").write_text(content)
    config = make_config(model={"type": "path", "path": str(tmp_path)})
    with pytest.raises(
        PolicyLoadError, match=f"config.json' could not be read: .*{words}"
    ):
        describe_plan(config)


def test_an_unknown_model_is_said_to_be_one(
    make_config: Callable[..., TrainConfig],
) -> None:
    assert "memory and time: unknown" in describe_plan(make_config())


def test_a_rehearsal_has_no_gpu_to_fill(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(
        model={"type": "path", "path": "models/Llama-3.1-8B"}, cluster={"device": "cpu"}
    )
    plan = describe_plan(config)
    assert "layout: 1 × 8 processes on a CPU" in plan
    assert "H100" not in plan


@pytest.mark.parametrize(
    ("ray", "said"),
    [
        ({}, "a cluster of its own on this machine"),
        ({"address": "auto"}, "the cluster at auto"),
        ({"dashboard": "http://head:8265"}, "handed in at http://head:8265"),
    ],
)
def test_where_it_runs(
    make_config: Callable[..., TrainConfig], ray: dict[str, str], said: str
) -> None:
    assert said in describe_plan(make_config(cluster={"ray": ray}))
