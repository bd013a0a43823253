"""GRPO with SkyRL, rewarded by rubrics: writes the rows, registers the environment, trains.

    python examples/adapters/with_skyrl.py trainer.policy.model.path=Qwen/Qwen3-8B \
        trainer.placement.policy_num_gpus_per_node=8 generator.inference_engine.num_engines=8

The working folder holds `dataset/train.jsonl` and `judge.yaml`. What stands after the name of this
file is handed to SkyRL, and wins over what is set here. Checkpoints are in
`runs/skyrl/checkpoints`, one for each pass over the tasks, and the policy in Hugging Face's format
in `runs/skyrl/exports`.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import skyrl_gym
from datasets import Dataset

from rubric_core import read_tasks
from rubric_judge.adapters import skyrl_advantages

TASKS = Path("dataset/train.jsonl").absolute()
JUDGE = Path("judge.yaml").absolute()
ROWS = Path("skyrl_rows.parquet").absolute()


LARGEST_BATCH = 64


def write_rows() -> int:
    """Write what the policy is asked; the id is the truth by which the judge finds the rubric.

    Returns how many rows there are.
    """
    views = [task.policy_view() for task in read_tasks(TASKS)]
    rows = [
        {
            "prompt": [{"role": "user", "content": view.message}],
            "env_class": "rubric",
            "reward_spec": {"method": "rubric", "ground_truth": view.task_id},
        }
        for view in views
    ]
    Dataset.from_list(rows).to_parquet(ROWS)
    return len(rows)


def register() -> None:
    """Make the environment known by its name; in each process that makes one."""
    skyrl_gym.register(
        id="rubric",
        entry_point="rubric_judge.adapters.skyrl:RubricEnv",
        kwargs={"judge": str(JUDGE), "tasks": str(TASKS), "log_judgements": True},
    )


def settings(count: int) -> list[str]:
    """Return the settings that make SkyRL's configuration one for these rows."""
    batch = min(LARGEST_BATCH, count)  # SkyRL drops what is less than a batch
    return [
        f"data.train_data=['{ROWS}']",
        f"trainer.train_batch_size={batch}",
        f"trainer.policy_mini_batch_size={batch}",
        "trainer.epochs=2",
        f"trainer.ckpt_interval={count // batch}",
        f"trainer.hf_save_interval={count // batch}",
        f"trainer.ckpt_path={Path('runs/skyrl/checkpoints').absolute()}",
        f"trainer.export_path={Path('runs/skyrl/exports').absolute()}",
        "trainer.logger=console",
        "trainer.eval_interval=-1",
        "trainer.algorithm.advantage_estimator=grpo",
        "generator.n_samples_per_prompt=8",
        "environment.env_class=rubric",
    ]


def train(config: Any) -> None:
    """Train, in a worker of Ray; what nobody judged is left out, in place of a reward of 0."""
    skyrl_advantages.register()
    register()
    import_module("skyrl.train.entrypoints.main_base").BasePPOExp(config).run()


def configuration(count: int, words: Sequence[str]) -> Any:
    """Return SkyRL's configuration, as SkyRL checks it."""
    skyrl_advantages.register()  # or SkyRL would not know the name of an estimator
    parse = import_module("skyrl.train.config").SkyRLTrainConfig.from_cli_overrides
    config = parse([*settings(count), *words])
    placement = config.trainer.placement
    placement.ref_num_gpus_per_node = placement.policy_num_gpus_per_node  # they share all GPUs
    import_module("skyrl.train.utils").validate_cfg(config)
    return config


def main() -> None:
    """Write the rows and train."""
    ray = import_module("ray")
    count = write_rows()
    config = configuration(count, sys.argv[1:])
    batch, passes = config.trainer.train_batch_size, config.trainer.epochs
    print(f"{count // batch * passes} steps of {batch} tasks, in {passes} passes over {count}")
    import_module("skyrl.train.utils").initialize_ray(config)
    ray.get(ray.remote(num_cpus=1)(train).remote(config))


if __name__ == "__main__":
    main()
