"""GRPO with verl, rewarded by rubrics: writes the rows, then starts verl's trainer.

    python examples/adapters/with_verl.py actor_rollout_ref.model.path=Qwen/Qwen3-8B \
        trainer.n_gpus_per_node=8

The working folder holds `dataset/train.jsonl`, `dataset/validation.jsonl` and `judge.yaml`. What
stands after the name of this file is handed to verl, and wins over what is set here.
"""

import subprocess
import sys
from pathlib import Path

from datasets import Dataset

from rubric_core import Task, read_tasks, write_tasks

ROWS = Path("verl_rows")
SPLITS = ("train", "validation")
REWARD = "reward.custom_reward_function"


def write_rows() -> None:
    """Write what the policy is asked; the id is the truth by which the judge finds the rubric."""
    ROWS.mkdir(exist_ok=True)
    tasks: list[Task] = []
    for split in SPLITS:
        found = list(read_tasks(f"dataset/{split}.jsonl"))
        rows = [
            {
                "data_source": "rubric",
                "prompt": [{"role": "user", "content": task.question}],
                "reward_model": {"style": "rubric", "ground_truth": task.task_id},
                "extra_info": {"index": index, "split": split},
            }
            for index, task in enumerate(found)
        ]
        Dataset.from_list(rows).to_parquet(ROWS / f"{split}.parquet")
        tasks += found
    write_tasks(ROWS / "tasks.jsonl", tasks)  # the reward is given one file for both


def overrides() -> list[str]:
    """Return the settings that make verl's configuration one for these rows and this judge."""
    return [
        "algorithm.adv_estimator=grpo",
        f"data.train_files={ROWS.absolute() / 'train.parquet'}",
        f"data.val_files={ROWS.absolute() / 'validation.parquet'}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.n=8",
        f"{REWARD}.path=pkg://rubric_judge.adapters.verl",
        f"{REWARD}.name=compute_score",
        f"+{REWARD}.reward_kwargs.judge={Path('judge.yaml').absolute()}",
        f"+{REWARD}.reward_kwargs.tasks={(ROWS / 'tasks.jsonl').absolute()}",
    ]


def main() -> int:
    """Write the rows and train."""
    write_rows()
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *overrides(), *sys.argv[1:]]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
