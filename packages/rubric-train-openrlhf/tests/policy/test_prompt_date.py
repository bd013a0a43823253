"""A template that writes today's date is told one date, in training and in evaluation."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from jinja2 import TemplateError
from transformers import AutoTokenizer

from rubric_core import PolicyView
from rubric_core.data.chat_prompt import PLAIN, PROMPT_DATE, ChatPrompt
from rubric_train_openrlhf.policy import ChatCodec, load_codec
from rubric_train_openrlhf.responder import policy_responder

if TYPE_CHECKING:
    from pathlib import Path

VIEW = PolicyView(task_id="t", question="What is said?")
DATED = "{{ strftime_now('%d %b %Y %H:%M') }} {{ messages[0].content }} {{ mood }}:"
DAY = dt.date(2024, 2, 29)


@pytest.fixture
def dated_model(chat_model: Path) -> Path:
    tokenizer: Any = AutoTokenizer.from_pretrained(chat_model)
    tokenizer.chat_template = DATED
    tokenizer.save_pretrained(chat_model)
    return chat_model


def _text(folder: Path, **prompt: Any) -> str:
    codec = load_codec(folder, prompt=ChatPrompt(**prompt))
    assert isinstance(codec, ChatCodec)
    return codec.prompt_text(VIEW)


def test_a_template_is_given_the_messages_of_a_conversation(chat_model: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(chat_model)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}assistant="
    )
    tokenizer.save_pretrained(chat_model)
    question = "user: Hi\n\nassistant: Hello.\n\nuser: Well?"
    view = PolicyView(task_id="t", question=question, conversation=True)
    codec = load_codec(chat_model)
    assert isinstance(codec, ChatCodec)

    assert codec.prompt_text(view) == "user=Hi;assistant=Hello.;user=Well?;assistant="
    alone = view.model_copy(update={"conversation": False})
    assert codec.prompt_text(alone) == f"user={question};assistant="


def test_a_template_takes_the_date_that_it_is_told_for_today(dated_model: Path) -> None:
    assert _text(dated_model, date=DAY) == "29 Feb 2024 00:00 What is said? :"


def test_a_template_is_told_a_date_where_nobody_names_one(dated_model: Path) -> None:
    assert _text(dated_model) == f"{PROMPT_DATE:%d %b %Y} 00:00 What is said? :"


def test_a_template_is_given_further_names(dated_model: Path) -> None:
    assert _text(dated_model, date=DAY, arguments={"mood": "please"}).endswith(
        "? please:"
    )


@pytest.mark.parametrize(
    ("form", "written"),
    [
        *(("%-d %B %Y", "29 February 2024"), ("%^a, %H:%M:%S", "THU, 00:00:00")),
        *(
            ("100 %%", "100 %"),
            ("", ""),
            ("at %", "at %"),
            ("{{ '%y' }} \\n", "{{ '24' }} \n"),
        ),
    ],
)
def test_a_template_writes_the_date_in_any_form(
    chat_model: Path, form: str, written: str
) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(chat_model)
    quoted = form.replace("'", "\\'")
    start = "\n  {%- set form = '" + quoted + "' %}\n"
    macro = "{%- macro dated() %}{{ strftime_now(form) }}{% endmacro %}\n"
    tokenizer.chat_template = f"{start}{macro}<{{{{ dated() }}}}>"

    assert ChatPrompt(date=DAY).render(tokenizer, "Why?") == f"<{written}>"


def test_a_form_of_the_date_that_nobody_knows_is_refused(chat_model: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(chat_model)
    tokenizer.chat_template = "{{ strftime_now('%!') }}"

    with pytest.raises(TemplateError, match="strftime_now cannot write %!"):
        PLAIN.render(tokenizer, "Why?")


@pytest.mark.parametrize(
    "start", ["\n", "\n\n", "  ", " \n{%- set a = 1 %}\n", "{# a #}\n", ""]
)
def test_what_a_template_starts_with_stays(chat_model: Path, start: str) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(chat_model)
    tokenizer.chat_template = start + "{{ messages[0].content }}"
    plain = PLAIN.render(tokenizer, "Why?")
    tokenizer.chat_template += "{{ strftime_now('%Y') }}"

    assert PLAIN.render(tokenizer, "Why?") == f"{plain}{PROMPT_DATE:%Y}"


def test_a_date_makes_answers_of_an_evaluation_others(dated_model: Path) -> None:
    dates = ("2026-11-28", "2026-11-29", "2026-11-28")
    first, second, again = (
        dict(policy_responder({"path": str(dated_model), "prompt_date": day}).identity)
        for day in dates
    )

    assert first == again
    assert first != second
