"""Step-by-step decoding of a batch, whose groups lose rows one by one, through any causal model."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy.rollouts import PaddedPrompts


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """N rows in prompt-major order as a grid of P prompts by the largest group left, G."""

    n_prompts: int
    group_size: int
    slots_N: torch.Tensor
    """Place of each row in the grid, counted along it."""
    rows_PG: torch.Tensor
    """Row at each place, flat; row 0 stands in where a group is smaller than G."""

    @classmethod
    def full(cls, n_prompts: int, group_size: int, *, device: torch.device) -> GroupLayout:
        """Lay out groups that are all of one size, without gaps."""
        rows = torch.arange(n_prompts * group_size, device=device)
        return cls(n_prompts, group_size, rows, rows)

    def keep(self, rows_N: torch.Tensor) -> tuple[torch.Tensor, GroupLayout]:
        """Thin the groups out.

        Args:
            rows_N: rows to keep, in rising order.

        Returns:
            The prompts that still have a row, and the layout of what is left.
        """
        prompts_N = self.slots_N[rows_N] // self.group_size
        sizes_P = torch.bincount(prompts_N, minlength=self.n_prompts)
        kept_P = sizes_P.nonzero()[:, 0]
        sizes_P = sizes_P[kept_P]
        group_size = int(sizes_P.max())
        starts_P = sizes_P.cumsum(0) - sizes_P
        rows = torch.arange(len(rows_N), device=rows_N.device)
        prompt_N = torch.arange(len(kept_P), device=rows_N.device).repeat_interleave(sizes_P)
        slots_N = prompt_N * group_size + rows - starts_P[prompt_N]
        rows_PG = torch.zeros(len(kept_P) * group_size, dtype=torch.long, device=rows_N.device)
        rows_PG[slots_N] = rows
        return kept_P, GroupLayout(len(kept_P), group_size, slots_N, rows_PG)

    def by_prompt(self, x_NHQD: torch.Tensor) -> torch.Tensor:
        """Join the queries of each group, [N, H, Q, …] to [P, H, G·Q, …]."""
        if not self._gapless:
            x_NHQD = x_NHQD[self.rows_PG]
        _, heads, queries, width = x_NHQD.shape
        grid = x_NHQD.reshape(self.n_prompts, self.group_size, heads, queries, width)
        return grid.transpose(1, 2).reshape(self.n_prompts, heads, -1, width)

    def by_row(self, x_PHJD: torch.Tensor) -> torch.Tensor:
        """Undo `by_prompt`, [P, H, G·Q, …] to [N, H, Q, …]."""
        _, heads, joined, width = x_PHJD.shape
        grid = x_PHJD.reshape(self.n_prompts, heads, self.group_size, -1, width).transpose(1, 2)
        rows = grid.reshape(-1, heads, joined // self.group_size, width)
        return rows if self._gapless else rows[self.slots_N]

    @property
    def _gapless(self) -> bool:
        return len(self.slots_N) == len(self.rows_PG)


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
            raise PolicyInputError.told("no_cache", kind=type(self._model).__name__)
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
