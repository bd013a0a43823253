"""A question as a model's chat template writes it, with a fixed date in place of the clock.

A template may write today's date (those of Llama 3.2, SmolLM3, Granite and gpt-oss do), so that the
same question is another prompt after midnight. Here every template gets one date.
"""

import datetime as dt
import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from rubric_core.data.model_files import template_texts

PROMPT_DATE = dt.date(2026, 1, 1)
"""The default for what a template takes as today."""
_CLOCK = "strftime_now"
"""The one clock that transformers lends to templates."""
_FLAGS = "-_0^#"
"""Flags that may stand between % and the letter of a directive."""
_MIDNIGHT = """\
{%- macro strftime_now(format) -%}
{%- set told = TOLD -%}
{%- set now = namespace(text="", directive="") -%}
{%- for character in format -%}
{%- if not now.directive -%}
{%- if character == "%" -%}
{%- set now.directive = character -%}
{%- else -%}
{%- set now.text = now.text + character -%}
{%- endif -%}
{%- else -%}
{%- set now.directive = now.directive + character -%}
{%- if now.directive in told -%}
{%- set now.text = now.text + told[now.directive] -%}
{%- set now.directive = "" -%}
{%- elif character not in FLAGS -%}
{{- raise_exception("strftime_now cannot write " + now.directive) -}}
{%- endif -%}
{%- endif -%}
{%- endfor -%}
{{- now.text + now.directive -}}
{%- endmacro -%}
{{ "" }}"""
"""A macro that takes the place of the clock when it is written before a template.

A function cannot take that place: since transformers 5.24 templates get plain data alone, and a
function becomes a text.
"""


@dataclass(frozen=True)
class ChatPrompt:
    """The arguments of a chat template beside the question."""

    date: dt.date = PROMPT_DATE
    """The day that the template takes as today, at midnight."""
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Further arguments that the template knows, by name."""

    def render(
        self, tokenizer: Any, question: str | Sequence[Mapping[str, str]]
    ) -> str:
        """Write the prompt that asks a question.

        Args:
            tokenizer: a tokenizer of transformers, with a chat template.
            question: the one message, the user's; or the messages of a conversation.

        Returns:
            The text that an answer follows.

        Raises:
            Exception: any error that the template raises, a program that came with the model.
        """
        messages = question
        if isinstance(question, str):
            messages = [{"role": "user", "content": question}]
        return cast(
            "str",
            tokenizer.apply_chat_template(
                messages,
                add_generation_prompt=True,
                tokenize=False,
                **self._dated(tokenizer),
                **self.arguments,
            ),
        )

    def _dated(self, tokenizer: Any) -> dict[str, str]:
        """Return the template with the date in it, where it reads the clock."""
        if not tokenizer.chat_template:
            return {}  # transformers then raises its own error
        template = cast("str", tokenizer.get_chat_template())
        if _CLOCK not in template:
            return {}
        return {"chat_template": _midnight(self.date) + template}


@lru_cache(maxsize=8)
def _midnight(date: dt.date) -> str:
    """Return the macro that takes the place of the clock and shows the start of a day."""
    start = dt.datetime.combine(date, dt.time())
    letters = string.ascii_letters + "%"
    texts: dict[str, str] = {}
    for flag, letter in product(("", *_FLAGS), letters):
        directive = f"%{flag}{letter}"
        texts[directive] = start.strftime(directive)
    macro = _MIDNIGHT.replace("TOLD", json.dumps(texts))
    return macro.replace("FLAGS", json.dumps(_FLAGS))


PLAIN = ChatPrompt()
"""The default date and no further arguments."""


def reads_clock(folder: Path) -> bool:
    """Return whether a chat template of a tokenizer's folder may write the date.

    Raises:
        OSError: a file cannot be read.
    """
    return any(_CLOCK in text for text in template_texts(folder))


def unread_arguments(
    folder: Path, arguments: Mapping[str, JsonValue]
) -> tuple[str, ...]:
    """Return the argument names that no chat template of a tokenizer's folder reads.

    Args:
        folder: the tokenizer's folder.
        arguments: `chat_template_kwargs`.

    Raises:
        OSError: a file cannot be read.
    """
    if not arguments:
        return ()
    known: set[str] = set()
    for text in template_texts(folder):
        known.update(re.findall(r"\w+", text))
    return tuple(name for name in arguments if name not in known)


def prompt_identity(folder: Path, prompt: ChatPrompt) -> dict[str, JsonValue]:
    """Return what makes two prompts of one question differ, beside the files of the tokenizer.

    Args:
        folder: the tokenizer's folder.
        prompt: the arguments of its template.

    Returns:
        The date, where a template may write it, and further arguments, where there are any: answers
        that were stored before these could be set keep their identity.
    """
    identity: dict[str, JsonValue] = {}
    if reads_clock(folder):
        identity["prompt_date"] = prompt.date.isoformat()
    if prompt.arguments:
        identity["chat_template_kwargs"] = dict(prompt.arguments)
    return identity
