"""GRPO with slime or miles, rewarded by rubrics: this file is the reward, and starts the training.

    source scripts/models/qwen3-4B.sh
    PYTHONPATH=MEGATRON python CHECKOUT/examples/adapters/with_slime.py \
        "${MODEL_ARGS[@]}" --hf-checkpoint MODELS/Qwen3-4B --ref-load MODELS/Qwen3-4B_torch_dist

The working folder is a checkout of slime, or of miles; `dataset/train.jsonl` and `judge.yaml` lie
in it; MEGATRON is a checkout of Megatron-LM. What stands after the name of this file is handed
to slime's `train.py`, and wins over what is set here. Checkpoints are in `runs/slime`, one for
each pass over the tasks.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from rubric_core import read_tasks
from rubric_judge.adapters.slime import rubric_post_process, rubric_reward

TASKS = Path("dataset/train.jsonl").absolute()
JUDGE = Path("judge.yaml").absolute()
ROWS = Path("slime_rows.jsonl").absolute()
GPUS, LARGEST_BATCH, ANSWERS, PASSES = 8, 32, 8, 2

reward = rubric_reward(judge=JUDGE, tasks=TASKS)
post_process = rubric_post_process("group")  # or "decoupled": each criterion normalised by itself


def write_rows() -> int:
    """Write what the policy is asked; the id is the label by which the judge finds the rubric.

    Returns how many rows there are.
    """
    views = [task.policy_view() for task in read_tasks(TASKS)]
    rows = [
        {"prompt": [{"role": "user", "content": view.message}], "label": view.task_id}
        for view in views
    ]
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return len(rows)


def flags(count: int) -> list[str]:
    """Return the flags that make it GRPO on these rows with this reward."""
    batch = min(LARGEST_BATCH, count)
    steps = count // batch
    module = Path(__file__).stem
    return [
        *("--custom-rm-path", f"{module}.reward"),
        *("--custom-reward-post-process-path", f"{module}.post_process"),
        *("--prompt-data", str(ROWS)),
        *("--input-key", "prompt"),
        *("--label-key", "label"),
        "--apply-chat-template",
        "--rollout-shuffle",
        *("--num-rollout", str(steps * PASSES)),
        *("--rollout-batch-size", str(batch)),
        *("--n-samples-per-prompt", str(ANSWERS)),
        *("--rollout-max-response-len", "1024"),
        *("--rollout-temperature", "1"),
        *("--global-batch-size", str(batch * ANSWERS)),  # one update for each rollout
        *("--advantage-estimator", "grpo"),
        *("--use-kl-loss", "--kl-loss-coef", "0.001", "--kl-loss-type", "low_var_kl"),
        *("--optimizer", "adam", "--lr", "1e-6", "--lr-decay-style", "constant"),
        *("--attention-dropout", "0.0", "--hidden-dropout", "0.0"),
        *("--use-dynamic-batch-size", "--max-tokens-per-gpu", "9216"),
        *("--actor-num-nodes", "1", "--actor-num-gpus-per-node", str(GPUS)),
        "--colocate",
        *("--rollout-num-gpus-per-engine", "1"),
        *("--save", str(Path("runs/slime").absolute())),
        *("--save-interval", str(steps)),
    ]


def main() -> int:
    """Write the rows and train."""
    count = write_rows()
    batch = min(LARGEST_BATCH, count)
    print(
        f"{count // batch * PASSES} steps of {batch} tasks and {batch * ANSWERS} answers, in "
        f"{PASSES} passes over {count} tasks, unless a flag says otherwise",
        flush=True,
    )
    here = str(Path(__file__).parent.absolute())  # where Ray's workers find this file
    known = os.environ.get("PYTHONPATH")  # noqa: TID251
    path = os.pathsep.join([here, known] if known else [here])
    command = [sys.executable, "train.py", *flags(count), *sys.argv[1:]]
    environment = {**os.environ, "PYTHONPATH": path}  # noqa: TID251
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
