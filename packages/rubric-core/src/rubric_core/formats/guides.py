"""Scoring guides: how much of a criterion's weight each level, option or rating earns."""

from collections.abc import Sequence

from rubric_core.errors import RubricFileError
from rubric_core.formats.row import Row

Level = tuple[float, str]
"""Share of the weight that the level earns, and its text."""

_SCALES = ("options", "choices", "levels", "anchors")
_YES_NO = ("no", "yes")
_LABEL = ("label", "text", "description", "name")
_VALUE = ("value", "score", "points")


def guide_of(levels: Sequence[Level], *, lost: bool = False) -> str:
    """Return a guide of one line for each level.

    Args:
        levels: the levels to choose from.
        lost: the shares are of the points that the criterion takes away.
    """
    lines: list[str] = []
    for share, text in levels:
        kept_share = 1 - share if lost else share
        lines.append(f"{100 * kept_share:.4g}% of the weight: {text}")
    return "\n".join(lines)


def scale_of(criterion: Row, *, lost: bool = False) -> str:
    """Return the guide in the options, choices, levels or anchors of a criterion, "" without any.

    Options with a value earn it, the others their rank, worst first. An option that stands for "not
    applicable" is left out: a judge here scores every criterion.

    Raises:
        RubricFileError: fewer than two, or values that are no scale.
    """
    name = criterion.name_of(*_SCALES)
    if criterion.get(name) is None:
        return ""
    items = criterion.items(name)
    options: list[tuple[float | None, str]] = []
    for number, item in enumerate(items):
        if isinstance(item, str):
            criterion.take(f"{name}.{number}")
            options.append((None, item))
            continue
        option = criterion.at(f"{name}.{number}", item)
        if option.get("na") is True:
            criterion.leave_out(f"{name}.{number}", "scale")
        else:
            options.append(_option(option))
    if tuple(text for _, text in options) == _YES_NO:
        return ""
    problem = "must be two or more, each with a value or none of them"
    levels = _shares(options, criterion.error(problem, name))
    return guide_of(levels, lost=lost)


def _option(option: Row) -> tuple[float | None, str]:
    option.maybe_flag("na")
    value = None
    if option.get(*_VALUE) is not None:
        value = option.number(*_VALUE)
    label = option.text(*_LABEL)
    explanation = option.maybe_text("description", "explanation")
    if explanation in ("", label):
        return value, label
    return value, f"{label}: {explanation}"


def _shares(
    options: Sequence[tuple[float | None, str]], error: RubricFileError
) -> list[Level]:
    """Return each option with its value, or else its rank, as a share from 0 to 1."""
    values = [value for value, _ in options if value is not None]
    if len(options) < 2 or len(values) not in (0, len(options)):  # noqa: PLR2004
        raise error
    if not values:
        values = [float(number) for number in range(len(options))]
    low = min(values)
    high = max(values)
    if low >= 0 and high <= 1:
        low = 0.0
        high = 1.0
    if low == high:
        raise error
    return [
        ((value - low) / (high - low), text)
        for value, (_, text) in zip(values, options, strict=True)
    ]
