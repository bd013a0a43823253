"""The one table between our configuration and the flags of OpenRLHF 0.11.2.

Nothing else knows a flag of `openrlhf.cli.train_ppo_ray`. Every row is made for every
configuration; a value of None or False puts nothing on the command line.
"""

from __future__ import annotations

from itertools import chain
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rubric_train_openrlhf.cluster.command.refusals import check_expressible
from rubric_train_openrlhf.cluster.processes.settings import ClusterPaths
from rubric_train_openrlhf.config import PathModel
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.objective import IcePop, NoImportance, SeqMaskTruncated, Truncated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.config.cluster import FlagValue
    from rubric_train_openrlhf.objective import ImportanceCorrection


class Flag(NamedTuple):
    """One flag of a command."""

    name: str
    """Without dashes."""
    value: FlagValue | None
    """None and False: not on the command line; True: the bare flag."""
    keys: str
    """Our keys that it follows from, with a space between; empty for what is always the same."""
    why: str
    """What a reader of the command should know."""


def grpo_flags(
    config: TrainConfig, *, model: Path | None = None, resume: bool = False
) -> tuple[Flag, ...]:
    """All flags of a run.

    Args:
        config: of `backend: openrlhf`.
        model: folder of the policy that GRPO starts from; by default `model.path`. The warm start
            puts its result here.
        resume: go on from the last state of DeepSpeed.

    Raises:
        TrainConfigError: the configuration asks for what OpenRLHF cannot express, or an extra
            flag is one of this table.
    """
    check_expressible(config)
    # `check_expressible` lets a model by path through only.
    start = model or (config.model.path if isinstance(config.model, PathModel) else Path())
    rows = chain(
        _layout(config),
        _models(config, start),
        _engines(config),
        _deepspeed(config),
        _data(config),
        _sampling(config),
        _updates(config),
        _objective(config),
        _held_out(config),
        _disk(config, resume=resume),
    )
    table = tuple(rows)
    return (*table, *_extra(config, owned={row.name for row in table}))


def command_words(flags: Iterable[Flag]) -> list[str]:
    """Arguments for `python -m openrlhf.cli.train_ppo_ray`."""
    words: list[str] = []
    for flag in flags:
        if flag.value is None or flag.value is False:
            continue
        words.append(f"--{flag.name}")
        if flag.value is not True:
            values = flag.value if isinstance(flag.value, tuple) else (flag.value,)
            words += [str(value) for value in values]
    return words


