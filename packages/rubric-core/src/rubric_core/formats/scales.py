"""Criteria with a scale of their own: shares of shares, and levels such as 1 to 5."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from rubric_core.formats.draft import Draft, Points, as_question
from rubric_core.formats.row import Row

_WHOLE: Final = 100.0
"""A tree's total weight: shares of it read as percent."""


def read_paperbench(row: Row) -> Draft:
    """Read a PaperBench tree: its leaves, each with its share of the root.

        share(leaf) = Π over its ancestors of weight / Σ weights of the siblings

    Σ share · score over the leaves is then the tree's weighted mean, to the rounding of floats.
    """
    leaves = tuple(_leaves(row, share=1.0, path=()))
    return Draft(leaves, row.text("requirements"), row.text("id"))


def _leaves(node: Row, *, share: float, path: tuple[str, ...]) -> Iterator[Points]:
    children = node.get("sub_tasks")
    if not children:
        guide = "Part of: " + " > ".join(path) if path else ""
        title = node.maybe_text("finegrained_task_category", "task_category")
        yield Points(node.text("requirements"), _WHOLE * share, node.text("id"), title, guide)
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
            f"{item.text('criterion')}: {item.text('explanation')}",
            _WHOLE * dimensions.number(dimension) * item.number("weight"),
            title=dimension,
        )
        for dimension in dimensions.fields
        for item in within.rows(dimension)
    )
    return Draft(criteria, row.text("prompt"), row.identifier("id"))


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
    return Draft(criteria, inner.text("question"), row.maybe_text("case_id"))


def read_prbench(row: Row) -> Draft:
    """Read a PRBench task: every criterion's class of weight names the field that holds it."""
    criteria: list[Points] = []
    for item in row.rows("rubric"):
        notes = item.at("annotations", item.get("annotations"))
        field = notes.text("weight_class").strip().lower().replace(" ", "_") + "_weight"
        text = notes.maybe_text("criteria_description") or item.text("title")
        name, title = item.maybe_text("id"), item.maybe_text("title")
        criteria.append(Points(text, notes.number(field), name, title))
    return Draft(tuple(criteria), _turns(row), row.maybe_text("task"))


def _turns(row: Row) -> str:
    said = [("user", row.text("prompt_0"))]
    number = 0
    while answer := row.maybe_text(f"response_{number}"):
        number += 1
        if not (prompt := row.maybe_text(f"prompt_{number}")):
            break  # the last answer is the one that was judged
        said += [("assistant", answer), ("user", prompt)]
    return as_question(said)


_LEVELS: Final = (1, 2, 3, 4, 5)


def _guide(levels: Mapping[int, str], *, width: int = 1) -> str:
    """The levels by their lowest score and text, each `width` scores wide."""
    to = " to {}" if width > 1 else ""
    lowest = min(levels)
    return "\n".join(
        f"{low - lowest}{to.format(low - lowest + width - 1)}: {text}"
        for low, text in levels.items()
    )


def _levelled(criterion: str, levels: Mapping[int, str]) -> tuple[Points]:
    """Return the one criterion of a source that scores from 1 to 5."""
    return (Points(criterion, 4.0, guide=_guide(levels)),)


def read_biggen(row: Row) -> Draft:
    """Read a BiGGen-Bench instance."""
    rubric = row.at("score_rubric", row.get("score_rubric"))
    levels = {n: rubric.text(f"score{n}_description") for n in _LEVELS}
    question, criteria = row.text("input"), _levelled(rubric.text("criteria"), levels)
    if system := row.maybe_text("system_prompt"):
        question = f"{system}\n\n{question}"
    return Draft(criteria, question, row.maybe_text("id"), row.maybe_text("reference_answer"))


def read_feedback_collection(row: Row) -> Draft:
    """Read a row of Prometheus's Feedback Collection."""
    levels = {n: row.text(f"orig_score{n}_description") for n in _LEVELS}
    criteria = _levelled(row.text("orig_criteria"), levels)
    reference = row.maybe_text("orig_reference_answer")
    return Draft(criteria, row.text("orig_instruction"), reference=reference)


_SECTION: Final = re.compile(r"^###([^:\n]+):[ \t]*\n?", re.MULTILINE)
_LEVEL: Final = re.compile(r"^Score (\d):\s*(.+)$", re.MULTILINE)


def read_prometheus(row: Row) -> Draft:
    """Read a whole prompt of Prometheus: its sections hold instruction, reference and levels."""
    name = "instruction" if row.get("instruction") else "chosen_instruction"
    parts = _SECTION.split(row.text(name))
    sections = dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))
    asked = _starting(sections, "The instruction to evaluate")
    scale = _starting(sections, "Score Rubrics")
    levels = {int(n): text for n, text in _LEVEL.findall(scale)}
    if not asked or len(levels) != len(_LEVELS):
        raise row.error("is no Prometheus prompt: an instruction and levels 1 to 5", name)
    criterion = scale.partition("\n")[0].strip().removeprefix("[").removesuffix("]")
    reference = _starting(sections, "Reference Answer")
    return Draft(_levelled(criterion, levels), asked, row.identifier("idx"), reference)


def _starting(sections: dict[str, str], title: str) -> str:
    return next((text for name, text in sections.items() if name.startswith(title)), "")


def read_writingbench(row: Row) -> Draft:
    """Read a WritingBench query, whose criteria have five bands of 1 to 10."""
    criteria = tuple(
        Points(
            text=item.text("criteria_description"),
            points=9.0,
            title=item.text("name"),
            guide=_guide({low: item.text(f"{low}-{low + 1}") for low in (1, 3, 5, 7, 9)}, width=2),
        )
        for item in row.rows("checklist")
    )
    return Draft(criteria, row.text("query"), row.identifier("index"))
