"""A policy that thinks, in a real `GRPOTrainer`: the judge never sees a thought."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rubric_core import Answer, JudgeView, Task, Thought
from rubric_judge.adapters.trl import rubric_reward
from rubric_judge.adapters.trl_tokens import Policy
from rubric_judge.testing import ScriptedJudge

OPEN, CLOSE = "<think>", "</think>"
WORDS = [
    "the",
    "loss",
    "is",
    "entropy",
    "not",
    "clipping",
    ".",
    "Which",
    "user",
    "assistant",
]
MARKS = ["<unk>", "<|im_start|>", "<|im_end|>", OPEN, CLOSE]

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% elif opens %}<think>\n{% endif %}{% endif %}"
)


def qwen(*, special: bool) -> tuple[Any, Any]:
    """A tiny Qwen3 of a few words, which it draws nearly at random, and its tokenizer."""
    transformers = pytest.importorskip("transformers")
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: number for number, word in enumerate([*MARKS, *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="<unk>",  # noqa: S106  # a token of a vocabulary
        eos_token="<|im_end|>",  # noqa: S106
        pad_token="<unk>",  # noqa: S106
        additional_special_tokens=["<|im_start|>", *([OPEN, CLOSE] if special else [])],
    )
    if not special:
        tokenizer.add_tokens([OPEN, CLOSE])
    tokenizer.chat_template = TEMPLATE
    config = transformers.Qwen3Config(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        eos_token_id=2,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    return transformers.Qwen3ForCausalLM(config), tokenizer


def behind(ids: list[int], *, opened: bool) -> tuple[str, Thought]:
    """What the words say, worked out from the marks' numbers alone."""
    opening, close = MARKS.index(OPEN), MARKS.index(CLOSE)
    last = max((place for place, one in enumerate(ids) if one == close), default=None)
    rest = ids if last is None else ids[last + 1 :]
    if opening in rest or (last is None and opened):
        return "", Thought.UNCLOSED
    said = [one for one in rest if one >= len(MARKS)]
    told = " ".join(WORDS[one - len(MARKS)] for one in said)
    return told, Thought.NONE if last is None else Thought.CLOSED


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("marks", ["words", "special tokens"])
@pytest.mark.parametrize("policy", ["thinks", "is opened", "does not think"])
def test_trl_trains_a_policy_by_its_answers_alone(
    policy: str, marks: str, task: Task, tmp_path: Path
) -> None:
    settings = {
        "thinks": {},
        "is opened": {"opens": True},
        "does not think": {"opens": True, "enable_thinking": False},
    }[policy]
    opened = policy == "is opened"
    datasets = pytest.importorskip("datasets")
    trl = pytest.importorskip("trl")
    model, tokenizer = qwen(special=marks == "special tokens")
    tokens: list[list[int]] = []
    seen: list[JudgeView] = []
    judge = ScriptedJudge(
        lambda view: (seen.append(view), len(view.response) % 3 / 2)[1]
    )
    rubric = rubric_reward(judge=judge, tasks=[task])

    async def rewarded(prompts: Any, completions: Any, **columns: Any) -> Any:
        tokens.extend(columns["completion_ids"])
        return await rubric(prompts, completions, **columns)

    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path / "out"),
        max_steps=2,
        per_device_train_batch_size=16,
        num_generations=8,
        max_completion_length=12,
        chat_template_kwargs=settings,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        disable_tqdm=True,
    )
    row = {
        "prompt": [{"role": "user", "content": "Which loss"}],
        "task_id": task.task_id,
    }
    trainer = trl.GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=rewarded,
        args=arguments,
        train_dataset=datasets.Dataset.from_list([row] * 8),
    )
    trainer.train()

    answers = [behind(list(map(int, ids)), opened=opened) for ids in tokens]
    wanted = sorted((text, thought) for text, thought in answers if text)
    found = [(" ".join(view.response.split()), view.thought) for view in seen]
    assert len(answers) == 32
    assert sorted(found) == wanted
    assert {Thought.CLOSED, Thought.UNCLOSED} <= {thought for _, thought in answers}
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    kinds = {"thought": [t is not Thought.NONE for _, t in answers]}
    kinds["unclosed_thought"] = [t is Thought.UNCLOSED for _, t in answers]
    kinds["empty_answer"] = [
        not text and t is not Thought.UNCLOSED for text, t in answers
    ]
    for name, told in kinds.items():
        logged = [step[f"rubric/{name}"] for step in steps]
        assert logged == [
            pytest.approx(sum(told[:16]) / 16),
            pytest.approx(sum(told[16:]) / 16),
        ]


class Trainer:
    """What the adapter asks of a trainer."""

    chat_template = None
    chat_template_kwargs: dict[str, object] | None = None

    def __init__(self, processing_class: Any) -> None:
        self.processing_class = processing_class

    def log_metric(self, name: str, value: float) -> None:
        pass


SAID = [
    MARKS.index("<|im_end|>"),
    *(len(MARKS) + WORDS.index(one) for one in ("the", "loss")),
]
THINK = [MARKS.index(OPEN), len(MARKS) + WORDS.index("entropy"), MARKS.index(CLOSE)]


@pytest.fixture
def answered() -> Callable[..., list[Answer]]:
    _, tokenizer = qwen(special=True)

    def answer(
        completions: list[Any], ids: object, *, log: object = None
    ) -> list[Answer]:
        policy = Policy.of(
            log or Trainer(tokenizer).log_metric, ids, count=len(completions)
        )
        found = policy.answers([[{"role": "user", "content": "Which"}]] * len(completions),
                               completions, "cut")  # fmt: skip
        return [one._replace(close="") for one in found]

    return answer


@pytest.mark.filterwarnings("ignore")
def test_tokens_count_only_where_they_say_what_the_completion_says(
    answered: Callable[..., list[Answer]],
) -> None:
    ids = [*THINK, SAID[1], SAID[2], SAID[0]]
    shown = "entropy the loss"
    cut = Answer("the loss", Thought.CLOSED)

    assert answered([shown, [{"role": "assistant", "content": shown}]], [ids, ids]) == [
        cut,
        cut,
    ]
    parsed = {
        "role": "assistant",
        "content": "the loss",
        "reasoning_content": "entropy",
    }
    assert answered([[parsed]], [ids]) == [cut]
    # A function around the reward gave a part of the completion.
    assert answered(["the"], [ids]) == [Answer("the")]
    # With tools, the tokens are those of several messages.
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
    tool = {"role": "tool", "content": "not"}
    assert answered([[call, tool, {"role": "assistant", "content": "is"}]], [ids]) == [
        Answer("is")
    ]


@pytest.mark.filterwarnings("ignore")
def test_without_tokens_or_a_trainer_the_text_is_cut(
    answered: Callable[..., list[Answer]],
) -> None:
    text = f"{OPEN} entropy {CLOSE} the loss"
    cut = [Answer("the loss", Thought.CLOSED)]

    assert answered([text], None) == answered([text], [[1], [2]]) == cut
    assert answered([text], [THINK], log=print) == cut
    assert answered([text], [THINK], log=SimpleNamespace(log=print).log) == cut
