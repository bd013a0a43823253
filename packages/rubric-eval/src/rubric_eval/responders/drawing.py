"""Drawing of tokens for transformers' generation, each row by its own seed and to its own end."""

import random
import threading
from collections.abc import Sequence
from inspect import signature
from typing import Any

from rubric_core import Decoding, RubricError

_BANNED = float("-inf")


class DrawCancelledError(RubricError, RuntimeError):
    """The answers are no longer waited for."""


class SeededDraw:
    """Logits processor of transformers that leaves each row one token, drawn or most likely."""

    def __init__(
        self,
        decoding: Decoding,
        seeds: Sequence[int],
        left: threading.Event,
    ) -> None:
        """Store the seed of each row, in the order of the batch, and the event that ends it."""
        self._decoding = decoding
        self._generators = [random.Random(seed) for seed in seeds]  # no secret
        self._left = left

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Ban every token but one, [B, V] to [B, V].

        Raises:
            DrawCancelledError: the event was set.
        """
        del input_ids
        if self._left.is_set():
            raise DrawCancelledError("nobody waits for the answers any more")
        scores = scores.float()
        if self._decoding.temperature == 0:
            return scores
        scores = _narrowed(scores / self._decoding.temperature, self._decoding)
        shares = scores.double().softmax(dim=-1)
        sums = shares.cumsum(dim=-1)
        numbers = [[generator.random()] for generator in self._generators]
        # The last sum, rounded, may not be 1.
        bounds = sums.new_tensor(numbers) * sums[:, -1:]
        # The first token whose sum exceeds the number.
        chosen = (sums <= bounds).sum(dim=-1, keepdim=True)
        banned = scores.new_full(scores.shape, _BANNED)
        return banned.scatter_(1, chosen, 0.0)


def _narrowed(scores: Any, decoding: Decoding) -> Any:
    """Keep the k best tokens, and of those the fewest whose probabilities sum to p."""
    if decoding.top_k is not None and decoding.top_k < scores.shape[-1]:
        lowest = scores.topk(decoding.top_k, dim=-1).values[:, -1:]
        scores = scores.masked_fill(scores < lowest, _BANNED)
    if decoding.top_p < 1:
        ordered, order = scores.sort(dim=-1, descending=True)
        shares = ordered.double().softmax(dim=-1)
        sums_before = shares.cumsum(dim=-1) - shares
        is_dropped = sums_before >= decoding.top_p
        is_dropped[:, 0] = False
        is_banned = is_dropped.scatter(-1, order, is_dropped)
        scores = scores.masked_fill(is_banned, _BANNED)
    return scores


def hold_positions(model: Any, positions: int) -> bool:
    """Hold rows that wait for others at a model's last position.

    Rows that are still within the positions are not changed.

    Args:
        model: model of transformers, or an adapter around one.
        positions: number of positions of the model.

    Returns:
        Whether this is possible: not if the model counts its positions itself.
    """
    base = model
    if hasattr(model, "get_base_model"):
        base = model.get_base_model()
    if "position_ids" not in signature(base.forward).parameters:
        return False

    def hold(
        _: object,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> tuple[Any, Any]:
        places = keywords.get("position_ids")
        if places is not None:
            held_places = places.clamp(max=positions - 1)
            keywords = {**keywords, "position_ids": held_places}
        return arguments, keywords

    base.register_forward_pre_hook(hold, with_kwargs=True)
    return True
