"""Files that hold a rubric and no question: every question of a list is judged by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rubric_core.errors import RubricFileError
from rubric_core.files import read_file
from rubric_core.formats.checklists import TEXT, WEIGHT
from rubric_core.formats.draft import Points

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_core.formats.row import Row


@dataclass(frozen=True, slots=True)
class NamedRubric:
    """A rubric of a file that may hold several."""

    name: str
    criteria: tuple[Points, ...]


def read_criteria(row: Row) -> Iterator[NamedRubric]:
    """Read a list of criteria: verifiers' `criteria`, autorubric's, `rubric`'s, oumi's.

    Verifiers' ordered `choices`, worst first, become the scoring guide.
    """
    criteria = tuple(
        Points(
            text=item.text(*TEXT),
            points=item.number(*WEIGHT) if item.get(*WEIGHT) is not None else 1.0,
            title=item.maybe_text("name", "title"),
            guide=_choices(item.texts("choices")),
        )
        for item in row.rows("criteria", "rubrics", "rubric")
    )
    yield NamedRubric(name=row.maybe_text("name"), criteria=criteria)


_YES_NO: Final = ("no", "yes")


def _choices(choices: tuple[str, ...]) -> str:
    if len(choices) < len(_YES_NO) or choices == _YES_NO:
        return ""
    share = len(choices) - 1
    return "\n".join(f"{n / share:.0%} of the weight: {text}" for n, text in enumerate(choices))


def read_hellobench(row: Row) -> Iterator[NamedRubric]:
    """Read a HelloBench checklist file: yes/no questions by category."""
    for category in row.fields:
        questions = row.texts(category)
        if questions:
            criteria = tuple(Points(text=question) for question in questions)
            yield NamedRubric(name=category, criteria=criteria)


def read_checkeval(path: Path) -> Iterator[NamedRubric]:
    """Read a CheckEval file: indented text, aspects with a yes/no question a line.

    Raises:
        RubricFileError: no question in it.
    """
    criteria: list[Points] = []
    aspect, inside = "", False
    for line in read_file(path).decode("utf-8-sig").splitlines():
        text = line.strip().removesuffix("|").strip()
        if not line[:1].isspace():
            inside = inside or text.startswith("sub_aspect")
        elif inside and text.endswith("?"):
            criteria.append(Points(text=text, title=aspect))
        elif inside and text.endswith(":"):
            aspect = text.removesuffix(":")
    if not criteria:
        raise RubricFileError("holds no `sub_aspect:` with questions under it", path=path)
    yield NamedRubric(name=path.stem, criteria=tuple(criteria))
