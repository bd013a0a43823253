"""Tokens of turns under five chat templates with tools, against writers that know each author.

The templates are small ones in the manner of families of models; beside each stands a function that
writes the same conversation piece by piece and says who wrote which piece.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from rubric_core import SchemaError
from rubric_core.traces import turn_tokens

Message = dict[str, Any]
Pieces = Iterator[tuple[str, int]]
"""Texts, each with the turn that wrote it; −1 for the template, users and tools."""

CHATML = """\
{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == "tool" %}
{%- if loop.first or messages[loop.index0 - 1].role != "tool" %}<|im_start|>user
{%- endif %}{{ '\\n' }}<tool_response>
{{ m.content }}
</tool_response>
{%- if loop.last or messages[loop.index0 + 1].role != "tool" %}<|im_end|>
{% endif %}
{%- else %}<|im_start|>{{ m.role }}
{{ m.content }}
{%- for c in m.tool_calls or [] %}{{ '\\n' }}<tool_call>
{"name": "NAME", "arguments": ARGUMENTS}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

LLAMA = """\
<|begin|>
{%- for m in messages %}
{%- set role = "ipython" if m.role == "tool" else m.role %}<|header|>{{ role }}<|/header|>

{% if m.tool_calls %}
{%- for c in m.tool_calls %}{"name": "NAME", "parameters": ARGUMENTS}
{%- endfor %}<|eom|>
{%- else %}{{ m.content | trim }}<|eot|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|header|>assistant<|/header|>

{% endif %}"""

MISTRAL = """\
<s>
{%- if tools %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}
{%- for m in messages %}
{%- if m.role == "user" or m.role == "system" %}[INST]{{ m.content }}[/INST]
{%- elif m.role == "tool" %}[RESULTS]{{ m.content }}[/RESULTS]
{%- else %}{{ m.content }}
{%- if m.tool_calls %}[CALLS][
{%- for c in m.tool_calls %}{"name": "NAME", "arguments": ARGUMENTS}
{%- if not loop.last %}, {% endif %}{% endfor %}]
{%- endif %}</s>
{%- endif %}
{%- endfor %}"""

GEMMA = """\
<bos>
{%- for m in messages %}
{%- set role = "model" if m.role == "assistant" else "user" %}<start_of_turn>{{ role }}
{% if m.role == "tool" %}```tool_output
{{ m.content }}
```
{%- else %}{{ m.content }}
{%- for c in m.tool_calls or [] %}{{ '\\n' }}```tool_code
NAME(ARGUMENTS)
```
{%- endfor %}
{%- endif %}<end_of_turn>
{% endfor %}
{%- if add_generation_prompt %}<start_of_turn>model
{% endif %}"""

HARMONY = """\
{%- for m in messages %}
{%- if m.role == "tool" %}<|start|>functions.f to=assistant<|message|>{{ m.content }}<|end|>
{%- elif m.role == "assistant" %}<|start|>assistant
{%- if m.content %}<|channel|>final<|message|>{{ m.content }}
{%- endif %}
{%- for c in m.tool_calls or [] %}<|channel|>commentary to=functions.NAME<|message|>ARGUMENTS
{%- endfor %}{{ "<|call|>" if m.tool_calls else "<|end|>" }}
{%- else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}"""


def _dumped(value: object) -> str:
    # As transformers has its filter `tojson` write it.
    return json.dumps(value, ensure_ascii=False)


def _calls(message: Message) -> list[tuple[str, str]]:
    calls = message.get("tool_calls") or []
    return [
        (call["function"]["name"], _dumped(call["function"]["arguments"]))
        for call in calls
    ]


def _turns(messages: list[Message]) -> Iterator[tuple[int, Message, int]]:
    """Yield place, message and turn, −1 for messages that are none."""
    turn = 0
    for place, message in enumerate(messages):
        is_reply = message["role"] == "assistant"
        turn += is_reply
        yield place, message, turn if is_reply else -1


def _chatml(messages: list[Message], tools: list[Message] | None) -> Pieces:
    if tools:
        yield f"<|im_start|>system\nTools: {_dumped(tools)}<|im_end|>\n", -1
    for place, m, turn in _turns(messages):
        if m["role"] == "tool":
            before = messages[place - 1]["role"] == "tool" if place else False
            is_last = place + 1 == len(messages)
            after = not is_last and messages[place + 1]["role"] == "tool"
            yield "" if before else "<|im_start|>user", -1
            yield f"\n<tool_response>\n{m['content']}\n</tool_response>", -1
            yield "" if after else "<|im_end|>\n", -1
            continue
        yield f"<|im_start|>{m['role']}\n", -1
        yield m["content"], turn
        for name, arguments in _calls(m):
            call = f'{{"name": "{name}", "arguments": {arguments}}}'
            yield f"\n<tool_call>\n{call}\n</tool_call>", turn
        yield "<|im_end|>", turn
        yield "\n", -1


