"""GRPO with OpenRLHF in two turns, a draft and its correction, each credited with what it earned.

    python examples/adapters/with_openrlhf_turns.py --actor.model_name_or_path Qwen/Qwen3-8B

This file is the agent, and starts the training. The working folder holds `judge.yaml` and
`dataset/train.jsonl`, whose criteria may name the turn that they judge (`"judges": "turn_1"`). It
takes one machine of 8 GPUs, as `with_openrlhf.py` does. What stands after the name of this file is
handed to OpenRLHF, and wins over what is set here. The trained policy is in `runs/openrlhf_turns`.
"""

import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from openrlhf.utils.agent import AgentInstanceBase

from rubric_core import read_tasks
from rubric_judge.adapters.openrlhf_turns import agent_executor, register

TASKS = Path("dataset/train.jsonl").absolute()
JUDGE = Path("judge.yaml").absolute()
ROWS = Path("openrlhf_rows.jsonl").absolute()
GPUS, LARGEST_BATCH, ANSWERS = 8, 64, 8
TURNS, TURN_TOKENS = 2, 1024

END = "<|im_end|>"
REQUEST = "Now say what is wrong in it, and write it again without that."
AGAIN = f"\n<|im_start|>user\n{REQUEST}{END}\n<|im_start|>assistant\n"
"""What the chat template writes between the turns; this one is that of Qwen and of SmolLM2."""


class Agent(AgentInstanceBase):
    """Asks for a draft, and then for a better one."""

    def __init__(self) -> None:
        """Begin before the first turn."""
        self.turn = 0

    async def step(self, state_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Answer a turn of the policy; the rubric's reward comes when both are there."""
        self.turn += 1
        is_last = self.turn == TURNS
        end = "" if state_dict["action_text"].endswith(END) else END  # a turn may have been cut
        return {
            "rewards": torch.tensor(0.0),
            "environment_feedback": "" if is_last else end + AGAIN,
            "done": is_last,
        }


AgentExecutor = agent_executor(Agent, max_turn_tokens=TURN_TOKENS, judge=JUDGE, tasks=TASKS)


def write_rows() -> int:
    """Write what the policy is asked, with the id by which the judge finds the rubric.

    Returns how many there are.
    """
    views = [task.policy_view() for task in read_tasks(TASKS)]
    rows = [{"question": view.message, "task_id": view.task_id} for view in views]
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return len(rows)


def flags(count: int, words: Sequence[str]) -> list[str]:
    """Return the flags that make it GRPO on these rows with this agent; the last ones win.

    Args:
        count: how many rows there are.
        words: what the user adds.
    """
    batch = min(LARGEST_BATCH, count)
    return [
        *("--data.prompt_dataset", str(ROWS)),
        *("--data.input_key", "question"),
        *("--data.label_key", "task_id"),
        "--data.apply_chat_template",
        *("--data.max_samples", str(count // batch * batch)),  # a smaller last batch is no update
        *("--data.max_len", "4096"),
        *("--train.agent_func_path", str(Path(__file__).absolute())),
        *("--algo.advantage.estimator", "rloo"),
        *("--algo.kl.use_loss", "--algo.kl.estimator", "k3"),
        *("--rollout.batch_size", str(batch)),
        *("--rollout.n_samples_per_prompt", str(ANSWERS)),
        *("--rollout.max_new_tokens", str(TURN_TOKENS)),
        *("--train.batch_size", str(batch * ANSWERS)),  # one update for each rollout
        *("--train.num_episodes", "2"),
        "--train.colocate_all",
        *("--actor.num_gpus_per_node", str(GPUS)),
        *("--ref.num_gpus_per_node", str(GPUS)),
        *("--vllm.num_engines", str(GPUS)),
        *("--vllm.gpu_memory_utilization", "0.6"),
        *("--vllm.enable_sleep", "--ds.enable_sleep"),
        *("--ckpt.output_dir", "runs/openrlhf_turns"),
        *words,
    ]


def main() -> None:
    """Write the rows and train, with credit by turn."""
    command = "openrlhf.cli.train_ppo_ray"
    sys.argv = [command, *flags(write_rows(), sys.argv[1:])]
    register()
    runpy.run_module(command, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
