"""GRPO with TRL, rewarded by rubrics.

    uv run --group stacks python examples/adapters/with_trl.py \
        --model_name_or_path Qwen/Qwen3-0.6B --output_dir runs/trl --num_generations 8

The working folder holds `dataset/train.jsonl` and `judge.yaml`. Every setting of `GRPOConfig` is a
flag; `accelerate launch` takes the place of `python` on several GPUs.
"""

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser

from rubric_core import read_tasks
from rubric_judge.adapters.trl import rubric_reward

TASKS = "dataset/train.jsonl"
JUDGE = "judge.yaml"


def rows() -> Dataset:
    """Return what the policy is asked, with the id by which the judge finds the rubric."""
    views = [task.policy_view() for task in read_tasks(TASKS)]
    return Dataset.from_list(
        [
            {"prompt": [{"role": "user", "content": view.question}], "task_id": view.task_id}
            for view in views
        ]
    )


def main() -> None:
    """Train."""
    arguments, model = TrlParser((GRPOConfig, ModelConfig)).parse_args_and_config()
    trainer = GRPOTrainer(
        model=model.model_name_or_path,
        reward_funcs=rubric_reward(judge=JUDGE, tasks=TASKS),
        args=arguments,
        train_dataset=rows(),
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
