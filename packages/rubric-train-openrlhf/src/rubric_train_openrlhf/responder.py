"""Policies as responders of an evaluation: the plugin `policy` under `rubric.responders`.

A policy answers as it was trained: through its own codec, slots included.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from rubric_core import Ask, Decoding, Finish, Reason, Reply, ResponderError, config_error
from rubric_core.data.model_files import model_files, prompt_form
from rubric_train_openrlhf.errors import NonFiniteLogitsError, PolicyLoadError
from rubric_train_openrlhf.policy_config import SLOT_FILE

if TYPE_CHECKING:
    from rubric_core import PolicyView
    from rubric_train_openrlhf.policy import EncodedPrompt, Policy
    from rubric_train_openrlhf.policy.answering import AnswerTokens

_VERSION: Final = 1
"""Of how tokens are drawn: raised where the same seed would give another answer."""


class PolicyOptions(BaseModel):
    """What a specification of a policy may say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    """Folder that `load_policy` reads."""

    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    """`auto` is the first GPU, where there is one."""

    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Number format of the weights."""

    batch_size: int = Field(default=32, ge=1)
    """Answers written at once; does not change them."""


def policy_responder(options: Mapping[str, object]) -> PolicyResponder:
    """Make a responder of `path`, and optionally `device`, `dtype` and `batch_size`.

    Raises:
        ConfigError: an option that does not fit, or no model in the folder.
    """
    try:
        return PolicyResponder(PolicyOptions.model_validate(options))
    except ValidationError as error:
        raise config_error(error, model=PolicyOptions, source="policy") from None


class PolicyResponder:
    """A policy of a folder; its weights load with the first question."""

    def __init__(self, options: PolicyOptions) -> None:
        """Hash the folder.

        Raises:
            ConfigError: no model in the folder.
        """
        self._options = options
        self._files = model_files(options.path)
        self._policy: Policy | None = None

    @property
    def prompt_form(self) -> str:
        """By the tokenizer's files; "slots" where names are read as slots."""
        path = self._options.path
        return "slots" if (path / SLOT_FILE).exists() else prompt_form(path)

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """Every file of the policy, and its number format."""
        return {
            "kind": "policy",
            "version": _VERSION,
            "files": self._files,
            "dtype": self._options.dtype,
        }

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncGenerator[tuple[int, Reply]]:
        """Answer questions, shortest first; see `Responder.respond`."""
        if not asks:
            return
        policy = await anyio.to_thread.run_sync(self._loaded)
        cancelled = threading.Event()
        try:
            work = await anyio.to_thread.run_sync(_Work, policy, asks, decoding)
            for index, reply in work.hopeless():
                yield index, reply
            for batch in work.batches(self._options.batch_size):
                for index, reply in await anyio.to_thread.run_sync(
                    work.replies, batch, cancelled, abandon_on_cancel=True
                ):
                    yield index, reply
        finally:
            cancelled.set()  # a thread cannot be stopped: it looks between two tokens

    async def aclose(self) -> None:
        """Let go of the weights."""
        self._policy = None

    def _loaded(self) -> Policy:
        if self._policy is None:
            import torch  # seconds, for who only wants the identity

            from rubric_train_openrlhf.policy import load_policy

            device = self._options.device
            if device == "auto":
                device = "cuda" if torch.cuda.is_available() else "cpu"
            try:
                self._policy = load_policy(
                    self._options.path, device=device, dtype=getattr(torch, self._options.dtype)
                )
            except (PolicyLoadError, RuntimeError) as error:
                raise ResponderError(f"the policy cannot answer: {error}") from error
        return self._policy


_Batch = list[tuple[int, list[int]]]
"""Prompts by number, and the asks of each by index: the same number for each prompt."""


