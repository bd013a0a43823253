"""Scoring guides: how much of a criterion's weight each level, option or rating earns."""

from collections.abc import Sequence
from typing import Final

from rubric_core.errors import RubricFileError
from rubric_core.formats.row import Row

Level = tuple[float, str]
"""The share of the weight that it earns, and its text."""

_SCALES: Final = ("options", "choices", "levels", "anchors")
_YES_NO: Final = ("no", "yes")
_LABEL: Final = ("label", "text", "description", "name")
_VALUE: Final = ("value", "score", "points")


def guide_of(levels: Sequence[Level], *, lost: bool = False) -> str:
    """Return a guide of one line for each level.

    Args:
        levels: what there is to choose from.
        lost: the shares are of what the criterion takes away.
    """
    return "\n".join(
        f"{100 * (1 - share if lost else share):.4g}% of the weight: {text}"
        for share, text in levels
    )


def scale_of(criterion: Row, *, lost: bool = False) -> str:
    """Return the guide in the options, choices, levels or anchors of a criterion, "" without any.

    Options with a value earn it, the others their rank, worst first. One that stands for "not
    applicable" is left out: a judge here scores every criterion.

    Raises:
        RubricFileError: fewer than two, or values that are no scale.
    """
    name = criterion.name_of(*_SCALES)
    if criterion.get(name) is None:
        return ""
    items = criterion.items(name)
    found: list[tuple[float | None, str]] = []
    for number, item in enumerate(items):
        if isinstance(item, str):
            criterion.take(f"{name}.{number}")
            found.append((None, item))
            continue
        option = criterion.at(f"{name}.{number}", item)
        if option.get("na") is True:
            criterion.leave_out(f"{name}.{number}", "scale")
        else:
            found.append(_option(option))
    if tuple(text for _, text in found) == _YES_NO:
        return ""
    error = criterion.error(
        "must be two or more, each with a value or none of them", name
    )
    return guide_of(_shares(found, error), lost=lost)


def _option(option: Row) -> tuple[float | None, str]:
    option.maybe_flag("na")
    value = None if option.get(*_VALUE) is None else option.number(*_VALUE)
    label = option.text(*_LABEL)
    more = option.maybe_text("description", "explanation")
    return value, label if more in ("", label) else f"{label}: {more}"


def _shares(
    found: Sequence[tuple[float | None, str]], error: RubricFileError
) -> list[Level]:
    values = [value for value, _ in found if value is not None]
    if len(found) < 2 or len(values) not in (0, len(found)):  # noqa: PLR2004
        raise error
    if not values:
        values = [float(number) for number in range(len(found))]
    low, high = (
        (0.0, 1.0)
        if min(values) >= 0 and max(values) <= 1
        else (min(values), max(values))
    )
    if low == high:
        raise error
    return [
        ((value - low) / (high - low), text)
        for value, (_, text) in zip(values, found, strict=True)
    ]
