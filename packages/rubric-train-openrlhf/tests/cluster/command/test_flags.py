"""Our configuration as flags of OpenRLHF."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from pydantic import BaseModel

from rubric_train_openrlhf.cluster.command.flags import (
    NOT_PASSED_ON,
    NOTES,
    Flag,
    command_words,
    grpo_flags,
    warm_start_flags,
)
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OURS = {
    "backend": "chooses this backend",
    "model": "a folder; `tiny` is refused",
    "data.leak_ngram": "checked before anything starts",
    "judge": "the judge coordinator, a Ray actor: pool, retries, limits and ledger as everywhere",
    "audit": "the judge coordinator, beside the judge",
    "monitors": "the judge coordinator",
    "checkpoint.best_by": "our held-out passes",
    "advantage": "the judge coordinator, in float64",
    "rubric_weights": "the judge coordinator",
    "shaping": "the judge coordinator, on the judge's reward",
    "dynamic_sampling": "our sampler drops groups by their spread",
    "objective.kl": "our policy actor's divergence",
    "objective.kl_input_clamp": "our policy actor's divergence",
    "objective.kl_output_clamp": "our policy actor's divergence",
    "optim.warmup_steps": "our policy actor's schedule",
    "optim.warmup_start_frac": "our policy actor's schedule",
    "sft": "OpenRLHF's supervised trainer, before step 1",
    "cluster.warm_start": "OpenRLHF's supervised trainer, before step 1",
    "cluster.engines.max_sequences": "our rollout actor: OpenRLHF leaves it at vLLM's 128",
    "cluster.engines.seeded": "our sampler",
    "cluster.engines.restarts": "our rollout actor",
    "cluster.ray": "the launcher",
    "cluster.extra_flags": "put behind the table's flags, which they may not touch",
    "checkpoint.keep": "our trainer: OpenRLHF deletes a state before the next one is whole",
    "checkpoint.dtype": "our policy actor, when it has saved a policy",
    "trackers": "processes beside the driver, which read the run folder",
    "steps": "our trainer's loop",
    "on_mismatch": "our trainer, in the first step of a process",
    "model.prompt_date": "the driver, which writes the prompts",
    "threads": "OMP_NUM_THREADS of the workers",
    "device": "must agree with cluster.device",
}
"""Keys, or sections of keys, that our own code follows."""

LOCAL_ONLY = {
    "rollout.micro_batch": "engines take all prompts at once",
    "method": "self-distillation is refused: passage and rubric would be in the policy's process",
    "optim.share_prompts": "OpenRLHF's own forward pass reads each row whole",
}
"""Keys that mean something to the local backend only."""


def _values(
    config: TrainConfig, *, model: Path | None = None, resume: bool = False
) -> dict[str, object]:
    return {
        flag.name: flag.value for flag in grpo_flags(config, model=model, resume=resume)
    }


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted names of all fields, those of every variant too."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        nested = list(_models_in(field.annotation))
        yield path
        for inner in nested:
            yield from _leaves(inner, f"{path}.")


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _is_said(path: str, said: set[str]) -> bool:
    """Whether the key or a section around it is named."""
    parts = path.split(".")
    return any(".".join(parts[:end]) in said for end in range(1, len(parts) + 1))


def test_no_key_is_dropped_in_silence(make_config: Callable[..., TrainConfig]) -> None:
    """Each is a flag, ours, or said to have no effect."""
    mapped = {key for flag in grpo_flags(make_config()) for key in flag.keys.split()}
    said = mapped | set(OURS) | set(LOCAL_ONLY)
    paths = set(_leaves(TrainConfig))
    sections = {
        path for path in paths if any(other.startswith(f"{path}.") for other in paths)
    }

    assert [path for path in sorted(paths - sections) if not _is_said(path, said)] == []
    # No name here is of a key that is no more.
    assert said - paths == set()


def test_every_flag_of_the_table_has_a_value(
    make_config: Callable[..., TrainConfig],
) -> None:
    """One that no key gives is None on purpose: it is not on the command line."""
    lora = {"warm_start": {"lora": {"targets": ["q_proj"]}}}
    config = make_config(
        sft={"steps": 10, "batch_size": 64, "learning_rate": 1e-5}, cluster=lora
    )
    assert [flag.name for flag in grpo_flags(config)] == list(NOTES["grpo"])
    supervised = warm_start_flags(config, model=Path("model"))
    assert [flag.name for flag in supervised] == list(NOTES["sft"])
    absent = [
        flag.name for flag in (*grpo_flags(config), *supervised) if flag.value is None
    ]
    assert absent == ["actor.dual_clip"]


def test_the_main_run_is_the_papers(make_config: Callable[..., TrainConfig]) -> None:
    values = _values(make_config())

    assert values["rollout.batch_size"] == 64
    assert values["rollout.n_samples_per_prompt"] == 32
    assert values["train.batch_size"] == 2048  # one update of all responses
    assert values["actor.adam.lr"] == 3e-7
    assert values["actor.adam.betas"] == (0.9, 0.999)
    assert values["actor.adam.weight_decay"] == 0.01
    assert values["actor.max_norm"] == 1.0
    assert values["actor.eps_clip_low_high"] == (0.2, 0.2)
    assert values["algo.kl.use_loss"] is True
    assert values["algo.kl.init_coef"] == 0.01
    assert values["algo.kl.estimator"] == "k3"
    assert values["algo.advantage.is_correction_level"] == "off"
    assert values["actor.loss_agg_mode"] == "token-mean"


@pytest.mark.parametrize(
    ("importance", "expected"),
    [
        ({"type": "tis", "cap": 2.0}, ("token", "clip", (0.0, 2.0))),
        ({"type": "tis", "cap": math.inf}, ("token", "clip", (0.0, math.inf))),
        ({"type": "icepop", "low": 0.4, "high": 6.0}, ("token", "mask", (0.4, 6.0))),
        ({"type": "seq_mask_tis"}, ("seq", "mask", (0.999, 1.002))),
    ],
)
def test_corrections(
    make_config: Callable[..., TrainConfig],
    importance: dict[str, Any],
    expected: tuple[object],
) -> None:
    values = _values(make_config(objective={"importance": importance}))
    names = ("is_correction_level", "is_correction_mode", "is_correction_threshold")
    assert tuple(values[f"algo.advantage.{name}"] for name in names) == expected


def test_gspo_and_dual_clip(make_config: Callable[..., TrainConfig]) -> None:
    objective = {"ratio": "sequence", "aggregation": "sequence", "dual_clip": 3.0}
    values = _values(make_config(objective=objective))
    assert values["actor.policy_loss_type"] == "gspo"
    assert values["actor.loss_agg_mode"] == "seq-mean-token-mean"
    assert values["actor.dual_clip"] == 3.0


def test_penalties_and_sampling_by_spread_are_ours(
    make_config: Callable[..., TrainConfig],
) -> None:
    """OpenRLHF's own stay off: they would act twice, or on a mean."""
    shaping = {"length_penalty": {"buffer_tokens": 64}, "alpha_stop": 0.5}
    config = make_config(shaping=shaping, dynamic_sampling={})
    words = " ".join(command_words(grpo_flags(config)))
    assert "overlong" not in words
    assert "stop_properly" not in words
    assert "dynamic_filtering" not in words