class _Work:
    """The questions of one call, encoded."""

    def __init__(self, policy: Policy, asks: Sequence[Ask], decoding: Decoding) -> None:
        self._policy = policy
        self._asks = asks
        self._decoding = decoding
        self._prompts: list[EncodedPrompt] = []
        self._asks_of: list[list[int]] = []
        numbers: dict[PolicyView, int] = {}
        for index, ask in enumerate(asks):
            if ask.view not in numbers:
                numbers[ask.view] = len(self._prompts)
                self._prompts.append(policy.codec.encode_prompt(ask.view))
                self._asks_of.append([])
            self._asks_of[numbers[ask.view]].append(index)
        positions = getattr(policy.model.config, "max_position_embeddings", None)
        self._positions: int | None = positions if isinstance(positions, int) else None

    def hopeless(self) -> Iterator[tuple[int, Reply]]:
        """Say of every question that is too long by itself that it cannot be answered."""
        for number, indices in enumerate(self._asks_of):
            if self._most(number) < 1:
                detail = (
                    f"the prompt has {len(self._prompts[number].token_ids)} tokens, and the model "
                    f"{self._positions} positions: leave the question out"
                )
                for index in indices:
                    yield index, Reply.unavailable(Reason.BAD_REQUEST, detail)

    def batches(self, batch_size: int) -> Iterator[_Batch]:
        """Put prompts of like lengths and equally many asks together."""
        by_size: defaultdict[int, _Batch] = defaultdict(list)
        for number, indices in enumerate(self._asks_of):
            if self._most(number) >= 1:
                for first in range(0, len(indices), batch_size):
                    part = indices[first : first + batch_size]
                    by_size[len(part)].append((number, part))
        for size, entries in sorted(by_size.items()):
            entries.sort(key=lambda entry: len(self._prompts[entry[0]].token_ids))
            at_once = max(batch_size // size, 1)
            for first in range(0, len(entries), at_once):
                yield entries[first : first + at_once]

    def replies(self, batch: _Batch, cancelled: threading.Event) -> list[tuple[int, Reply]]:
        """Write the answers of a batch; of half of it at a time where memory runs out."""
        import torch  # loaded by now

        try:
            rows = self._written(batch, cancelled)
        except torch.OutOfMemoryError as error:
            if len(batch) > 1:
                half = len(batch) // 2
                parts = (batch[:half], batch[half:])
                return [reply for part in parts for reply in self.replies(part, cancelled)]
            return self._failed(batch, f"out of memory: {str(error).partition('. ')[0]}")
        except NonFiniteLogitsError as error:
            return self._failed(batch, str(error))
        indices = [index for _, part in batch for index in part]
        return [
            (index, self._reply(self._asks[index].view, row))
            for index, row in zip(indices, rows, strict=True)
        ]

    def _written(self, batch: _Batch, cancelled: threading.Event) -> list[AnswerTokens]:
        from rubric_train_openrlhf.policy.answering import (
            AnswerTokens,
            Draw,
            answer,
        )  # loaded by now

        decoding, codec = self._decoding, self._policy.codec
        rows = [
            AnswerTokens(prompt=place, seed=self._asks[index].seed, most=self._most(number))
            for place, (number, part) in enumerate(batch)
            for index in part
        ]
        views = [self._asks[part[0]].view for _, part in batch]

        def has_stopped(row: AnswerTokens) -> bool:
            return self._stop_at(codec.decode(views[row.prompt], row.tokens)) is not None

        answer(
            self._policy.model,
            [self._prompts[number] for number, _ in batch],
            rows,
            draw=Draw(decoding.temperature, decoding.top_p, decoding.top_k),
            eos_token_id=codec.eos_token_id,
            pad_token_id=codec.pad_token_id,
            has_stopped=has_stopped if decoding.stop else None,
            cancelled=cancelled,
        )
        return rows

    def _reply(self, view: PolicyView, row: AnswerTokens) -> Reply:
        codec = self._policy.codec
        text = codec.decode(view, row.tokens)
        tokens, ended = len(row.tokens), row.ended
        stop = self._stop_at(text)
        if stop is not None:
            # Tokens were drawn beyond it: the first that completes the stop is its last.
            low, high = 1, tokens
            while low < high:
                middle = (low + high) // 2
                if self._stop_at(codec.decode(view, row.tokens[:middle])) is None:
                    low = middle + 1
                else:
                    high = middle
            text, tokens, ended = text[:stop], low, True
        finish = Finish.COMPLETE if ended else Finish.TRUNCATED
        return Reply.answered(text, finish=finish, tokens=tokens)

    def _stop_at(self, text: str) -> int | None:
        found = [place for stop in self._decoding.stop if (place := text.find(stop)) >= 0]
        return min(found, default=None)

    def _most(self, number: int) -> int:
        """Tokens that an answer may have; below 1 where the prompt alone does not fit."""
        if self._positions is None:
            return self._decoding.max_tokens
        room = self._positions - len(self._prompts[number].token_ids)
        return min(self._decoding.max_tokens, room)

    def _failed(self, batch: _Batch, detail: str) -> list[tuple[int, Reply]]:
        reply = Reply.unavailable(Reason.SERVER_ERROR, detail)
        return [(index, reply) for _, part in batch for index in part]
