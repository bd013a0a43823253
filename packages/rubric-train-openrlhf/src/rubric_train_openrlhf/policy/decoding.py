"""Step-by-step decoding of a batch through any Hugging Face causal language model."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol

import torch
from transformers.cache_utils import Cache

from rubric_train_openrlhf.errors import PolicyInputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rubric_train_openrlhf.policy.prompts import PaddedPrompts


class Decoder(Protocol):
    """A batch in generation: its keys and values, and what comes next."""

    def prefill(self, prompts: PaddedPrompts) -> torch.Tensor:
        """Read the prompts once and give the logits [P, V] of each first response token."""
        ...

    def repeat(self, group_size: int) -> None:
        """Share what was read of each prompt with the G rows of its group."""
        ...

    def advance(self, tokens_N: torch.Tensor) -> torch.Tensor:
        """Append one token per row and give the logits [N, V] of the next."""
        ...

    def keep(self, rows_N: torch.Tensor) -> None:
        """Go on with these rows alone."""
        ...


class ForwardDecoder:
    """Decoding by the model's own forward and key-value cache: slower, and right for all."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Take the model as it is; nothing of it is changed."""
        accepted = inspect.signature(type(model).forward).parameters
        self._model = model
        self._takes_positions = "position_ids" in accepted
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._cache: Cache | None = None
        self._mask_NS = torch.empty(0)
        self._next_position_N = torch.empty(0)

    def prefill(self, prompts: PaddedPrompts) -> torch.Tensor:
        """Read the prompts once and give the logits [P, V] of each first response token."""
        self._mask_NS = prompts.mask_PS.long()
        self._next_position_N = prompts.lengths_P
        return self._forward(prompts.token_ids_PS, prompts.positions_PS)

    def repeat(self, group_size: int) -> None:
        """Share what was read of each prompt with the G rows of its group."""
        self._live_cache().batch_repeat_interleave(group_size)
        self._mask_NS = self._mask_NS.repeat_interleave(group_size, 0)
        self._next_position_N = self._next_position_N.repeat_interleave(group_size)

    def advance(self, tokens_N: torch.Tensor) -> torch.Tensor:
        """Append one token per row and give the logits [N, V] of the next."""
        self._mask_NS = torch.nn.functional.pad(self._mask_NS, (0, 1), value=1)
        logits_NV = self._forward(tokens_N[:, None], self._next_position_N[:, None])
        self._next_position_N = self._next_position_N + 1
        return logits_NV

    def keep(self, rows_N: torch.Tensor) -> None:
        """Go on with these rows alone."""
        self._live_cache().batch_select_indices(rows_N)
        self._mask_NS = self._mask_NS[rows_N]
        self._next_position_N = self._next_position_N[rows_N]

    def _live_cache(self) -> Cache:
        if not isinstance(self._cache, Cache):
            message = (
                f"{type(self._model).__name__} gave no key-value cache that can be shared and "
                "thinned out; use a transformer language model whose forward takes use_cache"
            )
            raise PolicyInputError(message)
        return self._cache

    def _forward(self, token_ids_NS: torch.Tensor, positions_NS: torch.Tensor) -> torch.Tensor:
        inputs: dict[str, Any] = {
            "input_ids": token_ids_NS,
            "attention_mask": self._mask_NS,
            "past_key_values": self._cache,
            "use_cache": True,
            **self._options,
        }
        if self._takes_positions:
            inputs["position_ids"] = positions_NS
        output = self._model(**inputs)
        self._cache = output.past_key_values
        logits_NV: torch.Tensor = output.logits[:, -1]
        return logits_NV
