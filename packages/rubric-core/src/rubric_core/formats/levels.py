"""Anchored scales: one criterion whose levels are described, such as 1 to 5.

s = level − lowest level,    w = highest level − lowest level
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rubric_core.formats.draft import Draft, Points

if TYPE_CHECKING:
    from rubric_core.formats.row import Row

_LEVELS: Final = (1, 2, 3, 4, 5)
_BANDS: Final = ((1, 2), (3, 4), (5, 6), (7, 8), (9, 10))


def _guide(descriptions: dict[tuple[int, int], str]) -> str:
    lowest = min(low for low, _ in descriptions)
    return "\n".join(
        f"{_span(low - lowest, high - lowest)}: {text}"
        for (low, high), text in descriptions.items()
    )


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def read_biggen(row: Row) -> Draft:
    """Read a BiGGen-Bench instance."""
    rubric = row.at("score_rubric", row.get("score_rubric"))
    levels = {(n, n): rubric.text(f"score{n}_description") for n in _LEVELS}
    system = row.maybe_text("system_prompt")
    question = row.text("input")
    return Draft(
        question=f"{system}\n\n{question}" if system else question,
        criteria=(Points(text=rubric.text("criteria"), points=4.0, guide=_guide(levels)),),
        source_id=row.maybe_text("id"),
        reference=row.maybe_text("reference_answer"),
    )


def read_feedback_collection(row: Row) -> Draft:
    """Read a row of Prometheus's Feedback Collection."""
    levels = {(n, n): row.text(f"orig_score{n}_description") for n in _LEVELS}
    return Draft(
        question=row.text("orig_instruction"),
        criteria=(Points(text=row.text("orig_criteria"), points=4.0, guide=_guide(levels)),),
        reference=row.maybe_text("orig_reference_answer"),
    )


_SECTION: Final = re.compile(r"^###([^:\n]+):[ \t]*\n?", re.MULTILINE)
_LEVEL: Final = re.compile(r"^Score (\d):\s*(.+)$", re.MULTILINE)


def read_prometheus(row: Row) -> Draft:
    """Read a whole prompt of Prometheus: its sections hold instruction, reference and levels."""
    name = "instruction" if row.get("instruction") else "chosen_instruction"
    parts = _SECTION.split(row.text(name))
    sections = dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))
    asked = _starting(sections, "The instruction to evaluate")
    scale = _starting(sections, "Score Rubrics")
    levels = {(int(n), int(n)): text for n, text in _LEVEL.findall(scale)}
    if not asked or len(levels) != len(_LEVELS):
        raise row.error("is no Prometheus prompt: an instruction and levels 1 to 5", name)
    criterion = scale.partition("\n")[0].strip().removeprefix("[").removesuffix("]")
    return Draft(
        question=asked,
        criteria=(Points(text=criterion, points=4.0, guide=_guide(levels)),),
        source_id=row.identifier("idx"),
        reference=_starting(sections, "Reference Answer"),
    )


def _starting(sections: dict[str, str], title: str) -> str:
    return next((text for name, text in sections.items() if name.startswith(title)), "")


def read_writingbench(row: Row) -> Draft:
    """Read a WritingBench query, whose criteria have five bands of 1 to 10."""
    criteria = tuple(
        Points(
            text=item.text("criteria_description"),
            points=9.0,
            title=item.text("name"),
            guide=_guide({(low, high): item.text(f"{low}-{high}") for low, high in _BANDS}),
        )
        for item in row.rows("checklist")
    )
    return Draft(
        question=row.text("query"),
        criteria=criteria,
        source_id=row.identifier("index"),
    )
