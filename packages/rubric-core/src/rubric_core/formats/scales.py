"""Readers of criteria with a scale of their own: shares of shares, and levels such as 1 to 5."""

import re
from collections.abc import Mapping
from dataclasses import replace

from rubric_core.formats.draft import Draft, Points
from rubric_core.formats.row import Row
from rubric_core.formats.trees import Node, nodes_of
from rubric_core.schema.conversation import Turn

_WHOLE = 100.0
"""A tree's total weight: shares of it read as percent."""


def read_paperbench(row: Row) -> Draft:
    """Read a PaperBench tree: its leaves, each with its share of the root.

        share(leaf) = Π over its ancestors of weight / Σ weights of the siblings

    Σ share · score over the leaves is then the tree's weighted mean, to the rounding of floats.
    """
    name = row.text("requirements")
    if row.get("sub_tasks") is None:
        leaves = [_task(row).points]
    else:
        nodes = nodes_of(row, "sub_tasks", _task, above=(name,))
        leaves = [node.points for node in nodes]
    weights = [leaf.points for leaf in leaves]
    total = sum(weights)
    if min(weights) < 0 or not total > 0:
        raise row.error("must have weights ≥ 0 with a positive sum", "sub_tasks")
    criteria = tuple(
        replace(leaf, points=_WHOLE * leaf.points / total) for leaf in leaves
    )
    turns = (("user", name),)
    return Draft(criteria, turns, row.text("id"))


def _task(node: Row) -> Node:
    kinds = (
        node.maybe_text("task_category"),
        node.maybe_text("finegrained_task_category"),
    )
    points = Points(
        text=node.text("requirements"),
        points=node.number("weight"),
        id=node.text("id"),
        title=": ".join(filter(None, kinds)),
    )
    return Node(points, has_weight=True)


def read_deep_research_bench(row: Row) -> Draft:
    """Read a DeepResearch Bench row: criteria within dimensions, both weighted."""
    dimensions = row.inner("dimension_weight")
    within = row.inner("criterions")
    criteria: list[Points] = []
    for dimension in dimensions.fields:
        for item in within.rows(dimension):
            criterion = item.text("criterion")
            explanation = item.text("explanation")
            share = dimensions.number(dimension) * item.number("weight")
            points = Points(
                text=f"{criterion}: {explanation}",
                points=_WHOLE * share,
                title=dimension,
            )
            criteria.append(points)
    turns = tuple(row.turns("prompt"))
    return Draft(tuple(criteria), turns, row.identifier("id"))


def read_scholarqabench(row: Row) -> Draft:
    """Read a ScholarQABench case: the weighted, evidence-backed criteria.

    The case's weights for length, expertise, citations and excerpts belong to other metrics of that
    benchmark and are left out.
    """
    inner = row.inner("metric_config").inner("config")
    criteria = tuple(
        Points(
            text=item.text("criterion"),
            points=item.number("weight"),
            id=item.text("name"),
            evidence=item.texts("evidence"),
        )
        for item in inner.rows("other_properties")
    )
    turns = row.turns("metric_config.config.question", "initial_prompt")
    return Draft(criteria, tuple(turns), row.identifier("case_id"))


def read_prbench(row: Row) -> Draft:
    """Read a PRBench task: every criterion's class of weight names the field that holds it.

    The reference texts of a turn go before its prompt, as the benchmark asks it, and are what a
    judge can check against.
    """
    criteria: list[Points] = []
    for item in row.rows("rubric"):
        notes = item.inner("annotations")
        weight_class = notes.text("weight_class").strip().lower()
        weight_field = weight_class.replace(" ", "_") + "_weight"
        title = item.maybe_text("title")
        text = notes.maybe_text("criteria_description")
        points = Points(
            text=text or item.text("title"),
            points=notes.number(weight_field),
            id=item.identifier("id"),
            title=title,
        )
        criteria.append(points)
    turns, documents = _conversation(row)
    return Draft(
        tuple(criteria),
        turns,
        source_id=row.maybe_text("task"),
        passage="\n\n".join(documents),
    )


def _conversation(row: Row) -> tuple[tuple[Turn, ...], list[str]]:
    """Return the turns up to the last prompt, whose answer was judged, and their documents."""
    turns = list[Turn]()
    documents = list[str]()
    number = 0
    while prompt := row.maybe_text(f"prompt_{number}"):
        parts: list[str] = []
        for place, text in enumerate(row.texts(f"reference_texts_{number}"), start=1):
            documents.append(text)
            parts.append(f"Reference text {place}:\n{text}")
        parts.append(prompt)
        turns.append(("user", "\n\n".join(parts)))
        number += 1
        if row.get(f"prompt_{number}") is not None:
            response = row.text(f"response_{number - 1}")
            turns.append(("assistant", response))
    if not turns:
        row.text("prompt_0")  # raises, and says what is missing
    return tuple(turns), documents


_LEVELS = (1, 2, 3, 4, 5)


def _guide(levels: Mapping[int, str], *, width: int = 1) -> str:
    """Return a scoring guide whose scores begin at 0.

    Args:
        levels: the text of each level, by its lowest score in the source.
        width: scores that share a level.
    """
    lowest = min(levels)
    lines: list[str] = []
    for low, text in levels.items():
        first = low - lowest
        scores = str(first)
        if width > 1:
            last = first + width - 1
            scores += f" to {last}"
        lines.append(f"{scores}: {text}")
    return "\n".join(lines)


