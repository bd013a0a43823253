"""Settings that run, but seldom do what was meant; each warning begins with its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_judge.config import HybridConfig, JudgeConfig
from rubric_train_openrlhf.cluster.command.refusals import changed_local_keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rubric_train_openrlhf.config import TrainConfig

_WIDE_FOR_SEQUENCES = 0.02
"""Clips of GSPO are near 3e-4: a geometric mean over a response hardly leaves 1."""
_MANY_PASSES = 8
"""Sums of more gradients than so many lose bits that 8 bits of mantissa do not have."""
_HERE = ("//localhost", "//127.", "//[::1]")


def traps(config: TrainConfig) -> tuple[str, ...]:
    """Warnings about a configuration that is otherwise in order."""
    return (
        *_update_traps(config),
        *_number_traps(config),
        *_folder_traps(config),
        *_place_traps(config),
        *(f"{key} has no effect here: {why}" for key, why in changed_local_keys(config)),
    )


def _update_traps(config: TrainConfig) -> Iterator[str]:
    objective, optim = config.objective, config.optim
    if optim.updates_per_rollout == 1:
        yield (
            "optim.updates_per_rollout=1: the one update is made at the weights that sampled, so "
            "the ratio is always about 1 and neither objective.clip_low nor objective.dual_clip "
            "ever acts; the paper's figures match 4"
        )
    if config.steps <= optim.warmup_steps:
        yield (
            f"optim.warmup_steps={optim.warmup_steps} and steps={config.steps}: the run ends "
            "before the learning rate is reached"
        )
    widest = max(objective.clip_low, objective.clip_high)
    if objective.ratio == "sequence" and widest > _WIDE_FOR_SEQUENCES:
        yield (
            f"objective.clip_high={objective.clip_high} with ratio='sequence': the ratio is a mean "
            "over the response and hardly leaves 1, so this never acts; GSPO uses about 3e-4"
        )


def _number_traps(config: TrainConfig) -> Iterator[str]:
    cluster = config.cluster
    if config.precision == "float32" and cluster.device == "cuda":
        yield (
            "precision='float32' on GPUs: twice the memory and a fraction of the speed; runs of "
            "this backend are made for bfloat16, whose master weights are float32 anyway"
        )
    share = config.batch_size // config.optim.updates_per_rollout
    passes = share // (config.optim.micro_batch * cluster.policy_gpus)
    if cluster.deepspeed.grad_accumulation == "bfloat16" and passes > _MANY_PASSES:
        yield (
            f"cluster.deepspeed.grad_accumulation='bfloat16' adds up the gradients of {passes} "
            "passes with 8 bits each; use float32"
        )


def _folder_traps(config: TrainConfig) -> Iterator[str]:
    if config.data.validation is None:
        yield "data.validation is not set: without held-out reward the last checkpoint is the best"
    if config.checkpoint.every > config.steps:
        yield (
            f"checkpoint.every={config.checkpoint.every} is more than steps={config.steps}: a run "
            "that is killed has nothing to go on from"
        )
    elsewhere = config.cluster.nodes > 1 or config.cluster.ray.dashboard is not None
    relative = [str(path) for path in _paths(config) if not path.is_absolute()]
    if elsewhere and relative:
        yield (
            f"out: with several machines, or handed in with cluster.ray.dashboard, paths must be "
            f"on a file system that all share; these are relative: {', '.join(sorted(relative))}"
        )


def _paths(config: TrainConfig) -> Iterator[Path]:
    yield config.out
    yield config.data.train
    if config.data.validation is not None:
        yield config.data.validation
    if config.model.type == "path":
        yield config.model.path


def _place_traps(config: TrainConfig) -> Iterator[str]:
    cluster, spec = config.cluster, config.judge.spec
    judge = spec.judge if isinstance(spec, HybridConfig) else spec
    bases = judge.api_base if isinstance(judge, JudgeConfig) else None
    addresses = [bases] if isinstance(bases, str) else list(bases or ())
    here = [address for address in addresses if any(name in address for name in _HERE)]
    if here and cluster.nodes > 1:
        yield (
            f"judge.spec.api_base={here[0]}: judge actors run on every one of {cluster.nodes} "
            "machines, and this address is another server on each; give the judge's machine by name"
        )
    parallel, here_gpus = cluster.engines.tensor_parallel, cluster.run_gpus // cluster.nodes
    if parallel > here_gpus:
        yield (
            f"cluster.engines.tensor_parallel={parallel} is more than the {here_gpus} GPUs of a "
            "machine: every token of every response crosses the network several times"
        )
    if cluster.nodes > 1 and cluster.ray.address is None and cluster.ray.dashboard is None:
        yield (
            f"cluster.nodes={cluster.nodes} with neither cluster.ray.address nor "
            "cluster.ray.dashboard: a run starts Ray on its own machine alone, and ends at once"
        )
    if cluster.judge_gpus_per_node and not addresses:
        yield (
            f"cluster.judge_gpus_per_node={cluster.judge_gpus_per_node} stay unused: "
            f"judge.spec.type={spec.type!r} has no server of yours (judge.spec.api_base)"
        )
    servers = cluster.judge_gpus_per_node * cluster.nodes
    if addresses and servers > len(addresses):
        yield (
            f"judge.spec.api_base names {len(addresses)} servers for {servers} GPUs that are kept "
            "for the judge; one server per GPU, each with an address of its own, keeps a group's "
            "calls where their prefix is"
        )
