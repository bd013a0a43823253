"""GRPO with OpenRLHF, rewarded by rubrics: this file is the reward, and starts the training.

    python examples/adapters/with_openrlhf.py --actor.model_name_or_path Qwen/Qwen3-8B

The working folder holds `dataset/train.jsonl` and `judge.yaml`. What stands after the name of this
file is handed to OpenRLHF, and wins over what is set here. For a run that masks what was not
judged, and goes on where it was killed, see `rubric-train`.
"""

import json
import subprocess
import sys
from pathlib import Path

from rubric_core import read_tasks
from rubric_judge.adapters.openrlhf import rubric_reward

TASKS = Path("dataset/train.jsonl").absolute()
JUDGE = Path("judge.yaml").absolute()
ROWS = Path("openrlhf_rows.jsonl").absolute()

reward_func = rubric_reward(judge=JUDGE, tasks=TASKS)


def write_rows() -> None:
    """Write what the policy is asked, with the id by which the judge finds the rubric."""
    views = [task.policy_view() for task in read_tasks(TASKS)]
    rows = [{"question": view.question, "task_id": view.task_id} for view in views]
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def flags() -> list[str]:
    """Return the flags that make it GRPO on these rows with this reward."""
    return [
        *("--data.prompt_dataset", str(ROWS)),
        *("--data.input_key", "question"),
        *("--data.label_key", "task_id"),
        "--data.apply_chat_template",
        *("--reward.remote_url", str(Path(__file__).absolute())),
        *("--algo.advantage.estimator", "group_norm"),
        *("--rollout.n_samples_per_prompt", "8"),
        *("--ckpt.output_dir", "runs/openrlhf"),
    ]


def main() -> int:
    """Write the rows and train."""
    write_rows()
    command = [sys.executable, "-m", "openrlhf.cli.train_ppo_ray", *flags(), *sys.argv[1:]]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
