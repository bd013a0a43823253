"""Rows of a batch that have no position left, and wait for the others.

Where a model has fewer positions than prompt and budget need, prompts of different lengths leave
room for answers of different lengths. transformers writes all rows of a batch to one length: a row
that is through goes on, what it writes is thrown away, and its positions would be ones that the
model does not have. An embedding has no such row, and some kinds of scaling change for the whole
batch.
"""

from __future__ import annotations

from inspect import signature
from typing import Any


def hold_positions(model: Any, positions: int) -> bool:  # noqa: ANN401  # torch's module
    """Keep rows that wait on a model's last position.

    No row that is still within the positions is changed by it.

    Args:
        model: of transformers, or an adapter around one.
        positions: that the model has.

    Returns:
        Whether it could be done; not where the model counts its positions itself.
    """
    own = model.get_base_model() if hasattr(model, "get_base_model") else model
    if "position_ids" not in signature(own.forward).parameters:
        return False

    def hold(_: object, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
        places = named.get("position_ids")
        if places is not None:
            named = {**named, "position_ids": places.clamp(max=positions - 1)}
        return given, named

    own.register_forward_pre_hook(hold, with_kwargs=True)
    return True
