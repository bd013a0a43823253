"""GRPO with TRL, rewarded by rubrics.

    uv run --group stacks python examples/adapters/with_trl.py \
        --model_name_or_path Qwen/Qwen3-0.6B --output_dir runs/trl --num_generations 8

The working folder holds `dataset/train.jsonl` and `judge.yaml`. Every setting of `GRPOConfig` and
of `ModelConfig` (`--dtype`, `--use_peft`, `--attn_implementation`, …) is a flag. On several GPUs,
`accelerate launch` takes the place of `python`. Weights are trained and saved in float32, as TRL
does unless told otherwise: `--dtype bfloat16` takes half the memory, and loses updates that are
small beside a weight.
"""

from datasets import Dataset
from trl import (
    GRPOConfig,
    GRPOTrainer,
    ModelConfig,
    TrlParser,
    get_peft_config,
    get_quantization_config,
)

from rubric_core import read_tasks
from rubric_judge.adapters.trl import rubric_reward

TASKS = "dataset/train.jsonl"
JUDGE = "judge.yaml"


def rows() -> Dataset:
    """Return what the policy is asked, with the id by which the judge finds the rubric."""
    views = [task.policy_view() for task in read_tasks(TASKS)]
    return Dataset.from_list(
        [
            {"prompt": [{"role": "user", "content": view.message}], "task_id": view.task_id}
            for view in views
        ]
    )


def check_size(arguments: GRPOConfig, count: int) -> None:
    """End where there are fewer tasks than TRL samples at once: it would make no step."""
    batch, answers = arguments.generation_batch_size, arguments.num_generations
    if count < batch // answers:
        raise SystemExit(
            f"{TASKS} holds {count} tasks, and TRL samples {batch // answers} at once "
            f"(generation_batch_size {batch} / num_generations {answers}): no step would be made. "
            "Lower --generation_batch_size, or --per_device_train_batch_size or "
            "--gradient_accumulation_steps, which it is the product of; or raise --num_generations"
        )


def trainer_of(arguments: GRPOConfig, model: ModelConfig) -> GRPOTrainer:
    """Return the trainer, with every setting of the model."""
    asked = rows()
    check_size(arguments, len(asked))
    arguments.model_init_kwargs = {
        "revision": model.model_revision,
        "attn_implementation": model.attn_implementation,
        "dtype": model.dtype,
        "trust_remote_code": arguments.trust_remote_code,
        **(arguments.model_init_kwargs or {}),
    }
    return GRPOTrainer(
        model=model.model_name_or_path,
        reward_funcs=rubric_reward(judge=JUDGE, tasks=TASKS),
        args=arguments,
        train_dataset=asked,
        quantization_config=get_quantization_config(model),
        peft_config=get_peft_config(model),
    )


def main() -> None:
    """Train."""
    arguments, model = TrlParser((GRPOConfig, ModelConfig)).parse_args_and_config()
    trainer = trainer_of(arguments, model)
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    if not trainer.state.global_step:
        raise SystemExit("TRL made no step: nothing is saved")
    trainer.save_model()


if __name__ == "__main__":
    main()
