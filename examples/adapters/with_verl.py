"""GRPO with verl, rewarded by rubrics: writes the rows, then starts verl's trainer.

    python examples/adapters/with_verl.py actor_rollout_ref.model.path=Qwen/Qwen3-8B \
        trainer.n_gpus_per_node=8

The working folder holds `dataset/train.jsonl`, `dataset/validation.jsonl` and `judge.yaml`. What
stands after the name of this file is handed to verl, and wins over what is set here. Checkpoints
are in `runs/verl`, one for each pass over the tasks; started again, verl goes on from the last.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset

from rubric_core import Task, read_tasks, write_tasks

ROWS = Path("verl_rows")
SPLITS = ("train", "validation")
REWARD = "reward.custom_reward_function"
LARGEST_BATCH, PASSES = 64, 2
OLD_KEYS = ("custom_reward_function.", "reward_model.", "sandbox_fusion.")


def write_rows() -> int:
    """Write what the policy is asked; the id is the truth by which the judge finds the rubric.

    Returns how many tasks there are to train on.
    """
    ROWS.mkdir(exist_ok=True)
    tasks: dict[str, list[Task]] = {}
    for split in SPLITS:
        tasks[split] = list(read_tasks(f"dataset/{split}.jsonl"))
        rows = [
            {
                "data_source": "rubric",
                "prompt": [{"role": "user", "content": task.policy_view().message}],
                "reward_model": {"style": "rubric", "ground_truth": task.task_id},
                "extra_info": {"index": index, "split": split},
            }
            for index, task in enumerate(tasks[split])
        ]
        Dataset.from_list(rows).to_parquet(ROWS / f"{split}.parquet")
    # The reward is given one file for both.
    write_tasks(ROWS / "tasks.jsonl", [task for split in SPLITS for task in tasks[split]])
    return len(tasks["train"])


def overrides(count: int) -> list[str]:
    """Return the settings that make verl's configuration one for these rows and this judge."""
    batch = min(LARGEST_BATCH, count)  # verl drops what is less than a batch
    return [
        "algorithm.adv_estimator=grpo",
        f"data.train_files='{ROWS.absolute() / 'train.parquet'}'",
        f"data.val_files='{ROWS.absolute() / 'validation.parquet'}'",
        f"data.train_batch_size={batch}",
        "data.max_prompt_length=1024",
        "data.max_response_length=1024",
        "actor_rollout_ref.actor.use_dynamic_bsz=true",
        "actor_rollout_ref.actor.ppo_mini_batch_size=${data.train_batch_size}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.rollout.n=8",
        f"{REWARD}.path=pkg://rubric_judge.adapters.verl",
        f"{REWARD}.name=compute_score",
        f"+{REWARD}.reward_kwargs.judge='{Path('judge.yaml').absolute()}'",
        f"+{REWARD}.reward_kwargs.tasks='{(ROWS / 'tasks.jsonl').absolute()}'",
        "trainer.logger=[console]",
        f"trainer.total_epochs={PASSES}",
        f"trainer.save_freq={count // batch}",
        f"trainer.test_freq={count // batch}",
        f"trainer.default_local_dir='{Path('runs/verl').absolute()}'",
    ]


def plan(words: Sequence[str], count: int) -> str:
    """Say how many steps verl will make, or end where it would make none or take another reward."""
    given = {name.lstrip("+"): value for name, _, value in (word.partition("=") for word in words)}
    if old := sorted(name for name in given if name.startswith(OLD_KEYS)):
        raise SystemExit(
            f"{old[0]}: an old key of verl, which is ignored or takes the place of the reward of "
            f"this file; the new ones begin with `reward.`, such as {REWARD}.reward_kwargs.workers"
        )
    batch, passes = int(given["data.train_batch_size"]), int(given["trainer.total_epochs"])
    if count < batch:
        raise SystemExit(
            f"data.train_batch_size={batch} of dataset/train.jsonl's {count} tasks: verl drops "
            "what is less than a batch and would make no step"
        )
    steps = count // batch * passes
    if (asked := given.get("trainer.total_training_steps", "null")) != "null":
        steps = min(steps, int(asked))
    answers = batch * int(given["actor_rollout_ref.rollout.n"])
    return (
        f"{steps} steps of {batch} tasks and {answers} answers, in {passes} passes over {count} "
        f"tasks ({count % batch} are left out of each)"
    )


def main() -> int:
    """Write the rows and train."""
    count = write_rows()
    words = [*overrides(count), *sys.argv[1:]]
    print(plan(words, count), flush=True)
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *words]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
