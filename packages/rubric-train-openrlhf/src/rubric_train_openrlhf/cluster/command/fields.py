"""What becomes of each key that no flag follows from: none may be dropped in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_train_openrlhf.config import RolloutConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_train_openrlhf.config import TrainConfig

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
