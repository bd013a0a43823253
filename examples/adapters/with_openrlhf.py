"""GRPO with OpenRLHF, rewarded by rubrics: this file is the reward, and starts the training.

    python examples/adapters/with_openrlhf.py --actor.model_name_or_path Qwen/Qwen3-8B

The working folder holds `dataset/train.jsonl` and `judge.yaml`. It takes one machine of 8 GPUs,
which policy, reference and vLLM share in turn; with 2, add `--actor.num_gpus_per_node 2`, which
holds for all three. What stands after the name of this file is handed to OpenRLHF, and wins over
what is set here. The trained policy is in `runs/openrlhf`. For a run that masks what was not
judged, and goes on where it was killed, see `rubric-train`.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rubric_core import read_tasks
from rubric_judge.adapters.openrlhf import rubric_reward

TASKS = Path("dataset/train.jsonl").absolute()
JUDGE = Path("judge.yaml").absolute()
ROWS = Path("openrlhf_rows.jsonl").absolute()
GPUS, LARGEST_BATCH, ANSWERS = 8, 64, 8

reward_func = rubric_reward(judge=JUDGE, tasks=TASKS)


def write_rows() -> int:
    """Write what the policy is asked, with the id by which the judge finds the rubric.

    Returns how many there are.
    """
    views = [task.policy_view() for task in read_tasks(TASKS)]
    rows = [{"question": view.message, "task_id": view.task_id} for view in views]
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return len(rows)


def gpus_of(words: Sequence[str]) -> str:
    """Return how many GPUs a command gives the policy."""
    flag = "--actor.num_gpus_per_node"
    for word, following in zip(words, [*words, ""][1:], strict=True):
        name, equals, value = word.partition("=")
        if name == flag:
            return value if equals else following
    return str(GPUS)


def flags(count: int, *words: str) -> list[str]:
    """Return the flags that make it GRPO on these rows with this reward.

    Args:
        count: how many rows there are.
        words: what the user adds.
    """
    gpus, batch = gpus_of(words), min(LARGEST_BATCH, count)
    return [
        *("--data.prompt_dataset", str(ROWS)),
        *("--data.input_key", "question"),
        *("--data.label_key", "task_id"),
        "--data.apply_chat_template",
        *("--data.max_samples", str(count // batch * batch)),  # a smaller last batch is no update
        *("--reward.remote_url", str(Path(__file__).absolute())),
        *("--algo.advantage.estimator", "group_norm"),
        *("--algo.kl.use_loss", "--algo.kl.estimator", "k3"),
        *("--rollout.batch_size", str(batch)),
        *("--rollout.n_samples_per_prompt", str(ANSWERS)),
        *("--rollout.max_new_tokens", "1024"),
        *("--train.batch_size", str(batch * ANSWERS)),  # one update for each rollout
        *("--train.num_episodes", "2"),
        "--train.colocate_all",
        *("--actor.num_gpus_per_node", gpus),
        *("--ref.num_gpus_per_node", gpus),
        *("--vllm.num_engines", gpus),
        *("--vllm.gpu_memory_utilization", "0.6"),
        *("--vllm.enable_sleep", "--ds.enable_sleep"),
        *("--ckpt.output_dir", "runs/openrlhf"),
    ]


def main() -> int:
    """Write the rows and train."""
    count, words = write_rows(), sys.argv[1:]
    batch = min(LARGEST_BATCH, count)
    print(
        f"{count // batch * 2} steps of {batch} tasks and {batch * ANSWERS} answers, in 2 passes "
        f"over {count} tasks ({count % batch} are left out of each), unless a flag says otherwise",
        flush=True,
    )
    command = [sys.executable, "-m", "openrlhf.cli.train_ppo_ray", *flags(count, *words), *words]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