def _llama(messages: list[Message], tools: list[Message] | None) -> Pieces:
    del tools
    yield "<|begin|>", -1
    for _, m, turn in _turns(messages):
        role = "ipython" if m["role"] == "tool" else m["role"]
        yield f"<|header|>{role}<|/header|>\n\n", -1
        for name, arguments in _calls(m):
            yield f'{{"name": "{name}", "parameters": {arguments}}}', turn
        if _calls(m):
            yield "<|eom|>", turn
        else:
            yield m["content"].strip() + "<|eot|>", turn


def _mistral(messages: list[Message], tools: list[Message] | None) -> Pieces:
    yield "<s>", -1
    if tools:
        yield f"[TOOLS]{_dumped(tools)}[/TOOLS]", -1
    for _, m, turn in _turns(messages):
        match m["role"]:
            case "user" | "system":
                yield f"[INST]{m['content']}[/INST]", -1
            case "tool":
                yield f"[RESULTS]{m['content']}[/RESULTS]", -1
            case _:
                yield m["content"], turn
                calls = [
                    f'{{"name": "{name}", "arguments": {arguments}}}'
                    for name, arguments in _calls(m)
                ]
                if calls:
                    yield f"[CALLS][{', '.join(calls)}]", turn
                yield "</s>", turn


def _gemma(messages: list[Message], tools: list[Message] | None) -> Pieces:
    del tools
    yield "<bos>", -1
    for _, m, turn in _turns(messages):
        role = "model" if turn > 0 else "user"
        yield f"<start_of_turn>{role}\n", -1
        if m["role"] == "tool":
            yield f"```tool_output\n{m['content']}\n```", -1
        else:
            yield m["content"], turn
        for name, arguments in _calls(m):
            yield f"\n```tool_code\n{name}({arguments})\n```", turn
        yield "<end_of_turn>", turn
        yield "\n", -1


def _harmony(messages: list[Message], tools: list[Message] | None) -> Pieces:
    del tools
    for _, m, turn in _turns(messages):
        match m["role"]:
            case "tool":
                lead = "<|start|>functions.f to=assistant<|message|>"
                yield f"{lead}{m['content']}<|end|>", -1
            case "assistant":
                yield "<|start|>assistant", -1
                if m["content"]:
                    yield f"<|channel|>final<|message|>{m['content']}", turn
                for name, arguments in _calls(m):
                    lead = f"<|channel|>commentary to=functions.{name}<|message|>"
                    yield lead + arguments, turn
                yield "<|call|>" if _calls(m) else "<|end|>", turn
            case role:
                yield f"<|start|>{role}<|message|>{m['content']}<|end|>", -1


@dataclass(frozen=True)
class Family:
    template: str
    write: Callable[[list[Message], list[Message] | None], Pieces]
    end: str
    special: tuple[str, ...]
    ends: tuple[str, ...] = ()


FAMILIES = {
    "chatml": Family(CHATML, _chatml, "<|im_end|>", ("<|im_start|>",)),
    "llama": Family(
        LLAMA,
        _llama,
        "<|eot|>",
        ("<|begin|>", "<|header|>", "<|/header|>", "<|eom|>"),
        ends=("<|eom|>",),
    ),
    "mistral": Family(
        MISTRAL,
        _mistral,
        "</s>",
        ("<s>", "[INST]", "[/INST]", "[CALLS]", "[RESULTS]", "[/RESULTS]"),
    ),
    "gemma": Family(GEMMA, _gemma, "<end_of_turn>", ("<bos>", "<start_of_turn>")),
    "harmony": Family(
        HARMONY,
        _harmony,
        "<|end|>",
        ("<|start|>", "<|channel|>", "<|message|>", "<|call|>"),
        ends=("<|call|>",),
    ),
}


def _written_out(template: str) -> str:
    named = template.replace("NAME", "{{ c.function.name }}")
    return named.replace("ARGUMENTS", "{{ c.function.arguments | tojson }}")


@cache
def _tokenizer(name: str) -> Any:
    family = FAMILIES[name]
    template = _written_out(family.template)
    return _made([family.end, *family.special], family.end, template)


