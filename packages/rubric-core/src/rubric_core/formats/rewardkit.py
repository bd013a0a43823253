"""Reader of Reward Kit's judge files: criteria, and their part of the sum that is the reward."""

from collections.abc import Iterator

from rubric_core.formats.draft import Draft, Points
from rubric_core.formats.guides import guide_of, scale_of
from rubric_core.formats.row import Row

MEAN = "weighted-mean"
SUM = "weighted-sum"
_AGAINST = "Must not hold: "
_AGAINST_GUIDE = "Full marks if what is described is not so; 0 if it is."


def read_rewardkit(row: Row) -> Iterator[Draft]:
    """Read a judge file of Reward Kit: `[[criterion]]` tables, weighted.

    The settings of its judge are left out. `judge.reference` names a file with a reference answer,
    which nothing here reads: put its text into `reference_answer` of the questions.
    """
    aggregation = linear_aggregation(row, "scoring.aggregation")
    criteria = read_judge_file(row, share=1.0, is_mean=False, aggregation=aggregation)
    yield Draft(criteria)


def linear_aggregation(row: Row, name: str) -> str:
    """Return how scores become one: `weighted-mean`, which is also the default, or `weighted-sum`.

    Raises:
        RubricFileError: another way, which is no sum of weighted scores.
    """
    aggregation = row.maybe_text(name).replace("_", "-") or MEAN
    if aggregation not in (MEAN, SUM):
        raise row.error(
            f"must be one of {MEAN}, {SUM}: no other one is a weighted sum, which the "
            "reward of a rubric is",
            name,
        )
    return aggregation


def read_judge_file(
    row: Row, *, share: float, is_mean: bool, aggregation: str
) -> tuple[Points, ...]:
    """Return the criteria of a judge file, each with its part of the whole sum.

    Args:
        row: the file.
        share: the file's own part of the sum.
        is_mean: whether a weighted mean is divided by the sum of its weights, which matters where
            other files are beside this one.
        aggregation: `weighted-mean` or `weighted-sum`; only the latter has negative weights.

    Raises:
        RubricFileError: a criterion that cannot be read, or a weight that is negative in a mean.
    """
    if not isinstance(row.get("criterion"), list):
        problem = "must be tables, [[criterion]], as a judge file of Reward Kit has"
        raise row.error(problem, "criterion")
    items = list(row.rows("criterion"))
    weights = [_number_or(1.0, item, "weight") for item in items]
    for item, weight in zip(items, weights, strict=True):
        if weight < 0 and aggregation != SUM:
            raise item.error(
                f"must be 0 or more, as `scoring.aggregation` is not {SUM!r}", "weight"
            )
    total = sum(weights) if is_mean and aggregation == MEAN else 1.0
    scale = share / total if total else 0.0
    pairs = zip(items, weights, strict=True)
    return tuple(_criterion(item, weight * scale) for item, weight in pairs)


def _criterion(item: Row, points: float) -> Points:
    """Return a criterion; a negative weight of a negated one is a positive one of what it says."""
    negate = item.maybe_flag("negate")
    if negate is None:
        negate = "negative" in item.maybe_text("annotations.type").lower()
    lost = negate != (points < 0)
    text = item.text("description")
    name = item.maybe_text("name")
    guide = _rated(item, lost=lost)
    if negate and points >= 0:
        text = _AGAINST + text
        guide = guide or _AGAINST_GUIDE
    return Points(
        text=text,
        points=abs(points) if negate else points,
        id=item.identifier("id") or name,
        title=name,
        guide=guide,
    )


def _number_or(default: float, item: Row, name: str) -> float:
    if item.get(name) is None:
        return default
    return item.number(name)


def _rated(item: Row, *, lost: bool) -> str:
    """Return the guide for the type of rating of a criterion."""
    kind = item.maybe_text("type") or "binary"
    match kind:
        case "binary":
            return ""
        case "likert":
            high = _number_or(5.0, item, "points")
            return _between(1.0, high, lost=lost)
        case "numeric":
            low = _number_or(0.0, item, "min")
            high = _number_or(1.0, item, "max")
            return _between(low, high, lost=lost)
        case "rubric":
            return scale_of(item, lost=lost)
        case _:
            problem = "must be `binary`, `likert`, `numeric` or `rubric`"
            raise item.error(problem, "type")


def _between(low: float, high: float, *, lost: bool) -> str:
    scale = f"Rate from {low:g} to {high:g}; what lies between earns in proportion."
    levels = [(0.0, f"{low:g}"), (1.0, f"{high:g}")]
    ends = guide_of(levels, lost=lost)
    return f"{scale}\n{ends}"
