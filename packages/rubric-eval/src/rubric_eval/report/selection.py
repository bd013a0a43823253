"""The questions on which models differ most, for a reader to judge the difference by eye."""

from __future__ import annotations

from itertools import combinations, zip_longest
from statistics import fmean
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rubric_eval.records import Measured

    Values = Mapping[str, float | None]
    """A model's mean by question id."""

MOST_HELDOUT: Final = 300
MOST_ITEMS: Final = 60
"""Of one benchmark."""


def by_question(one: Measured) -> dict[str, float | None]:
    """Mean over the usable answers to each question, by its id; None where there is none."""
    usable = ([value for value in values if value is not None] for values in one.values_NK)
    means = (fmean(values) if values else None for values in usable)
    return dict(zip(one.ids, means, strict=True))


def most_different(groups: Iterable[Mapping[str, Values]], *, limit: int) -> list[str]:
    """Choose questions, so that every pair of models has its greatest differences among them.

    Args:
        groups: under each judge, or on one benchmark, the means of each model by question id.
        limit: most questions.

    Returns:
        Ids, the greatest differences of all pairs taken in turn: those with the first model come
        first. Questions that no two models share are at the end, in their order.
    """
    ranked: list[list[str]] = []
    known: dict[str, None] = {}
    for models in groups:
        for values in models.values():
            known.update(dict.fromkeys(values))
        ranked += [_ranked(models[a], models[b]) for a, b in combinations(models, 2)]
    taken = dict.fromkeys(id_ for ids in zip_longest(*ranked) for id_ in ids if id_ is not None)
    return [*taken, *(id_ for id_ in known if id_ not in taken)][:limit]


def _ranked(a: Values, b: Values) -> list[str]:
    gaps = {id_: abs(one - other) for id_, one in a.items()
            if one is not None and (other := b.get(id_)) is not None}  # fmt: skip
    return sorted(gaps, key=lambda id_: -gaps[id_])