def _made(special: list[str], end: str, template: str) -> Any:
    """A byte-level BPE of some merges that knows the special tokens of a family."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = "the loss is minimised by the model, and a tool was called with arguments"
    inner.train_from_iterator([text, text.title(), template], trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=end)
    made.chat_template = template
    return made


words = st.text(alphabet="ab the\n.äß漢🙂{}[]<|>\"'", max_size=12)
arguments = st.dictionaries(st.sampled_from("qk"), words, max_size=2)
call = st.builds(
    lambda passed: {"type": "function", "function": {"name": "f", "arguments": passed}},
    arguments,
)
TOOLS = [{"type": "function", "function": {"name": "f", "description": "Finds."}}]


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": draw(words)}]
    for _ in range(draw(st.integers(1, 4))):
        calls = draw(st.lists(call, max_size=2))
        reply: Message = {"role": "assistant", "content": draw(words)}
        if calls:
            reply["tool_calls"] = calls
        messages.append(reply)
        messages += [{"role": "tool", "content": draw(words)} for _ in calls]
        if not calls:
            messages.append({"role": "user", "content": draw(words)})
    if draw(st.booleans()):
        messages.append({"role": "assistant", "content": draw(words)})
    return messages


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(conversations(), st.sampled_from([TOOLS, None]))
def test_each_token_is_of_the_turn_that_wrote_it(
    name: str, messages: list[Message], tools: list[Message] | None
) -> None:
    family = FAMILIES[name]
    tokenizer = _tokenizer(name)

    found = turn_tokens(tokenizer, messages, tools=tools, ends=family.ends)

    pieces = list(family.write(messages, tools))
    text = "".join(piece for piece, _ in pieces)
    rendered = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
    assert text == rendered
    owners = [turn for piece, turn in pieces for _ in piece]
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    assert found.token_ids == encoded["input_ids"]
    expected = [owners[begin] for begin, _ in encoded["offset_mapping"]]
    assert found.turn_T == expected
    assert found.mask_T == [int(turn > 0) for turn in expected]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_tokens_of_a_turn_are_its_text_and_its_end(name: str) -> None:
    family = FAMILIES[name]
    tokenizer = _tokenizer(name)
    messages: list[Message] = [
        {"role": "user", "content": "What is the loss?"},
        {"role": "assistant", "content": "Given."},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "the loss", "tool_calls": []},
        {"role": "user", "content": "So?"},
        {"role": "assistant", "content": "a tool"},
    ]

    found = turn_tokens(tokenizer, messages, prompt=2, ends=family.ends)

    texts = [
        tokenizer.decode(
            [
                token
                for token, turn in zip(found.token_ids, found.turn_T, strict=True)
                if turn == number
            ]
        )
        for number in (1, 2, 3)
    ]
    lead = "<|channel|>final<|message|>" if name == "harmony" else ""
    assert texts == [f"{lead}the loss{family.end}", f"{lead}a tool{family.end}", ""]


def test_a_template_that_rewrites_earlier_turns_is_refused() -> None:
    tokenizer = _tokenizer("chatml")
    messages: list[Message] = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "<think>hm</think>One."},
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "Two."},
    ]
    # As Qwen 3 and others write it: a thought is dropped once a question follows.
    dropped = CHATML.replace(
        "{{ m.content }}\n{%- for c in",
        "{{ m.content if loop.last else m.content.split('</think>')[-1] }}\n"
        "{%- for c in",
    )
    assert dropped != CHATML

    with pytest.raises(
        SchemaError, match=r"messages\.1 is turn 1, and the chat template"
    ):
        turn_tokens(tokenizer, messages, chat_template=_written_out(dropped))
    assert turn_tokens(
        tokenizer, messages[:2], chat_template=_written_out(dropped)
    ).mask_T


SPECIAL = re.compile(r"<\|[^|<>{}']{1,30}\|>|</?s>")
REAL = {
    "llama3": "<|eot_id|>",
    "glm4moe": "<|user|>",
    "qwen2_5": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "qwen3_instruct_2507": "<|im_end|>",
    "qwen3_vl": "<|im_end|>",
    "lfm2": "<|im_end|>",
}
"""Templates that TRL ships with marks around what the assistant writes, and their end tokens."""


@pytest.mark.stacks
@pytest.mark.parametrize("name", REAL)
def test_the_turns_of_real_templates_are_what_their_marks_say(name: str) -> None:
    trl = pytest.importorskip("trl")
    folder = Path(trl.__file__).parent / "chat_templates"
    template = (folder / f"{name}_training.jinja").read_text("utf-8")
    special = sorted(set(SPECIAL.findall(template)))
    tokenizer = _made(special, REAL[name], template)
    called = {"name": "find", "arguments": {"q": "loss"}}
    calls = [{"type": "function", "id": "call_abcd1", "function": called}]
    messages: list[Message] = [
        {"role": "user", "content": "Which loss?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_abcd1", "name": "find", "content": "r"},
        {"role": "assistant", "content": "It is this."},
    ]

    found = turn_tokens(tokenizer, messages)

    marked = tokenizer.apply_chat_template(
        messages, return_dict=True, return_assistant_tokens_mask=True
    )
    assert found.token_ids == list(marked["input_ids"])
    pairs = zip(found.mask_T, marked["assistant_masks"], found.token_ids, strict=True)
    # Most marks hold the line break behind the end token, which no policy samples.
    other = [
        tokenizer.decode([token]) for ours, theirs, token in pairs if ours != theirs
    ]
    assert "".join(other).strip() == ""
    assert len(other) <= 4
    assert set(found.turn_T) == {-1, 1, 2}
