"""Criteria within criteria: a leaf's weight is its share of its ancestors'."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from rubric_core.formats.draft import Points
from rubric_core.formats.row import Row

_CHILDREN = (
    "children",
    "sub_tasks",
    "sub_criteria",
    "subcriteria",
    "sub_rubrics",
    "sections",
    "criteria",
    "rubrics",
    "rubric",
    "items",
)
"""Names under which sources keep the criteria that a criterion consists of."""
_IDS = ("id", "criterion_id", "rubric_item_id")
_DEEPEST = 50


class Node(NamedTuple):
    """A criterion, as its source gives it."""

    points: Points
    has_weight: bool
    """Whether the source gives its weight."""


ReadNode = Callable[[Row], Node]


def children_of(row: Row) -> str:
    """Return the name under which a criterion keeps criteria of its own, "" for none."""
    for name in _CHILDREN:
        value = row.get(name)
        if isinstance(value, list) and value:
            return name
    return ""


def nodes_of(
    row: Row,
    name: str,
    read: ReadNode,
    *,
    above: tuple[str, ...] = (),
) -> list[Node]:
    """Read a list of criteria, each with those below it in its place.

    The weight of a criterion that has others below it is shared among them by their weights, so
    that each level is a weighted mean; one without a weight is a heading.

    Args:
        row: holds the list.
        name: the list's name.
        read: reads one criterion, without those below it.
        above: texts of the criteria that these are part of.

    Raises:
        RubricFileError: a criterion out of shape, or weights that cannot be shared.
    """
    nodes: list[Node] = []
    for number, item in enumerate(row.items(name)):
        place = f"{name}.{number}"
        if isinstance(item, str):
            row.take(place)
            nodes.append(_within(Node(Points(item), has_weight=False), above))
        else:
            nodes += _leaves(row.at(place, item), read, above)
    if len({node.has_weight for node in nodes}) > 1:
        first = [node.has_weight for node in nodes].index(False)
        raise row.error(
            f"has no weight at {first}, and others here have one: give it one", name
        )
    return nodes


def _leaves(
    row: Row,
    read: ReadNode,
    above: tuple[str, ...],
) -> Iterator[Node]:
    below = children_of(row)
    node = read(row)
    if not below:
        yield _within(node, above)
        return
    if len(above) >= _DEEPEST:
        raise row.error(f"is nested more than {_DEEPEST} deep", below)
    for name in _IDS:
        row.leave_out(name, "label")
    if node.points.guide:
        raise row.error("has criteria below it, and a scale or guide of its own", below)
    name = ": ".join(filter(None, (node.points.title, node.points.text)))
    if name:
        above = (*above, name)
    children: list[Node] = []
    for points, has_weight in nodes_of(row, below, read, above=above):
        evidence = node.points.evidence + points.evidence
        children.append(Node(replace(points, evidence=evidence), has_weight))
    if not node.has_weight:
        yield from children
        return
    weights = [child.points.points for child in children]
    if min(weights) < 0 or not sum(weights) > 0:
        raise row.error("must have weights ≥ 0 with a positive sum", below)
    avoidance = node.points.avoidance
    for child, weight in zip(children, weights, strict=True):
        share = node.points.points * weight / sum(weights)
        points = replace(child.points, points=share, avoidance=avoidance)
        yield Node(points, has_weight=True)


def _within(node: Node, above: tuple[str, ...]) -> Node:
    return Node(replace(node.points, above=above), node.has_weight)
