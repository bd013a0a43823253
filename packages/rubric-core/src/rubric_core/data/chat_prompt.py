"""A question as a model's chat template writes it, on a date that is told and read from no clock.

A template may write today's date (those of Llama 3.2, SmolLM3, Granite and gpt-oss do), so that the
same question is another prompt after midnight. Here every template is told one date.
"""

import datetime as dt
import json
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Final, cast

from pydantic import JsonValue

from rubric_core.data.model_files import template_texts

PROMPT_DATE: Final = dt.date(2026, 1, 1)
"""What a template takes for today, unless told otherwise."""
_CLOCK: Final = "strftime_now"
"""The one clock that transformers lends to templates."""
_FLAGS: Final = "-_0^#"
"""What may stand between % and the letter of a directive."""
_MIDNIGHT: Final = """\
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
"""Written before a template, it takes the place of the clock.

A function in that place is a text since transformers 5.24, which hands templates plain data alone.
"""


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """What a chat template is given beside the question."""

    date: dt.date = PROMPT_DATE
    """What it takes for today, at midnight."""
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Further names that the template knows."""

    def render(self, tokenizer: Any, question: str) -> str:
        """Write the prompt that asks a question.

        Args:
            tokenizer: of transformers, with a chat template.
            question: the one message, the user's.

        Returns:
            The text that an answer follows.

        Raises:
            Exception: whatever the template raises, which is a program that came with the model.
        """
        return cast(
            "str",
            tokenizer.apply_chat_template(
                [{"role": "user", "content": question}],
                add_generation_prompt=True,
                tokenize=False,
                **self._dated(tokenizer),
                **self.arguments,
            ),
        )

    def _dated(self, tokenizer: Any) -> dict[str, str]:
        """Return the template with the date in it, where it reads the clock."""
        if not tokenizer.chat_template:
            return {}  # transformers says so in its own words
        template = cast("str", tokenizer.get_chat_template())
        return (
            {"chat_template": _midnight(self.date) + template}
            if _CLOCK in template
            else {}
        )


@lru_cache(maxsize=8)
def _midnight(date: dt.date) -> str:
    """Write the clock of templates that shows the start of a day."""
    start = dt.datetime.combine(date, dt.time())
    letters = string.ascii_letters + "%"
    directives = [
        f"%{flag}{letter}" for flag, letter in product(("", *_FLAGS), letters)
    ]
    told = json.dumps(
        {directive: start.strftime(directive) for directive in directives}
    )
    return _MIDNIGHT.replace("TOLD", told).replace("FLAGS", json.dumps(_FLAGS))


PLAIN: Final = ChatPrompt()
"""The usual date, and nothing else."""


def reads_clock(folder: Path) -> bool:
    """Whether a chat template of a tokenizer's folder may write the date.

    Raises:
        OSError: a file cannot be read.
    """
    return any(_CLOCK in text for text in template_texts(folder))


def unread_arguments(
    folder: Path, arguments: Mapping[str, JsonValue]
) -> tuple[str, ...]:
    """Return those names that no chat template of a tokenizer's folder reads.

    Args:
        folder: of the tokenizer.
        arguments: `chat_template_kwargs`.

    Raises:
        OSError: a file cannot be read.
    """
    texts = list(template_texts(folder)) if arguments else []
    names = {name for text in texts for name in re.findall(r"\w+", text)}
    return tuple(name for name in arguments if name not in names)


def prompt_identity(folder: Path, prompt: ChatPrompt) -> dict[str, JsonValue]:
    """Say what makes two prompts of one question differ, beside the files of the tokenizer.

    Args:
        folder: of the tokenizer.
        prompt: what its template is given.

    Returns:
        The date, where a template may write it, and further names, where there are any: answers
        that were stored before these could be set keep their identity.
    """
    found: dict[str, JsonValue] = {}
    if reads_clock(folder):
        found["prompt_date"] = prompt.date.isoformat()
    if prompt.arguments:
        found["chat_template_kwargs"] = dict(prompt.arguments)
    return found
