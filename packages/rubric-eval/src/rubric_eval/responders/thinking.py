"""Separation of a server's answers from its thoughts, wherever it puts those.

A server with a reasoning parser sends thoughts beside the content, one without sends them in it,
and one that leaves special tokens out of its texts may send them without their marks. All give the
same answer here, before any of it is stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic import JsonValue

from rubric_core import (
    Answer,
    Thought,
    Thoughts,
    ThoughtTags,
    answer_of,
    opens_thought,
)
from rubric_core.schema.answer import closes_thought, families, unopened
from rubric_judge import ChatReply, ModelServer

_log: Any = structlog.get_logger("rubric_eval")
_ANY_QUESTION = "What is it?"


def identity_of(
    thoughts: Thoughts, arguments: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the settings that change an answer; defaults are left out, so that identities stay.

    Args:
        thoughts: how thoughts are separated from answers.
        arguments: `chat_template_kwargs`.
    """
    identity: dict[str, JsonValue] = {}
    if thoughts != "cut":
        is_own = isinstance(thoughts, ThoughtTags)
        identity["thoughts"] = thoughts.model_dump(mode="json") if is_own else thoughts
    if arguments:
        identity["chat_template_kwargs"] = dict(arguments)
    return identity


@dataclass(frozen=True)
class Thinking:
    """Settings of thoughts in requests, and rules to read answers."""

    thoughts: Thoughts = "cut"
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Arguments of the server's chat template: `chat_template_kwargs`."""

    is_opened: bool = False
    """Whether the server's template opens a thought in the prompt."""

    is_off: bool = False
    """Whether the template switches thinking off: the prompt ends with an empty thought."""

    vanishing: tuple[str, ...] = ()
    """Marks that the server's texts do not show unless special tokens are requested."""

    @property
    def fields(self) -> dict[str, JsonValue]:
        """Fields that these settings add to a request."""
        fields: dict[str, JsonValue] = {}
        if self.arguments:
            fields["chat_template_kwargs"] = dict(self.arguments)
        if self.vanishing:
            fields["skip_special_tokens"] = False
        return fields

    def refuses(self, reply: ChatReply) -> str:
        """Say why a reply cannot be read with these settings; "" if it can."""
        if self.is_off and reply.has_thought and not reply.text.strip():
            return (
                "thinking is switched off, and the server's reasoning parser takes the answer for "
                "a thought: start the server without it, or with one that is told by "
                "`chat_template_kwargs` (vLLM: `qwen3` in place of `deepseek_r1`)"
            )
        if self.thoughts != "kept" or not reply.has_thought:
            return ""
        return (
            "`thoughts: kept` needs whole completions, and thoughts are taken out of these: start "
            "the server without its reasoning parser, take transport direct, or leave `thoughts` "
            "out"
        )

    def answer(self, reply: ChatReply) -> Answer:
        """Return the answer in a server's reply."""
        # Half of a surrogate pair, which JSON can escape, cannot be written to a file.
        text = reply.text.encode("utf-8", "replace").decode()
        if reply.has_thought is None:
            return answer_of(text, self.thoughts, opened=self.is_opened)
        if reply.has_thought and not text.strip():
            return Answer("", Thought.UNCLOSED)
        answer = answer_of(text, unopened(self.thoughts))
        if reply.has_thought and answer.thought is Thought.NONE:
            return Answer(text.strip(), Thought.CLOSED)
        return answer


async def thinking_of(
    server: ModelServer,
    thoughts: Thoughts,
    arguments: Mapping[str, JsonValue],
    *,
    name: str,
) -> Thinking:
    """Ask vLLM how its template renders a question, and which marks its texts leave out.

    Args:
        server: server of vLLM; defaults are assumed for anything that it does not report.
        thoughts: setting of the model's specification.
        arguments: arguments of its template.
        name: name of the model, for warnings.
    """
    prompt = await server.prompt(_ANY_QUESTION, arguments=arguments)
    keys = () if prompt is None else tuple(arguments)
    for key in keys:
        rest = dict(arguments)
        del rest[key]
        if await server.prompt(_ANY_QUESTION, arguments=rest) == prompt:
            _log.warning(
                "chat_template_kwargs_without_effect",
                model=name,
                key=key,
                why="the prompt is the same without it: the template does not read it, or does so "
                "anyway",
            )
    if thoughts == "kept":
        return Thinking(thoughts, arguments)
    # Some families have a token of its own only for the mark that opens a thought.
    marks: dict[str, None] = {}
    for tags in families(thoughts):
        marks[tags.open] = None
        marks[tags.close] = None
    return Thinking(
        thoughts,
        arguments,
        is_opened=prompt is not None and opens_thought(prompt, thoughts),
        is_off=prompt is not None and closes_thought(prompt, thoughts),
        vanishing=await server.vanishing(list(marks)),
    )
