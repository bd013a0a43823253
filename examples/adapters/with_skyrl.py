"""GRPO with SkyRL, rewarded by rubrics: writes the rows, registers the environment, trains.

    python examples/adapters/with_skyrl.py trainer.policy.model.path=Qwen/Qwen3-8B \
        trainer.placement.policy_num_gpus_per_node=8 generator.inference_engine.num_engines=8

The working folder holds `dataset/train.jsonl` and `judge.yaml`. What stands after the name of this
file is handed to SkyRL, and wins over what is set here.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import skyrl_gym
from datasets import Dataset

from rubric_core import read_tasks

TASKS = Path("dataset/train.jsonl").absolute()
JUDGE = Path("judge.yaml").absolute()
ROWS = Path("skyrl_rows.parquet").absolute()


def write_rows() -> None:
    """Write what the policy is asked; the id is the truth by which the judge finds the rubric."""
    views = [task.policy_view() for task in read_tasks(TASKS)]
    rows = [
        {
            "prompt": [{"role": "user", "content": view.question}],
            "env_class": "rubric",
            "reward_spec": {"method": "rubric", "ground_truth": view.task_id},
        }
        for view in views
    ]
    Dataset.from_list(rows).to_parquet(ROWS)


def register() -> None:
    """Make the environment known by its name; in each process that makes one."""
    skyrl_gym.register(
        id="rubric",
        entry_point="rubric_judge.adapters.skyrl:RubricEnv",
        kwargs={"judge": str(JUDGE), "tasks": str(TASKS)},
    )


def settings() -> list[str]:
    """Return the settings that make SkyRL's configuration one for these rows."""
    return [
        f"data.train_data=['{ROWS}']",
        "trainer.eval_interval=-1",
        "trainer.algorithm.advantage_estimator=grpo",
        "generator.n_samples_per_prompt=8",
        "environment.env_class=rubric",
    ]


def train(config: Any) -> None:
    """Train, in a worker of Ray."""
    register()
    import_module("skyrl.train.entrypoints.main_base").BasePPOExp(config).run()


def main() -> None:
    """Write the rows and train."""
    ray = import_module("ray")
    utils = import_module("skyrl.train.utils")
    configuration = import_module("skyrl.train.config").SkyRLTrainConfig
    write_rows()
    config = configuration.from_cli_overrides([*settings(), *sys.argv[1:]])
    utils.validate_cfg(config)
    utils.initialize_ray(config)
    ray.get(ray.remote(num_cpus=1)(train).remote(config))


if __name__ == "__main__":
    main()
