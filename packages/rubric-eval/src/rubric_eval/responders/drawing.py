"""Drawing of tokens for transformers' generation, each row by its own seed and to its own end."""

import random
import threading
from collections.abc import Sequence
from inspect import signature
from typing import Any

from rubric_core import Decoding, RubricError


class DrawCancelledError(RubricError, RuntimeError):
    """The answers are no longer waited for."""


class NonFiniteScoresError(RubricError, ArithmeticError):
    """Rows of a batch whose next-token scores are no finite numbers, so that no token is likely.

    Attributes:
        rows: places of the rows in the batch.
    """

    def __init__(self, message: str, *, rows: Sequence[int] = ()) -> None:
        """Keep the rows."""
        super().__init__(message)
        self.rows = tuple(rows)


class SeededDraw:
    """Logits processor of transformers that leaves each row one token, drawn or most likely."""

    def __init__(
        self,
        decoding: Decoding,
        seeds: Sequence[int],
        left: threading.Event,
    ) -> None:
        """Store the seed of each row, in the order of the batch, and the event that ends it."""
        from transformers import TopKLogitsWarper, TopPLogitsWarper  # an extra

        self._temperature = decoding.temperature
        self._warpers: list[Any] = []
        if decoding.top_k is not None:
            self._warpers.append(TopKLogitsWarper(decoding.top_k))
        if decoding.top_p < 1:
            self._warpers.append(TopPLogitsWarper(decoding.top_p))
        self._generators = [random.Random(seed) for seed in seeds]  # no secret
        self._left = left
        self._step = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Ban every token but one, [B, V] to [B, V].

        Raises:
            DrawCancelledError: the event was set.
            NonFiniteScoresError: the highest score of a row is no finite number.
        """
        if self._left.is_set():
            raise DrawCancelledError("nobody waits for the answers any more")
        self._step += 1
        scores = scores.float()
        # NaN wins every maximum, so one number per row tells of the whole row.
        broken = (~scores.amax(dim=-1).isfinite()).nonzero()[:, 0].tolist()
        if broken:
            raise NonFiniteScoresError(
                f"the model's scores for token {self._step} of the answer are no finite numbers: "
                "its weights hold NaN or infinity, or overflow in this number format; take an "
                "older checkpoint, or `dtype=float32`",
                rows=broken,
            )
        if self._temperature == 0:
            return scores
        # Turned round: of equal scores the warpers keep the last.
        narrowed = (scores / self._temperature).double().flip(-1)
        for warper in self._warpers:
            narrowed = warper(input_ids, narrowed)
        shares = narrowed.flip(-1).softmax(dim=-1)
        sums = shares.cumsum(dim=-1)
        numbers = [[generator.random()] for generator in self._generators]
        # The last sum, rounded, may not be 1.
        bounds = sums.new_tensor(numbers) * sums[:, -1:]
        # The first token whose sum exceeds the number.
        chosen = (sums <= bounds).sum(dim=-1, keepdim=True)
        banned = scores.new_full(scores.shape, float("-inf"))
        return banned.scatter_(1, chosen, 0.0)


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
