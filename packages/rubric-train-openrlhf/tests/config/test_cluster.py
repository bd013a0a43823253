"""Layouts of a cluster: what they derive, and what they refuse."""

from pathlib import Path
from typing import Any

import pytest

from rubric_train_openrlhf.config.cluster import ClusterConfig
from rubric_train_openrlhf.config.train import TrainConfig, dump_config, parse_config
from rubric_train_openrlhf.errors import TrainConfigError

BASE: dict[str, Any] = {
    "backend": "openrlhf",
    "model": {"type": "path", "path": "m"},
    "data": {"train": "t.jsonl"},
    "precision": "bfloat16",
    "steps": 3,
    "out": "runs/x",
}


def _parse(**sections: object) -> TrainConfig:
    return parse_config(BASE | sections)


def test_one_machine_whose_gpus_are_shared_by_all() -> None:
    cluster = _parse().cluster
    assert (cluster.run_gpus, cluster.policy_gpus) == (8, 8)
    assert (cluster.engine_count, cluster.engine_gpus) == (8, 8)
    assert cluster.engines_sleep
    assert cluster.policy_sleeps
    assert (cluster.sync_backend, cluster.attention) == ("nccl", "flash_attention_2")


def test_engines_with_gpus_of_their_own() -> None:
    cluster = ClusterConfig(nodes=2, colocation="models")
    assert (cluster.engine_gpus, cluster.policy_gpus) == (8, 8)
    assert not cluster.engines_sleep
    assert not cluster.policy_sleeps


def test_gpus_for_the_judge_are_not_the_runs() -> None:
    cluster = ClusterConfig(judge_gpus_per_node=4)
    assert (cluster.run_gpus, cluster.policy_gpus, cluster.engine_count) == (4, 4, 4)


def test_a_cpu_takes_what_runs_there() -> None:
    cluster = ClusterConfig(device="cpu")
    assert (cluster.sync_backend, cluster.attention) == ("gloo", "eager")
    assert not cluster.engines_sleep


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"cluster": {"judge_gpus_per_node": 8}},
            r"leaves the run none of .*gpus_per_node=8",
        ),
        (
            {"cluster": {"engines": {"count": 3}}},
            r"3 engines × .* must be on all 8 GPUs",
        ),
        (
            {"cluster": {"colocation": "models", "engines": {"count": 8}}},
            r"leave the policy none of the 8 GPUs",
        ),
        (
            {"cluster": {"judge_gpus_per_node": 1}},
            r"2048 responses .* not divisible by .* 16 × 7 = 112",
        ),
        (
            {"cluster": {"deepspeed": {"forward_micro_batch": 3}}},
            r"forward_micro_batch × GPUs that train = 3 × 8 = 24",
        ),
        (
            {"cluster": {"max_len": 3072}},
            r"max_new_tokens=3072 leaves no room for a prompt",
        ),
        ({"rollout": {"group_size": 1}}, r"rollout\.group_size=1: .* at least 2"),
        (
            {"cluster": {"device": "cpu", "engines": {"sleep": True}}},
            r"cluster\.engines\.sleep=true: nothing to make room for",
        ),
        (
            {"cluster": {"deepspeed": {"packing": True, "attention": "sdpa"}}},
            r"packing needs flash attention, and attention is 'sdpa'",
        ),
        (
            {"cluster": {"deepspeed": {"offload_reference": True}}},
            r"offload_reference needs zero_stage 3",
        ),
        (
            {"cluster": {"deepspeed": {"zero_stage": 0}}},
            r"cluster\.deepspeed\.zero_stage: without ZeRO .*; use 2 or 3, not 0",
        ),
        (
            {"cluster": {"extra_flags": {"--ds.zpg": 8}}},
            r"'--ds\.zpg' must be the flag's name",
        ),
        (
            {"cluster": {"extra_flags": {"ds": {"zpg": None}}}},
            r"'ds\.zpg' must be true, false, a number, a text, or a list of those, not NoneType",
        ),
        (
            {"optim": {"micro_batch": 6}},
            r"6 × 8 = 48; optim\.micro_batch can be 1, 2, 4, 8, 16, 32 and so on",
        ),
        (
            {"cluster": {"judge_gpus_per_node": 5}},
            r"no optim\.micro_batch divides 2048 responses over 3 GPUs: change one of those",
        ),
        ({"device": "cpu"}, r"device='cpu' and cluster\.device='cuda' disagree"),
        (
            {"judge": {"spec": {"type": "listwise", "model": "m", "max_group": 32}}},
            r"type='listwise' needs all responses of a group at once.*backend: local",
        ),
        (
            {
                "judge": {
                    "spec": {
                        "type": "cascade",
                        "decide": "group",
                        "uncertainty": "margin",
                        "judges": [{"type": "lexical"}, {"type": "claims"}],
                    }
                }
            },
            r"decide='group' needs all responses of a group at once.*backend: local",
        ),
        ({"precision": "float32"}, r"flash attention computes in 16 bits"),
        (
            {"optim": {"share_prompts": False, "micro_batch": 1}},
            r"optim\.share_prompts=false is of backend: local",
        ),
        (
            {"cluster": {"ray": {"address": "auto", "dashboard": "http://h:8265"}}},
            r"give one",
        ),
        ({"cluster": {"ray": {"dashboard": "h:8265"}}}, r"must begin with http"),
        ({"cluster": {"engines": {"memory_fraction": 0.5}}}, r"memory_frac"),
    ],
)
def test_what_cannot_run_is_named(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainConfigError, match=message):
        _parse(**sections)


@pytest.mark.parametrize("flags", [{"ds.zpg": 8}, {"ds": {"zpg": 8}}])
def test_a_flag_may_be_nested_as_an_override_nests_it(flags: dict[str, object]) -> None:
    assert _parse(cluster={"extra_flags": flags}).cluster.extra_flags == {"ds.zpg": 8}


def test_the_local_backend_is_not_bound_by_a_cluster() -> None:
    config = parse_config(
        BASE | {"backend": "local", "rollout": {"prompts": 1, "group_size": 4}}
    )
    assert config.problems() == ()


def test_a_run_of_one_process_does_not_speak_of_machines() -> None:
    """Unless they were given, which a reader of the folder should see."""
    local = {**BASE, "backend": "local"}
    assert "cluster" not in dump_config(parse_config(local))
    assert "nodes: 2" in dump_config(parse_config(local | {"cluster": {"nodes": 2}}))
    assert "gpus_per_node: 8" in dump_config(parse_config(BASE))


def test_every_key_is_documented() -> None:
    page = Path(__file__).parents[4] / "docs" / "train" / "openrlhf.md"
    table = page.read_text(encoding="utf-8").partition("## Every key of `cluster:`")[2]
    defaults = ClusterConfig().model_dump()
    keys = {
        f"{name}.{inner}" if inner else name
        for name, value in defaults.items()
        for inner in (value if isinstance(value, dict) and value else ("",))
    }
    assert {key for key in keys if f"`{key}`" not in table} == set()
