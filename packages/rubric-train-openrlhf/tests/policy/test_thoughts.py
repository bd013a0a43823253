"""Of what a policy writes, what stands behind its thought is the answer, also in a warm start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from transformers import AutoTokenizer

from rubric_core import Answer, PolicyView, SftExample, Thought, ThoughtTags, answer_of
from rubric_core.data.chat_prompt import ChatPrompt
from rubric_train_openrlhf.errors import PolicyInputError, TrainConfigError
from rubric_train_openrlhf.policy import ChatCodec, SftConfig, load_codec
from rubric_train_openrlhf.policy.supervised import fitting
from rubric_train_openrlhf.policy_config import check_arguments

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_core import Thoughts
    from rubric_train_openrlhf.policy.completion import Completion

VIEW = PolicyView(task_id="t", question="Why?")
ASKED = "Q: {{ messages[0].content }}\nA: "
ENDS = (
    "{% if messages[-1].role == 'assistant' %}"
    "{{ messages[-1].content }}{{ eos_token }}"
    "{% endif %}"
)
OPENS = ASKED + "{% if add_generation_prompt %}<think>\n{% endif %}" + ENDS
SWITCHED = (
    ASKED
    + "{% if add_generation_prompt %}{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}{% endif %}" + ENDS
)
OWN = ThoughtTags(open="{{", close="}}", opened=True)


def codec_of(
    folder: Path,
    template: str,
    *,
    special: bool = False,
    thoughts: Thoughts = "cut",
    **names: Any,
) -> ChatCodec:
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.add_tokens(["<think>", "</think>"], special_tokens=special)
    tokenizer.save_pretrained(folder)
    codec = load_codec(folder, prompt=ChatPrompt(arguments=names), thoughts=thoughts)
    assert isinstance(codec, ChatCodec)
    return codec


def read(codec: ChatCodec, text: str, *, ended: bool = True) -> Completion:
    ids = codec._ids(text) + ((codec.eos_token_id,) if ended else ())  # pyright: ignore[reportPrivateUsage]
    return codec.completion(VIEW, ids)


@pytest.mark.parametrize("special", [False, True], ids=["shown", "special"])
@pytest.mark.parametrize("template", [ASKED + ENDS, OPENS], ids=["asked", "opened"])
def test_a_closed_thought_is_no_part_of_the_answer_and_stays_in_the_text(
    chat_model: Path, template: str, *, special: bool
) -> None:
    codec = codec_of(chat_model, template, special=special)
    written = "It turns, perhaps.\n</think>\n\nI do not know."

    assert read(codec, written) == (
        written,
        Answer("I do not know.", Thought.CLOSED, "</think>"),
    )


def test_the_thought_of_an_opening_template_that_does_not_end_is_no_answer(
    chat_model: Path,
) -> None:
    codec = codec_of(chat_model, OPENS)

    assert codec.opens_thought(VIEW)
    text, answer = read(codec, "It turns, perhaps.")
    assert (text, answer.text, answer.thought) == (
        "It turns, perhaps.",
        "",
        Thought.UNCLOSED,
    )
    assert codec.decode(VIEW, codec._ids("so it is")) == ""  # pyright: ignore[reportPrivateUsage]


def test_a_template_that_is_told_not_to_think_opens_no_thought(
    chat_model: Path,
) -> None:
    codec = codec_of(chat_model, SWITCHED, enable_thinking=False)

    assert not codec.opens_thought(VIEW)
    assert read(codec, "It turns.") == ("It turns.", Answer("It turns."))


def test_thoughts_may_be_judged_too(chat_model: Path) -> None:
    codec = codec_of(chat_model, OPENS, thoughts="kept")

    assert read(codec, "Hm.</think>Yes.").answer == Answer("Hm.</think>Yes.")


@pytest.mark.parametrize(
    ("template", "thoughts", "begins"),
    [
        (OPENS, "cut", "\n</think>\n\n"),
        (SWITCHED, "cut", "\n</think>\n\n"),
        (OPENS, "kept", ""),
        (ASKED + ENDS, "cut", ""),
        (ASKED + ENDS, OWN, "\n\n}}\n\n"),
    ],
)
def test_a_reference_answer_is_taught_behind_the_end_of_the_thought(
    chat_model: Path, template: str, thoughts: Thoughts, begins: str
) -> None:
    codec = codec_of(chat_model, template, thoughts=thoughts)
    example = SftExample(task_id="t", question="Why?", answer=" It turns. ")

    (one,) = fitting([example], SftConfig(steps=1), codec)

    assert codec.answer_text(VIEW, example.answer) == f"{begins}It turns."
    assert one.answer == codec.encode_answer(VIEW, example.answer)
    assert codec.decode(VIEW, one.answer) == "It turns."


def test_a_reference_answer_keeps_a_thought_of_its_own(chat_model: Path) -> None:
    own = "<think>\nIt may.\n</think>\n\nIt turns."

    for template in (OPENS, ASKED + ENDS):
        codec = codec_of(chat_model, template)
        taught = codec.prompt_text(VIEW) + codec.answer_text(VIEW, own)
        assert taught.count("<think>") == taught.count("</think>") == 1
        assert answer_of(taught).text == "It turns."


def test_an_answer_that_cannot_be_taught_is_refused(chat_model: Path) -> None:
    with pytest.raises(
        PolicyInputError, match="task 't' opens a thought that does not end"
    ):
        codec_of(chat_model, ASKED + ENDS).answer_text(VIEW, "<think> It turns.")
    with pytest.raises(PolicyInputError, match="give the tags"):
        codec_of(chat_model, ASKED + ENDS, thoughts="opened").answer_text(
            VIEW, "It turns."
        )


def test_a_name_that_the_template_does_not_read_is_refused(chat_model: Path) -> None:
    codec_of(chat_model, SWITCHED)

    check_arguments(chat_model, prompt=ChatPrompt(arguments={"enable_thinking": False}))
    with pytest.raises(
        TrainConfigError, match=r"does not read enable_thought, .* enable_thinking"
    ):
        check_arguments(
            chat_model, prompt=ChatPrompt(arguments={"enable_thought": False})
        )