def _levelled(criterion: str, levels: Mapping[int, str]) -> tuple[Points]:
    """Return the one criterion of a source with levels 1 to 5, which become scores 0 to 4."""
    return (Points(criterion, 4.0, guide=_guide(levels)),)


def _levels_of(rubric: Row, name: str) -> dict[int, str]:
    return {level: rubric.text(name.format(level)) for level in _LEVELS}


def read_biggen(row: Row) -> Draft:
    """Read a BiGGen-Bench instance."""
    rubric = row.inner("score_rubric")
    criterion = rubric.text("criteria")
    levels = _levels_of(rubric, "score{}_description")
    turns = row.turns("input")
    system = row.maybe_text("system_prompt")
    if system:
        turns.insert(0, ("system", system))
    reference = row.maybe_text("reference_answer")
    return Draft(
        _levelled(criterion, levels),
        tuple(turns),
        row.identifier("id"),
        reference,
    )


def read_feedback_collection(row: Row) -> Draft:
    """Read a row of Prometheus's Feedback Collection or Preference Collection."""
    criterion = row.text("orig_criteria")
    levels = _levels_of(row, "orig_score{}_description")
    reference = row.maybe_text("orig_reference_answer")
    turns = row.turns("orig_instruction")
    return Draft(
        _levelled(criterion, levels),
        tuple(turns),
        reference=reference,
    )


_SECTION = re.compile(r"^###([^:\n]+):[ \t]*\n?", re.MULTILINE)
_LEVEL = re.compile(r"^Score (\d):\s*(.+)$", re.MULTILINE)
_INSTRUCTION = "The instruction to evaluate"
_SCALE = "Score Rubric"
_REFERENCE = "Reference Answer"
_NOT_RUBRIC = {
    "Task Description": "setting",
    "Response": "answer",
    "Feedback": "answer",
}
"""Beginnings of the titles of sections that are left out, with the reason: the judge's
instructions, and an answer with its judgement."""


def read_prometheus(row: Row) -> Draft:
    """Read a row of Prometheus or its library: a whole prompt, or the parts of one."""
    if row.get("orig_criteria") is not None:
        return read_feedback_collection(row)
    if isinstance(row.get("rubric", "score_rubric"), dict):
        return _read_parts(row)
    name = row.name_of("instruction", "chosen_instruction")
    draft = _read_prompt(row, name)
    rejected = "rejected_instruction"
    if row.get(rejected) is not None and _read_prompt(row, rejected) != draft:
        raise row.error("asks something else than `chosen_instruction`", rejected)
    return replace(draft, source_id=row.identifier("idx", "id"))


def _read_parts(row: Row) -> Draft:
    rubric = row.inner("rubric", "score_rubric")
    criterion = rubric.text("criteria", "criteria_description")
    levels = _levels_of(rubric, "score{}_description")
    turns = row.turns("instruction", "input")
    reference = row.maybe_text("reference_answer", "reference")
    return Draft(
        _levelled(criterion, levels),
        tuple(turns),
        row.identifier("id", "idx"),
        reference,
    )


def _read_prompt(row: Row, name: str) -> Draft:
    before, *parts = _SECTION.split(row.text(name))
    titles = parts[::2]
    contents = [content.strip() for content in parts[1::2]]
    sections = dict(zip(titles, contents, strict=True))
    instruction = _section(sections, _INSTRUCTION)
    scale = _section(sections, _SCALE)
    levels = {int(score): text for score, text in _LEVEL.findall(scale)}
    if not instruction or len(levels) != len(_LEVELS):
        raise row.error(
            "is no Prometheus prompt: an instruction and levels 1 to 5", name
        )
    known = (_INSTRUCTION, _SCALE, _REFERENCE, *_NOT_RUBRIC)
    unread = [title for title in sections if not title.startswith(known)]
    if unread or before.strip():
        raise row.error("has a part that does not belong to a Prometheus prompt", name)
    left_out: dict[str, str] = {}
    for title in sections:
        for beginning, reason in _NOT_RUBRIC.items():
            if title.startswith(beginning):
                left_out[title] = reason
    row.take_parts(name, sections, left_out=left_out)
    first_line = scale.partition("\n")[0]
    criterion = first_line.strip().removeprefix("[").removesuffix("]")
    reference = _section(sections, _REFERENCE)
    turns = (("user", instruction),)
    return Draft(_levelled(criterion, levels), turns, reference=reference)


def _section(sections: dict[str, str], beginning: str) -> str:
    """Return the first section whose title has a beginning, or ""."""
    for title, content in sections.items():
        if title.startswith(beginning):
            return content
    return ""


def read_writingbench(row: Row) -> Draft:
    """Read a WritingBench query, whose criteria have scores 1 to 10 in five bands of two."""
    criteria: list[Points] = []
    for item in row.rows("checklist"):
        text = item.text("criteria_description")
        title = item.text("name")
        bands = {low: item.text(f"{low}-{low + 1}") for low in (1, 3, 5, 7, 9)}
        points = Points(
            text,
            points=9.0,
            title=title,
            guide=_guide(bands, width=2),
        )
        criteria.append(points)
    turns = tuple(row.turns("query"))
    return Draft(tuple(criteria), turns, row.identifier("index"))