def test_words_of_a_command() -> None:
    flags = [
        Flag("a.off", value=False, keys="", why=""),
        Flag("a.none", None, "", ""),
        Flag("a.on", value=True, keys="", why=""),
        Flag("a.pair", (0.9, 0.999), "", ""),
        Flag("a.rate", 3e-7, "", ""),
    ]
    assert command_words(flags) == [
        "--a.on",
        "--a.pair",
        "0.9",
        "0.999",
        "--a.rate",
        "3e-07",
    ]


def test_layout_of_two_nodes_with_engines_of_their_own(
    make_config: Callable[..., TrainConfig],
) -> None:
    cluster = {
        "nodes": 2,
        "colocation": "models",
        "engines": {"tensor_parallel": 2},
        "deepspeed": {"zero_stage": 3},
    }
    values = _values(make_config(cluster=cluster))
    assert (values["actor.num_nodes"], values["actor.num_gpus_per_node"]) == (2, 4)
    assert (values["vllm.num_engines"], values["vllm.tensor_parallel_size"]) == (4, 2)
    assert values["train.colocate_all"] is False
    assert values["train.colocate_actor_ref"] is True
    # Nobody steps aside for a neighbour that is not there.
    assert values["vllm.enable_sleep"] is False
    assert values["ds.enable_sleep"] is False


