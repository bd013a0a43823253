"""Rubrics whose weights are shares of shares: trees, dimensions, and parts beside other parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rubric_core.formats.draft import Draft, Points, as_question

if TYPE_CHECKING:
    from rubric_core.formats.row import Row

_WHOLE: Final = 100.0
"""A tree's total weight: shares of it read as percent."""


def read_paperbench(row: Row) -> Draft:
    """Read a PaperBench tree: its leaves, each with its share of the root.

        share(leaf) = Π over its ancestors of weight / Σ weights of the siblings

    Σ share · score over the leaves is then the tree's weighted mean, to the rounding of floats.
    """
    leaves = tuple(_leaves(row, share=1.0, path=()))
    return Draft(question=row.text("requirements"), criteria=leaves, source_id=row.text("id"))


def _leaves(node: Row, *, share: float, path: tuple[str, ...]) -> Iterator[Points]:
    children = node.get("sub_tasks")
    if not children:
        yield Points(
            text=node.text("requirements"),
            points=_WHOLE * share,
            id=node.text("id"),
            title=node.maybe_text("finegrained_task_category", "task_category"),
            guide="Part of: " + " > ".join(path) if path else "",
        )
        return
    rows = list(node.rows("sub_tasks"))
    weights = [child.number("weight") for child in rows]
    if min(weights) < 0 or not sum(weights) > 0:
        raise node.error("must have weights ≥ 0 with a positive sum", "sub_tasks")
    for child, weight in zip(rows, weights, strict=True):
        below = (*path, node.text("requirements"))
        yield from _leaves(child, share=share * weight / sum(weights), path=below)


def read_deep_research_bench(row: Row) -> Draft:
    """Read a DeepResearch Bench row: criteria within dimensions, both weighted."""
    dimensions = row.at("dimension_weight", row.get("dimension_weight"))
    within = row.at("criterions", row.get("criterions"))
    criteria = tuple(
        Points(
            text=f"{item.text('criterion')}: {item.text('explanation')}",
            points=_WHOLE * dimensions.number(dimension) * item.number("weight"),
            title=dimension,
        )
        for dimension in dimensions.fields
        for item in within.rows(dimension)
    )
    return Draft(
        question=row.text("prompt"),
        criteria=criteria,
        source_id=row.identifier("id"),
    )


def read_scholarqabench(row: Row) -> Draft:
    """Read a ScholarQABench case: the weighted, evidence-backed criteria.

    The case's weights for length, expertise, citations and excerpts belong to other metrics of that
    benchmark and are left out.
    """
    config = row.at("metric_config", row.get("metric_config"))
    inner = config.at("config", config.get("config"))
    criteria = tuple(
        Points(
            text=item.text("criterion"),
            points=item.number("weight"),
            id=item.text("name"),
            evidence=item.texts("evidence"),
        )
        for item in inner.rows("other_properties")
    )
    return Draft(
        question=inner.text("question"), criteria=criteria, source_id=row.maybe_text("case_id")
    )


def read_prbench(row: Row) -> Draft:
    """Read a PRBench task: every criterion's class of weight names the field that holds it."""
    criteria: list[Points] = []
    for item in row.rows("rubric"):
        notes = item.at("annotations", item.get("annotations"))
        field = notes.text("weight_class").strip().lower().replace(" ", "_") + "_weight"
        criteria.append(
            Points(
                text=notes.maybe_text("criteria_description") or item.text("title"),
                points=notes.number(field),
                id=item.maybe_text("id"),
                title=item.maybe_text("title"),
            )
        )
    return Draft(question=_turns(row), criteria=tuple(criteria), source_id=row.maybe_text("task"))


def _turns(row: Row) -> str:
    said = [("user", row.text("prompt_0"))]
    number = 0
    while answer := row.maybe_text(f"response_{number}"):
        number += 1
        if not (prompt := row.maybe_text(f"prompt_{number}")):
            break  # the last answer is the one that was judged
        said += [("assistant", answer), ("user", prompt)]
    return as_question(said)
