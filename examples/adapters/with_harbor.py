"""The verifier of a Harbor task, rewarding by a rubric: `tests/verify.py` of the task's folder.

    rubric-synth export dataset --to harbor --judge judge.yaml --out my-docs
    harbor run --path my-docs/harbor/train --agent terminus-2 --model openai/Qwen/Qwen3-8B

The first command writes whole tasks, this file and its `tests/test.sh` in each:

    exec python3 /tests/verify.py /app/answer.md /logs/verifier

In a task of your own, lay `judge.yaml` and `rubric_task.jsonl`, one line of a task file, beside it.
"""

import sys
from pathlib import Path

from rubric_judge.adapters.harbor import write_rewards

TESTS = Path(__file__).resolve().parent


if __name__ == "__main__":
    answer, folder = sys.argv[1:]
    write_rewards(
        answer,
        folder=folder,
        judge=TESTS / "judge.yaml",
        tasks=TESTS / "rubric_task.jsonl",
    )