def _layout(config: TrainConfig) -> Iterator[Flag]:
    cluster = config.cluster
    gpus, nodes = cluster.policy_gpus, cluster.nodes
    # Only the product counts for Ray, which places one GPU at a time.
    per_node = (nodes, gpus // nodes) if gpus % nodes == 0 else (1, gpus)
    keys = "cluster.nodes cluster.gpus_per_node cluster.judge_gpus_per_node"
    for model in ("actor", "ref"):
        yield Flag(f"{model}.num_nodes", per_node[0], keys, "machines that train")
        yield Flag(f"{model}.num_gpus_per_node", per_node[1], keys, "one process for each GPU")
    shares = cluster.colocation == "all"
    key = "cluster.colocation"
    yield Flag("train.colocate_all", shares, key, "policy, reference and engines take turns")
    yield Flag("train.colocate_actor_ref", not shares, key, "the reference waits beside the policy")


def _models(config: TrainConfig, model: Path) -> Iterator[Flag]:
    paths = ClusterPaths(config.out)
    yield Flag("actor.model_name_or_path", str(model), "model.path sft", "the reference too")
    agent = Path(__file__).parent.parent / "sampling" / "agent.py"
    yield Flag("train.agent_func_path", str(agent), "", "judges each response as it is generated")
    yield Flag("ckpt.output_dir", str(paths.last_model), "out", "not used: checkpoints are ours")
    yield Flag("train.seed", config.seed, "seed", "engine i adds i")


def _engines(config: TrainConfig) -> Iterator[Flag]:
    cluster, engines = config.cluster, config.cluster.engines
    yield Flag("vllm.num_engines", cluster.engine_count, "cluster.engines.count", "")
    yield Flag(
        "vllm.tensor_parallel_size",
        engines.tensor_parallel,
        "cluster.engines.tensor_parallel",
        "GPUs of one engine",
    )
    yield Flag(
        "vllm.gpu_memory_utilization",
        engines.memory_frac,
        "cluster.engines.memory_frac",
        "of the whole GPU, whoever else is on it",
    )
    key = "cluster.engines.sleep"
    yield Flag("vllm.enable_sleep", cluster.engines_sleep, key, "room while the policy trains")
    key = "cluster.engines.enforce_eager"
    yield Flag("vllm.enforce_eager", engines.enforce_eager, key, "no CUDA graphs")
    key = "cluster.engines.prefix_caching"
    yield Flag("vllm.enable_prefix_caching", engines.prefix_caching, key, "one prompt, G responses")
    yield Flag(
        "vllm.sync_backend",
        cluster.sync_backend,
        "cluster.device",
        "any name but nccl keeps CUDA's shared memory out",
    )


def _deepspeed(config: TrainConfig) -> Iterator[Flag]:
    cluster, deepspeed = config.cluster, config.cluster.deepspeed
    section = "cluster.deepspeed"
    yield Flag("ds.zero_stage", deepspeed.zero_stage, f"{section}.zero_stage", "")
    offload = deepspeed.offload_optimizer
    yield Flag("ds.adam_offload", offload, f"{section}.offload_optimizer", "steps on CPUs")
    yield Flag("ref.offload", deepspeed.offload_reference, f"{section}.offload_reference", "")
    sleeps = cluster.policy_sleeps
    yield Flag("ds.enable_sleep", sleeps, f"{section}.sleep", "room while engines sample")
    yield Flag("ds.attn_implementation", cluster.attention, f"{section}.attention", "")
    yield Flag("ds.packing_samples", deepspeed.packing, f"{section}.packing", "no padding")
    yield Flag("ds.param_dtype", "bf16", "precision", "float32 is set by our policy actor")
    single = config.precision == "float32" or deepspeed.grad_accumulation == "float32"
    yield Flag(
        "ds.grad_accum_dtype",
        "fp32" if single else "bf16",
        f"{section}.grad_accumulation precision",
        "sums of many small gradients lose their ends in 16 bits",
    )
    yield Flag(
        "actor.gradient_checkpointing_enable",
        config.optim.gradient_checkpointing,
        "optim.gradient_checkpointing",
        "activations are computed again",
    )


def _data(config: TrainConfig) -> Iterator[Flag]:
    paths = ClusterPaths(config.out)
    yield Flag(
        "data.prompt_dataset",
        str(paths.train_prompts),
        "data.train",
        "questions and task ids; passages and rubrics stay with the judge",
    )
    yield Flag("data.input_key", "input", "", "the rendered prompt, no template on top")
    yield Flag("data.label_key", "label", "", "the task id")
    yield Flag("data.max_len", config.cluster.max_len, "cluster.max_len", "prompt and response")


def _sampling(config: TrainConfig) -> Iterator[Flag]:
    rollout = config.rollout
    yield Flag("rollout.batch_size", rollout.prompts, "rollout.prompts", "P")
    yield Flag("rollout.n_samples_per_prompt", rollout.group_size, "rollout.group_size", "G")
    yield Flag("rollout.max_new_tokens", rollout.max_new_tokens, "rollout.max_new_tokens", "")
    key = "rollout.temperature"
    yield Flag("rollout.temperature", rollout.temperature, key, "log-probabilities are at it too")
    yield Flag("rollout.top_p", 1.0, "", "log-probabilities are of the whole distribution")
    yield Flag(
        "rollout.micro_batch_size",
        config.cluster.deepspeed.forward_micro_batch,
        "cluster.deepspeed.forward_micro_batch",
        "per GPU, without gradients",
    )


def _updates(config: TrainConfig) -> Iterator[Flag]:
    optim = config.optim
    share = config.batch_size // optim.updates_per_rollout
    key = "optim.updates_per_rollout"
    yield Flag("train.batch_size", share, key, "P·G / updates per rollout, in responses")
    key = "optim.micro_batch"
    yield Flag("train.micro_batch_size", optim.micro_batch, key, "per GPU, with gradients")
    yield Flag("train.max_epochs", 1, "", "every response is trained on once")
    yield Flag("train.num_episodes", 1, "steps", "our trainer counts steps and orders prompts")
    yield Flag("actor.optim", "adam", "", "AdamW")
    yield Flag("actor.adam.lr", optim.learning_rate, "optim.learning_rate", "")
    yield Flag("actor.adam.betas", optim.betas, "optim.betas", "")
    yield Flag("actor.adam.eps", optim.eps, "optim.eps", "")
    key = "optim.weight_decay"
    yield Flag("actor.adam.weight_decay", optim.weight_decay, key, "of all weights, norms too")
    norm = 0.0 if isinf(optim.max_grad_norm) else optim.max_grad_norm
    yield Flag("actor.max_norm", norm, "optim.max_grad_norm", "0 never clips")
    yield Flag(
        "actor.lr_scheduler",
        "constant",
        "optim.warmup_steps optim.warmup_start_frac",
        "our policy actor warms up per GRPO step, for which there is no flag",
    )


def _objective(config: TrainConfig) -> Iterator[Flag]:
    objective = config.objective
    keys = "objective.clip_low objective.clip_high"
    yield Flag("actor.eps_clip_low_high", (objective.clip_low, objective.clip_high), keys, "")
    yield Flag("actor.dual_clip", objective.dual_clip, "objective.dual_clip", "")
    kind = "ppo" if objective.ratio == "token" else "gspo"
    keys = "objective.ratio objective.surrogate"
    yield Flag("actor.policy_loss_type", kind, keys, "")
    mean = "token-mean" if objective.aggregation == "token" else "seq-mean-token-mean"
    yield Flag("actor.loss_agg_mode", mean, "objective.aggregation", "over the whole update")
    level, mode, band = _correction(objective.importance)
    key = "objective.importance"
    yield Flag("algo.advantage.is_correction_level", level, key, "")
    yield Flag("algo.advantage.is_correction_mode", mode, key, "")
    yield Flag("algo.advantage.is_correction_gating", "ratio", key, "")
    yield Flag("algo.advantage.is_correction_threshold", band, key, "")
    yield Flag("algo.kl.use_loss", value=True, keys="", why="β·KL is in the loss, not the reward")
    yield Flag("algo.kl.estimator", "k3", "", "not read: see `objective.kl`")
    yield Flag("algo.kl.init_coef", objective.kl_coef, "objective.kl_coef", "0: no reference")
    yield Flag(
        "algo.advantage.estimator",
        "rloo",
        "advantage",
        "any that asks for no critic: our experience maker replaces it",
    )


def _correction(importance: ImportanceCorrection) -> tuple[str, str, tuple[float, float]]:
    """Level, mode and band that make their correction equal to ours."""
    match importance:
        case NoImportance():
            return "off", "mask", (0.5, 5.0)
        case Truncated(cap=cap):
            # Their clip also raises small weights, unless the band begins at 0.
            return "token", "clip", (0.0, cap)
        case IcePop(low=low, high=high):
            return "token", "mask", (low, high)
        case SeqMaskTruncated(low=low, high=high):
            return "seq", "mask", (low, high)
        case _:
            # `check_expressible` lets no other through.
            raise TrainConfigError(
                f"objective.importance.type={importance.type!r} is not OpenRLHF's",
                location="objective.importance.type",
            )


def _held_out(config: TrainConfig) -> Iterator[Flag]:
    given, validation = config.data.validation is not None, config.validation
    dataset = str(ClusterPaths(config.out).heldout_prompts) if given else None
    yield Flag("eval.dataset", dataset, "data.validation validation.questions", "")
    every = validation.every if given else -1
    yield Flag("eval.steps", every, "validation.every", "and before the first and after the last")
    yield Flag("eval.n_samples_per_prompt", validation.samples, "validation.samples", "")
    yield Flag("eval.temperature", validation.temperature, "validation.temperature", "")


def _disk(config: TrainConfig, *, resume: bool) -> Iterator[Flag]:
    paths, checkpoint = ClusterPaths(config.out), config.checkpoint
    yield Flag("ckpt.path", str(paths.trainer_state), "out", "DeepSpeed's state")
    yield Flag("ckpt.save_steps", checkpoint.every, "checkpoint.every", "")
    yield Flag("ckpt.best_metric_key", "none", "", "the best checkpoint is ours to find")
    yield Flag("ckpt.load_enable", resume, "", "--resume")
    yield Flag("logger.tensorboard_dir", str(config.out / "tensorboard"), "out", "")


def _extra(config: TrainConfig, *, owned: set[str]) -> Iterator[Flag]:
    for name, value in config.cluster.extra_flags.items():
        location = f"cluster.extra_flags.{name}"
        # Their parser also takes the beginning of a name for the whole of it.
        if any(known.startswith(name) for known in owned):
            message = f"{location}: OpenRLHF's --{name} follows from other keys; set those instead"
            raise TrainConfigError(message, location=location)
        if reason := _reason_against(name):
            message = f"{location}: OpenRLHF's --{name} is not passed on: {reason}"
            raise TrainConfigError(message, location=location)
        yield Flag(name, value, location, "as you say")


def _reason_against(name: str) -> str | None:
    groups = [
        group for group in NOT_PASSED_ON if name.startswith(f"{group}.") or group.startswith(name)
    ]
    return NOT_PASSED_ON[max(groups, key=len)] if groups else None


_NO_CRITIC = "group-relative advantages need no critic and no reward model"
_SHAPED = "penalties are on the judge's side, see `shaping`"
_FILTERED = "groups are dropped by their spread and not their mean, see `dynamic_sampling`"
_ASYNC = (
    "its trainer is another class than the one that is extended here, without exact advantages, "
    "held-out passes and resume"
)
_PARTIAL = "one response would be sampled by the policies of several steps, and its group with it"
_LAID_OUT = "an update's share of a GPU is worked out for whole data-parallel copies"
_ADAPTERS = "OpenRLHF 0.11.2 sends adapters to its engines under names that these do not know"
_TEXT = "tasks are text"
_PRUNED = "a state is deleted only after a later one is whole, see `checkpoint.keep`"
NOT_PASSED_ON = {
    "actor.entropy_coef": "the objective has no entropy term",
    "actor.eps_clip": "both ends are set, see `objective.clip_low` and `objective.clip_high`",
    "actor.freeze_visual_encoder": _TEXT,
    "actor.lr_warmup_ratio": "the warm-up counts GRPO steps, see `optim.warmup_steps`",
    "actor.min_lr_ratio": "the learning rate stays constant after its warm-up",
    "actor.muon": "the optimiser is AdamW",
    "algo.advantage.gamma": "a response has one reward",
    "algo.advantage.lambd": _NO_CRITIC,
    "algo.advantage.no_std_norm": "see `advantage.std`",
    "algo.dynamic_filtering_enable": _FILTERED,
    "algo.dynamic_filtering_range": _FILTERED,
    "algo.kl.horizon": "β is constant",
    "algo.kl.target": "β is constant",
    "algo.kl.unbiased_gradient": "its gradient is that of another divergence than the paper's",
    "ckpt.disable_ds": "a run could not be resumed",
    "ckpt.max_mem": _PRUNED,
    "ckpt.max_num": _PRUNED,
    "ckpt.save_hf": "checkpoints are written in Hugging Face format anyhow",
    "critic": _NO_CRITIC,
    "data.apply_chat_template": "prompts are rendered already",
    "data.image_key": _TEXT,
    "data.input_template": "prompts are rendered already",
    "data.max_images_per_prompt": _TEXT,
    "data.max_samples": "see `data.train`",
    "data.prompt_probs": "see `data.train`",
    "data.prompt_split": "see `data.train`",
    "ds.load_in_4bit": _ADAPTERS,
    "ds.lora": _ADAPTERS,
    "ds.ring_attn_head_stride": _LAID_OUT,
    "ds.ring_attn_size": _LAID_OUT,
    "ds.tensor_parallel_size": _LAID_OUT,
    "eval.split": "see `data.validation`",
    "local_rank": "Ray places the processes",
    "logger.wandb": "a key would stand in files and on a command line; TensorBoard has all figures",
    "reward": _NO_CRITIC,
    "reward.overlong_buffer_len": _SHAPED,
    "reward.overlong_penalty_factor": _SHAPED,
    "reward.stop_properly_penalty_coef": _SHAPED,
    "rollout.max_tokens_per_gpu": _LAID_OUT,
    "rollout.vllm_generate_batch_size": _ASYNC,
    "train.async_enable": _ASYNC,
    "train.async_queue_size": _ASYNC,
    "train.colocate_critic_reward": _NO_CRITIC,
    "train.dynamic_batch_enable": _LAID_OUT,
    "train.ema_beta": "the trained weights themselves are saved and evaluated",
    "train.enable_ema": "the trained weights themselves are saved and evaluated",
    "train.max_tokens_per_gpu": _LAID_OUT,
    "train.partial_rollout_enable": _PARTIAL,
    "vllm.sync_with_ray": "weights go by NCCL, or by gloo on a CPU",
}
"""Flags, or groups of flags, that are left at their defaults, and why."""
