"""What every plan of an evaluation is held to, whatever it asks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rubric_core import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.records.run import ModelEntry


def check_plan(*, seeds: Sequence[int], max_unavailable_frac: float) -> None:
    """Refuse seeds and shares that can only be a mistake.

    Raises:
        ConfigError: no seed, one twice or below 0, or a share outside of [0, 1].
    """
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ConfigError(
            f"seeds {list(seeds)!r}: give one or more different ones, 0 or above",
            location="seeds",
        )
    if not 0 <= max_unavailable_frac <= 1:
        raise ConfigError(
            f"max-unavailable-frac {max_unavailable_frac!r} must be from 0 to 1",
            location="max-unavailable-frac",
        )


def check_models(models: Sequence[ModelEntry]) -> None:
    """Refuse names that stand for two models.

    Raises:
        ConfigError: no model, or two with one name.
    """
    names = Counter(model.name for model in models)
    if not names or max(names.values()) > 1:
        raise ConfigError(
            f"models {list(names)!r}: give at least one, each with a name of its own as "
            "NAME=KIND:WHERE",
            location="models",
        )
