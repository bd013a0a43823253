"""GRPO with NeMo-RL, rewarded by rubrics; run in a checkout of NeMo-RL.

    uv run --with CHECKOUT/packages/rubric-core --with CHECKOUT/packages/rubric-judge \
        python CHECKOUT/examples/adapters/with_nemo_rl.py --config rubric.yaml

The working folder is NeMo-RL's own; `dataset/train.jsonl` and `judge.yaml` lie in it. This file
writes the rows and `rubric.yaml`, registers the environment and the processor of rows, and goes on
as NeMo-RL's `examples/run_grpo.py`; checkpoints are in `results/rubric`, one for each pass.
"""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

from nemo_rl.data.processors import register_processor

from rubric_core import read_tasks
from rubric_judge.adapters import nemo_rl

TASKS = Path("dataset/train.jsonl")
ROWS = Path("nemo_rl_rows.jsonl")

LARGEST_BATCH, ANSWERS = 32, 8

CONFIGURATION = f"""\
defaults: {Path("examples/configs/grpo_math_1B.yaml").absolute()}
grpo:
  num_prompts_per_step: {{batch}}
  num_generations_per_prompt: {ANSWERS}
  max_num_epochs: 2
  val_period: 0
policy:
  train_global_batch_size: {{answers}}
  train_micro_batch_size: 1
  max_total_sequence_length: 2048
checkpointing:
  checkpoint_dir: results/rubric
  metric_name: null
  save_period: {{steps}}
data:
  train:
    dataset_name: ResponseDataset
    data_path: {ROWS.absolute()}
    input_key: question
    output_key: task_id
    split_validation_size: 0
  validation: null
  default:
    processor: rubric
    env_name: rubric
env:
  rubric:
    judge: {Path("judge.yaml").absolute()}
    tasks: {TASKS.absolute()}
"""


def process(
    row: dict[str, Any],
    task_data_spec: Any,
    tokenizer: Any,
    max_seq_length: int,
    idx: int,
) -> dict[str, Any]:
    """Return a row as NeMo-RL trains on it; the id is that by which the judge finds the rubric."""
    del task_data_spec
    asked, truth = row["messages"]
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": asked["content"]}], tokenize=False, add_generation_prompt=True
    )
    tokens = tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"][0]
    fits = len(tokens) <= max_seq_length
    tokens = tokens[:max_seq_length]
    return {
        "message_log": [{"role": "user", "content": text, "token_ids": tokens}],
        "length": len(tokens),
        "extra_env_info": {"task_id": truth["content"]},
        "loss_multiplier": float(fits),
        "idx": idx,
        "task_name": row["task_name"],
    }


def write_rows() -> None:
    """Write what the policy is asked, and the configuration; say how many steps it makes."""
    views = [task.policy_view() for task in read_tasks(TASKS)]
    rows = [{"question": view.message, "task_id": view.task_id} for view in views]
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    batch = min(LARGEST_BATCH, len(rows))  # NeMo-RL drops what is less than a batch
    steps, answers = len(rows) // batch, batch * ANSWERS
    text = CONFIGURATION.format(batch=batch, answers=answers, steps=steps)
    Path("rubric.yaml").write_text(text, encoding="utf-8")
    print(f"{2 * steps} steps of {batch} tasks and {answers} answers, in 2 passes over {len(rows)}")


def register() -> None:
    """Make the environment and the processor known by the name that the configuration has."""
    nemo_rl.register("rubric")
    register_processor("rubric", process)


if __name__ == "__main__":
    write_rows()
    register()
    sys.argv[0] = "examples/run_grpo.py"
    runpy.run_path(sys.argv[0], run_name="__main__")
