"""Readers of libraries' rubric files: verifiers, `rubric`, autorubric, rubric-spec."""

from collections.abc import Iterator
from dataclasses import replace

from rubric_core.formats.checklists import ANY
from rubric_core.formats.draft import Draft, Points
from rubric_core.formats.guides import scale_of
from rubric_core.formats.row import Row
from rubric_core.formats.trees import Node, nodes_of

_DEFAULTS = {"requirement": 10.0, "text": 1.0}
"""Weights of criteria whose file does not say, by the name of their text: autorubric's and
verifiers'."""
_LISTS = ("criteria", "rubrics", "rubric", "sections")


def read_criteria(row: Row) -> Iterator[Draft]:
    """Read a list of criteria: verifiers' `criteria`, autorubric's, `rubric`'s, oumi's.

    A file may hold the question too. Like autorubric's data sets it may hold several items, each
    with its own question, rubric or reference answer; answers in them are left out.
    """
    has_rubric = any(row.get(name) is not None for name in _LISTS)
    criteria = ()
    if has_rubric:
        criteria = _criteria(row)
    turns = ()
    passage = ""
    if row.get(*ANY.question) is not None:
        turns, passage = ANY.asked(row)
    reference = row.maybe_text(*ANY.reference)
    whole = Draft(
        criteria,
        turns,
        source_id=row.maybe_text("name", "id"),
        reference=reference,
        passage=passage,
    )
    if row.get("items") is None:
        if not has_rubric:
            row.items(*_LISTS)  # raises, and says what is missing
        yield whole
        return
    drafts: dict[Draft, None] = {}
    for item in row.rows("items"):
        drafts[_item(item, whole)] = None
    yield from drafts


def _item(item: Row, whole: Draft) -> Draft:
    criteria = whole.criteria
    if item.get("rubric") is not None:
        criteria = _criteria(item)
    if not criteria:
        raise item.error("must be there, or a rubric of all items", "rubric")
    turns = whole.turns
    if item.get("prompt") is not None:
        turns = tuple(item.turns("prompt"))
    reference = item.maybe_text("reference_submission") or whole.reference
    return replace(whole, criteria=criteria, turns=turns, reference=reference)


def _criteria(row: Row) -> tuple[Points, ...]:
    """Return the criteria in a list, in sections, or in an object with guidelines for them all."""
    name = row.name_of(*_LISTS)
    guidelines = row.maybe_text("guidelines")
    if isinstance(row.get(name), dict):
        row = row.inner(name)
        name = row.name_of(*_LISTS)
        guidelines = guidelines or row.maybe_text("guidelines")
    criteria: list[Points] = []
    for node in nodes_of(row, name, _node):
        guides = (guidelines, node.points.guide)
        guide = "\n".join(filter(None, guides))
        criteria.append(replace(node.points, guide=guide))
    return tuple(criteria)


def _node(criterion: Row) -> Node:
    node = ANY.node(criterion)
    if node.has_weight:
        return node
    for name, weight in _DEFAULTS.items():
        if criterion.get(name) is not None:
            points = replace(node.points, points=weight)
            return Node(points, has_weight=True)
    return node


def read_rubric_spec(row: Row) -> Iterator[Draft]:
    """Read an AuraOne rubric, which the package rubric-spec validates."""
    if row.text("version") != "auraone-rubric-v1":
        raise row.error("must be `auraone-rubric-v1`", "version")
    criteria = tuple(map(_anchored, row.rows("criteria")))
    yield Draft(criteria, source_id=row.identifier("rubric_id"))


def _anchored(item: Row) -> Points:
    label = item.maybe_text("label")
    text = item.maybe_text("description") or item.text("label")
    kind = item.maybe_text("scale_type", "scale")
    lines: list[str] = []
    if kind != "binary" or item.get("anchors") is not None:
        lines.append(scale_of(item))
    if item.get("examples"):
        for number, value in enumerate(item.items("examples")):
            lines.append(_example(number, value, item))
    return Points(
        text=text,
        points=item.number("weight"),
        id=item.identifier("criterion_id"),
        title=label,
        guide="\n".join(filter(None, lines)),
    )


def _example(number: int, value: object, item: Row) -> str:
    place = f"examples.{number}"
    item.take(place)
    if isinstance(value, str):
        return f"Example: {value}"
    fields = item.at(place, value).fields
    parts = [f"{name}: {part}" for name, part in fields.items()]
    return "Example: " + "; ".join(parts)
