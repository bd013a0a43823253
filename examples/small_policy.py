"""A policy that is small enough for a first run of the OpenRLHF backend on a CPU.

A Llama of about a million parameters and an ordinary tokenizer, warm-started on the reference
answers of a file of tasks: GRPO needs a policy that already earns something. Its heads are 32 wide,
the smallest that vLLM computes on a CPU.

    uv run python examples/small_policy.py --tasks data/first/train.jsonl --out models/small
"""

from pathlib import Path

import torch
from cyclopts import App
from rich.console import Console

from rubric_core import SftExample, read_tasks
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.policy import (
    ChatCodec,
    Policy,
    SftConfig,
    SupervisedStep,
    TinyConfig,
    build_tiny_llama,
    build_tokenizer,
    sft,
)

console = Console()

CHAT = """{% for turn in messages if turn.role == "user" %}Question: {{ turn.content }}
Answer:{% endfor %}"""
"""The format of the warm start, for trainers that ask by a chat template."""


def main(
    *,
    tasks: Path = Path("data/first/train.jsonl"),
    out: Path = Path("models/small"),
    steps: int = 150,
    seed: int = 0,
) -> None:
    """Build the policy, warm-start it and write it as a Hugging Face folder.

    Args:
        tasks: With reference answers, as `rubric-synth run` writes them.
        out: Folder of the policy.
        steps: Of the warm start.
        seed: Of the weights and of the order of the answers.
    """
    torch.set_num_threads(1)  # the same weights on any number of cores
    examples = [
        SftExample(task_id=task.task_id, question=task.question, answer=task.reference_answer)
        for task in read_tasks(tasks)
        if task.reference_answer
    ]
    texts = [f"{example.question}\n{example.answer}" for example in examples]
    shape = TinyConfig()
    tokenizer = build_tokenizer(texts, shape.vocab_size)
    fitted = shape.model_copy(update={"vocab_size": len(tokenizer)})
    config = SftConfig(steps=steps, max_prompt_tokens=160, max_answer_tokens=96)
    # Without the slots of the local backend's tiny policy, which vLLM cannot fill.
    policy = Policy(build_tiny_llama(fitted, seed=seed), ChatCodec(tokenizer))
    with (
        Progress.of("small_policy", at_once=True) as progress,
        progress.phase("warm start", total=steps, unit="steps") as phase,
    ):

        def show(at: SupervisedStep) -> None:
            phase.advance(note=f"loss {at.loss:.2f}")

        report = sft(policy, examples, config, seed=seed, on_step=show)
    tokenizer.chat_template = CHAT
    policy.save(out)
    console.print(
        f"{policy.model.num_parameters():,} weights in {out}; warm start on {report.examples} "
        f"answers (of {report.left_out} more, question or answer is too long for it), "
        f"last loss {report.loss:.2f} nats per token"
    )


if __name__ == "__main__":
    app = App(help="A small policy for a first run of the OpenRLHF backend on a CPU.")
    app.default(main)
    app()
