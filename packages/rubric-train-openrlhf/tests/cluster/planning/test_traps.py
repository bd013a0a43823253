"""What runs, but seldom as meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.cluster.planning.plan import traps

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_train_openrlhf.config.train import TrainConfig

QUIET: dict[str, Any] = {"steps": 100}


def _own_judge(*bases: str) -> dict[str, Any]:
    spec = {"type": "llm", "model": "openai/gpt-oss-20b", "transport": "direct"}
    return {"spec": spec | {"api_base": list(bases)}}


def test_a_usual_run_has_none(make_config: Callable[..., TrainConfig]) -> None:
    assert traps(make_config(**QUIET)) == ()


@pytest.mark.parametrize(
    ("sections", "beginning"),
    [
        (
            {"optim": {"updates_per_rollout": 1}, "objective": {"dual_clip": 3.0}},
            "optim.updates_per_rollout=1",
        ),
        ({"steps": 13}, "optim.warmup_steps=13"),
        (
            {"objective": {"ratio": "sequence", "aggregation": "sequence"}},
            "objective.clip_high=0.2",
        ),
        (
            {"precision": "float32", "cluster": {"deepspeed": {"attention": "sdpa"}}},
            "precision='float32'",
        ),
        (
            {
                "optim": {"micro_batch": 1},
                "cluster": {"deepspeed": {"grad_accumulation": "bfloat16"}},
            },
            "cluster.deepspeed.grad_accumulation",
        ),
        ({"data": {"train": "t.jsonl"}}, "data.validation is not set"),
        ({"checkpoint": {"every": 101}}, "checkpoint.every=101"),
        ({"cluster": {"ray": {"dashboard": "http://head:8265"}}}, "out: "),
        (
            {
                "rollout": {"prompts": 64, "micro_batch": 2},
            },
            "rollout.micro_batch has no effect",
        ),
        (
            {
                "cluster": {
                    "judge_gpus_per_node": 4,
                    "deepspeed": {"forward_micro_batch": 4},
                }
            },
            "cluster.judge_gpus_per_node=4 stay unused",
        ),
        (
            {
                "cluster": {
                    "nodes": 2,
                    "gpus_per_node": 4,
                    "engines": {"tensor_parallel": 8},
                    "ray": {"address": "auto"},
                },
                "out": "/shared/x",
                "data": {"train": "/shared/t.jsonl", "validation": "/shared/v.jsonl"},
                "model": {"type": "path", "path": "/shared/m"},
            },
            "cluster.engines.tensor_parallel=8 is more than the 4 GPUs of a machine",
        ),
        (
            {
                "cluster": {"nodes": 2, "deepspeed": {"forward_micro_batch": 4}},
                "out": "/shared/x",
                "data": {"train": "/shared/t.jsonl", "validation": "/shared/v.jsonl"},
                "model": {"type": "path", "path": "/shared/m"},
            },
            "cluster.nodes=2 with neither cluster.ray.address nor cluster.ray.dashboard",
        ),
        (
            {
                "judge": _own_judge("http://a:8000/v1", "http://a:8001/v1"),
                "cluster": {"judge_gpus_per_node": 4},
            },
            "judge.spec.api_base names 2 servers for 4 GPUs",
        ),
    ],
)
def test_trap(
    make_config: Callable[..., TrainConfig], sections: dict[str, Any], beginning: str
) -> None:
    found = traps(make_config(**(QUIET | sections)))
    assert [trap for trap in found if trap.startswith(beginning)] == list(found)
    assert len(found) == 1


def test_a_judge_on_this_machine_is_another_one_on_each(
    make_config: Callable[..., TrainConfig],
) -> None:
    sections = {
        "judge": _own_judge("http://127.0.0.1:8000/v1"),
        "cluster": {"nodes": 2, "deepspeed": {"forward_micro_batch": 4}},
    }
    found = traps(make_config(**(QUIET | sections)))
    assert any(
        trap.startswith("judge.spec.api_base=http://127.0.0.1:8000/v1")
        for trap in found
    )