def test_a_cpu_needs_other_settings(make_config: Callable[..., TrainConfig]) -> None:
    values = _values(make_config(cluster={"device": "cpu"}))
    assert values["ds.attn_implementation"] == "eager"
    assert values["vllm.sync_backend"] == "gloo"
    assert values["vllm.enable_sleep"] is False


def test_warm_start_and_resume_change_the_command(
    make_config: Callable[..., TrainConfig],
) -> None:
    values = _values(make_config(), model=Path("warm"), resume=True)
    assert values["actor.model_name_or_path"] == "warm"
    assert values["ckpt.load_enable"] is True


def test_no_held_out_tasks_no_held_out_pass(
    make_config: Callable[..., TrainConfig],
) -> None:
    values = _values(make_config(data={"train": "t.jsonl"}))
    assert (values["eval.dataset"], values["eval.steps"]) == (None, -1)


def test_a_norm_that_never_clips(make_config: Callable[..., TrainConfig]) -> None:
    """DeepSpeed takes 0 for it, and infinity for a number to divide by."""
    assert (
        _values(make_config(optim={"max_grad_norm": math.inf}))["actor.max_norm"] == 0.0
    )


def test_further_flags_go_behind_the_table(
    make_config: Callable[..., TrainConfig],
) -> None:
    extra = {"ds.overlap_comm": True, "ds.zpg": 8}
    config = make_config(cluster={"extra_flags": extra})
    assert command_words(grpo_flags(config))[-3:] == [
        "--ds.overlap_comm",
        "--ds.zpg",
        "8",
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ds.zero_stage", "follows from other keys"),
        (
            "ds.zero",
            "follows from other keys",
        ),  # their parser would take it for the whole
        ("critic.adam", "no critic"),
        ("train.async_enable", "another class"),
        ("reward.overlong_buffer_len", "shaping"),
        ("critic.adam.lr", "no critic"),
        ("logger.tensorboard_dir", "of the run folder"),
        # Our trainer knows no other case than that these are not there.
        ("logger.wandb.key", "give `trackers` with `type: wandb`"),
        ("actor.entropy_coef", "no entropy term"),
        ("train.dynamic_batch_enable", "worked out for whole data-parallel copies"),
        ("train.dyn", "worked out for whole data-parallel copies"),
        ("ds.ring_attn_size", "worked out for whole data-parallel copies"),
        ("ckpt.max_num", "only after a later one is whole"),
        ("ckpt.max_mem", "only after a later one is whole"),
        ("ds.tensor_parallel_size", "worked out for whole data-parallel copies"),
    ],
)
def test_flags_that_are_not_passed_on(
    make_config: Callable[..., TrainConfig], name: str, reason: str
) -> None:
    config = make_config(cluster={"extra_flags": {name: 1}})
    with pytest.raises(
        TrainConfigError, match=rf"extra_flags\.{name}.*{reason}"
    ) as caught:
        grpo_flags(config)
    assert caught.value.location == f"cluster.extra_flags.{name}"


def test_every_reason_is_a_sentence() -> None:
    assert all(reason and not reason.endswith(".") for reason in NOT_PASSED_ON.values())
