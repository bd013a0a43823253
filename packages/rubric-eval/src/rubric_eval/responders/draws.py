"""Draws of tokens inside a Hugging Face model's own generation, each row by its own seed.

transformers draws from one generator for all rows, so that an answer would depend on what else is
in its batch. Tensors are used by their methods alone: this package does not import torch.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from rubric_core import RubricError

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from rubric_core import Decoding

_BANNED = float("-inf")


class DrawCancelledError(RubricError, RuntimeError):
    """Nobody waits for the answers any more."""


class SeededDraw:
    """Leaves each row one token, drawn or the most likely: a logits processor of transformers."""

    def __init__(
        self, decoding: Decoding, seeds: Sequence[int], cancelled: threading.Event
    ) -> None:
        """Take the seed of each row, in the order of the batch."""
        self._decoding = decoding
        self._generators = [random.Random(seed) for seed in seeds]  # no secret
        self._cancelled = cancelled

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ANN401  # torch's tensors
        """Ban every token but one, [B, V] to [B, V].

        Raises:
            DrawCancelledError: the event was set.
        """
        del input_ids
        if self._cancelled.is_set():
            raise DrawCancelledError("nobody waits for the answers any more")
        scores = scores.float()
        if self._decoding.temperature == 0:
            return scores
        scores = _narrowed(scores / self._decoding.temperature, self._decoding)
        sums = scores.double().softmax(dim=-1).cumsum(dim=-1)
        uniform = sums.new_tensor([[generator.random()] for generator in self._generators])
        # The first token whose sum exceeds the number; the last sum, rounded, may not be 1.
        chosen = (sums <= uniform * sums[:, -1:]).sum(dim=-1, keepdim=True)
        return scores.new_full(scores.shape, _BANNED).scatter_(1, chosen, 0.0)


def _narrowed(scores: Any, decoding: Decoding) -> Any:  # noqa: ANN401  # as above
    """Keep the k best tokens, and of them the fewest that hold probability p."""
    if decoding.top_k is not None and decoding.top_k < scores.shape[-1]:
        lowest = scores.topk(decoding.top_k, dim=-1).values[:, -1:]
        scores = scores.masked_fill(scores < lowest, _BANNED)
    if decoding.top_p < 1:
        ordered, order = scores.sort(dim=-1, descending=True)
        shares = ordered.double().softmax(dim=-1)
        dropped = (shares.cumsum(dim=-1) - shares) >= decoding.top_p
        dropped[:, 0] = False
        scores = scores.masked_fill(dropped.scatter(-1, order, dropped), _BANNED)
    return scores
