"""Policies as responders of an evaluation: the plugin `policy` under `rubric.responders`.

A policy answers as it was trained: through its own codec, slots included.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rubric_core import Ask, Decoding, Reply, ResponderError, Thoughts
from rubric_core.configuration import validated
from rubric_core.data.chat_prompt import PROMPT_DATE, ChatPrompt, prompt_identity
from rubric_core.data.model_files import model_files, prompt_form
from rubric_judge.ui.reporting import reported
from rubric_train_openrlhf.errors import PolicyLoadError
from rubric_train_openrlhf.policy_config import SLOT_FILE, check_arguments

if TYPE_CHECKING:
    from rubric_train_openrlhf.policy import Policy

_VERSION = 2
"""Version of the sampling of tokens: raised where the same seed would give another answer."""


class PolicyOptions(BaseModel):
    """Options in the specification of a policy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    """Folder that `load_policy` reads."""

    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    """`auto` is the first GPU, where there is one."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format of the weights; `auto` is that of the folder."""

    batch_size: int = Field(default=32, ge=1)
    """Answers written at once; does not change them."""

    prompt_date: dt.date = PROMPT_DATE
    """Date of today for a chat template that writes it."""

    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    """Names that the chat template is given, such as `enable_thinking: false`."""

    thoughts: Thoughts = "cut"
    """How thoughts are told from answers; see `rubric_core.answer_of`."""

    @property
    def chat_prompt(self) -> ChatPrompt:
        """Arguments of the chat template beside the question."""
        return ChatPrompt(date=self.prompt_date, arguments=self.chat_template_kwargs)


def policy_responder(options: Mapping[str, object]) -> PolicyResponder:
    """Make a responder of `path`, and optionally the other fields of `PolicyOptions`.

    Raises:
        ConfigError: an option that does not fit, or no model in the folder.
    """
    return PolicyResponder(validated(PolicyOptions, options, source="policy"))


class PolicyResponder:
    """A policy of a folder; its weights load with the first question."""

    def __init__(self, options: PolicyOptions) -> None:
        """Hash the folder.

        Raises:
            ConfigError: no model in the folder, or its chat template does not read a name.
        """
        self._options = options
        self._files = model_files(options.path)
        check_arguments(options.path, prompt=options.chat_prompt)
        self._policy: Policy | None = None

    @property
    def prompt_form(self) -> str:
        """Name of the tokenizer by its files; "slots" where names are read as slots."""
        path = self._options.path
        return "slots" if (path / SLOT_FILE).exists() else prompt_form(path)

    @property
    def scores_choices(self) -> bool:
        """Whether choices are scored: through its own codec, as it was trained."""
        return True

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """Every file of the policy, its number format, and what changes prompts and answers."""
        thoughts = self._options.model_dump(mode="json", include={"thoughts"})
        return {
            "kind": "policy",
            "version": _VERSION,
            "files": self._files,
            "dtype": self._options.dtype,
            **prompt_identity(self._options.path, self._options.chat_prompt),
            **(thoughts if self._options.thoughts != "cut" else {}),
        }

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncGenerator[tuple[int, Reply]]:
        """Answer questions, shortest first, each reply as it is done; see `Responder.respond`."""
        if not asks:
            return
        policy = await anyio.to_thread.run_sync(self._loaded)
        from rubric_train_openrlhf.policy.answering import (
            Answers,
        )  # torch is loaded by now

        answers = await anyio.to_thread.run_sync(Answers, policy, asks, decoding)
        write = partial(answers.write, self._options.batch_size)
        async with aclosing(reported(write)) as replies:
            async for index, reply in replies:
                yield index, reply

    async def aclose(self) -> None:
        """Let go of the weights."""
        self._policy = None

    def _loaded(self) -> Policy:
        if self._policy is None:
            import torch  # seconds, for who only wants the identity

            from rubric_train_openrlhf.policy.load import DTYPES, load_policy

            device = self._options.device
            if device == "auto":
                device = "cuda" if torch.cuda.is_available() else "cpu"
            try:
                self._policy = load_policy(
                    self._options.path,
                    device=device,
                    dtype=DTYPES.get(self._options.dtype, "auto"),
                    prompt=self._options.chat_prompt,
                    thoughts=self._options.thoughts,
                )
            except (PolicyLoadError, RuntimeError) as error:
                raise ResponderError(f"the policy cannot answer: {error}") from error
        return self._policy
