"""What OpenRLHF 0.11.2 cannot do of what a configuration asks, and keys that set no flag."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rubric_train_openrlhf.config import PathModel, RolloutConfig
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.objective import (
    Clipped,
    IcePop,
    NoImportance,
    SeqMaskTruncated,
    Truncated,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_train_openrlhf.config import TrainConfig


_SEEDS = 2**32
"""numpy and vLLM take seeds below it."""


_THEIRS = (NoImportance, Truncated, IcePop, SeqMaskTruncated)
"""Corrections that OpenRLHF's loss has too."""


class _Refusal(NamedTuple):
    key: str
    message: str
    """Its value, what is wrong with it here, and what to do."""


def check_expressible(config: TrainConfig) -> None:
    """Refuse what would be done in another way than it is written.

    Raises:
        TrainConfigError: names every such key, and what to do.
    """
    problems = [
        *_start_problems(config),
        *_deepspeed_problems(config),
        *_objective_problems(config),
    ]
    if problems:
        text = "; ".join(f"{problem.key}{problem.message}" for problem in problems)
        raise TrainConfigError(f"backend 'openrlhf': {text}", location=problems[0].key)


def _start_problems(config: TrainConfig) -> Iterator[_Refusal]:
    if not isinstance(config.model, PathModel):
        yield _Refusal(
            "model.type",
            "='tiny' is built by the local backend, for prompts that vLLM cannot read; give type: "
            "path and a folder in Hugging Face format",
        )
    last = _SEEDS - config.cluster.engine_count
    if config.seed > last:
        yield _Refusal("seed", f"={config.seed} must be at most {last}: engine i takes seed + i")


def _deepspeed_problems(config: TrainConfig) -> Iterator[_Refusal]:
    deepspeed = config.cluster.deepspeed
    sums = config.precision == "bfloat16" and deepspeed.grad_accumulation == "float32"
    if deepspeed.zero_stage == 1 and sums and not deepspeed.offload_optimizer:
        yield _Refusal(
            "cluster.deepspeed.zero_stage",
            "=1 in bfloat16 with grad_accumulation='float32' is another optimiser of DeepSpeed's, "
            "which ends the run at a gradient of zero, as of an update whose groups are all tied, "
            "and cannot move its state aside; use 2, which splits no less",
        )


def _objective_problems(config: TrainConfig) -> Iterator[_Refusal]:
    objective, importance = config.objective, config.objective.importance
    # A subclass is another formula, though an instance of the one that it is made of.
    if type(objective.surrogate) is not Clipped:
        yield _Refusal(
            "objective.surrogate.type",
            f"={objective.surrogate.type!r}: the loss here is OpenRLHF's own PolicyLoss, which has "
            "the clipped surrogate alone; use type='clipped', or backend: local",
        )
    if type(importance) not in _THEIRS:
        yield _Refusal(
            "objective.importance.type",
            f"={importance.type!r}: the corrections here are OpenRLHF's own; use type='none', "
            "'tis', 'icepop' or 'seq_mask_tis', or backend: local",
        )
    if isinstance(importance, Truncated | IcePop) and importance.level == "sequence":
        yield _Refusal(
            "objective.importance.level",
            "='sequence' weighs by the product over a response, and OpenRLHF has weights per token "
            "only; use level='token' or type='seq_mask_tis'",
        )
    if objective.ratio == "sequence" and importance.type != "none":
        yield _Refusal(
            "objective.importance.type",
            f"={importance.type!r} with ratio='sequence': OpenRLHF's GSPO then drops the "
            "correction and divides by the sampler's probabilities; use type='none'",
        )
    if objective.ratio == "sequence" and objective.aggregation == "token":
        yield _Refusal(
            "objective.aggregation",
            "='token' with ratio='sequence': OpenRLHF averages GSPO over responses always; use "
            "aggregation='sequence'",
        )


OURS = {
    "backend": "chooses this backend",
    "model": "a folder; `tiny` is refused",
    "data.leak_ngram": "checked before anything starts",
    "judge": "the judge's desk, a Ray actor: pool, retries, limits and ledger as everywhere",
    "advantage": "the judge's desk, in float64",
    "shaping": "the judge's desk, on the judge's reward",
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
    "steps": "our trainer's loop",
    "threads": "OMP_NUM_THREADS of the workers",
    "device": "must agree with cluster.device",
}
"""Keys, or sections of keys, that our own code follows."""

LOCAL_ONLY = {
    "rollout.micro_batch": "engines take all prompts at once",
}
"""Keys that mean something to the local backend only."""


def changed_local_keys(config: TrainConfig) -> Iterator[tuple[str, str]]:
    """Keys that have no effect here although they differ from their default, and why not."""
    if config.rollout.micro_batch != RolloutConfig().micro_batch:
        yield "rollout.micro_batch", LOCAL_ONLY["rollout.micro_batch"]
