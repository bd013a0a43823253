from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rubric_judge import LexicalConfig
from rubric_train_openrlhf.cluster.command.flags import command_words, grpo_flags
from rubric_train_openrlhf.cluster.rehearse.stage import rehearsal_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_train_openrlhf.config.train import TrainConfig


def small_of(config: TrainConfig) -> TrainConfig:
    return rehearsal_config(
        config, Path("rehearsal"), spec=LexicalConfig(), longest_prompt=70
    )


VARIANTS: dict[str, dict[str, Any]] = {
    "main": {},
    "gspo": {
        "objective": {"ratio": "sequence", "aggregation": "sequence", "clip_low": 3e-4}
    },
    "tis": {"objective": {"importance": {"type": "tis", "cap": 2.0}}},
    "icepop": {"objective": {"importance": {"type": "icepop"}}},
    "seq-mask-tis": {"objective": {"importance": {"type": "seq_mask_tis"}}},
    "dual clip": {"objective": {"dual_clip": 3.0}},
    "dynamic sampling": {"dynamic_sampling": {}},
    "penalties": {
        "shaping": {"length_penalty": {"buffer_tokens": 500}, "alpha_stop": 0.5}
    },
    "no reference": {"objective": {"kl_coef": 0.0}},
    "decoupled": {"advantage": {"estimator": "decoupled"}},
    "own GPUs": {"cluster": {"colocation": "models", "gpus_per_node": 8}},
    "warm start": {
        "sft": {"steps": 100, "learning_rate": 1e-5},
        "cluster": {"warm_start": {"lora": {"rank": 64}}},
    },
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_stays_itself(
    make_config: Callable[..., TrainConfig], name: str
) -> None:
    config = make_config(**VARIANTS[name])
    small = small_of(config)
    assert small.objective == config.objective
    assert small.advantage == config.advantage
    assert small.dynamic_sampling == config.dynamic_sampling
    assert small.shaping.alpha_stop == config.shaping.alpha_stop
    assert (small.shaping.length_penalty is None) == (
        config.shaping.length_penalty is None
    )
    assert small.optim.updates_per_rollout == config.optim.updates_per_rollout
    assert small.precision == config.precision
    assert small.cluster.colocation == config.cluster.colocation
    assert small.cluster.deepspeed.zero_stage == config.cluster.deepspeed.zero_stage
    assert (small.sft is None) == (config.sft is None)
    assert small.steps == 2
    assert small.cluster.device == "cpu"
    assert command_words(grpo_flags(small))


@pytest.mark.parametrize("updates", [1, 2, 3, 4, 5, 6, 8, 32])
def test_any_number_of_updates_divides(
    make_config: Callable[..., TrainConfig], updates: int
) -> None:
    batch = {"prompts": 30 * updates, "group_size": 16, "max_new_tokens": 64}
    optim = {"updates_per_rollout": updates, "micro_batch": 1}
    cluster = {"gpus_per_node": 1, "deepspeed": {"forward_micro_batch": 1}}
    config = make_config(rollout=batch, optim=optim, cluster=cluster)
    small = small_of(config)
    assert small.optim.updates_per_rollout == min(updates, 8)
    assert small.batch_size <= 40
    assert small.cluster.max_len == 70 + small.rollout.max_new_tokens


def test_a_rehearsal_is_shown_in_no_tracker(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(trackers=[{"type": "wandb"}])

    assert small_of(config).trackers == ()
