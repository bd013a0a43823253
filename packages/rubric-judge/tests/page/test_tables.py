"""A table as Markdown and LaTeX: names that are markup, numbers that round, the best in bold."""

from pathlib import Path

import pytest

from rubric_judge.ui.page.rendering import write_plain_page
from rubric_judge.ui.page.tables import (
    Cell,
    Column,
    Report,
    Row,
    Table,
    latex,
    markdown,
    written,
)


def _table(*rows: tuple[str, float | None]) -> Table:
    return Table(
        key="t",
        title="Title.",
        caption="100 % of A_B & C.",
        first="Method",
        columns=(
            Column(
                key="x", title="x, %", form="percent", has_interval=True, is_ranked=True
            ),
        ),
        rows=tuple(
            Row(name=name, cells=(Cell(value=value, low=0.1, high=0.9),))
            for name, value in rows
        ),
    )


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.7165, "percent", "71.7"),
        (-0.0525, "points", "−5.2"),
        (0.0513, "points", "+5.1"),
        (-0.0001, "points", "0.0"),
        (0.71, "tenths", "7.1"),
        (12345.0, "count", "12,345"),
        (0.0, "probability", "<0.001"),
        (1.0, "probability", "1.000"),
        (None, "percent", "–"),
    ],
)
def test_numbers_are_written_for_people(
    value: float | None, form: str, text: str
) -> None:
    assert written(value, form) == text  # pyright: ignore[reportArgumentType]


def test_the_best_is_in_bold_and_a_tie_is_in_bold_twice() -> None:
    lines = markdown(_table(("a", 0.5), ("b", 0.7001), ("c", 0.7002))).splitlines()

    assert lines[-3:] == [
        "| a | 50.0 (10.0 to 90.0) |",
        "| b | **70.0** (10.0 to 90.0) |",
        "| c | **70.0** (10.0 to 90.0) |",
    ]


def test_nothing_is_best_where_all_are_equal() -> None:
    assert "**5" not in markdown(_table(("a", 0.5), ("b", 0.5)))


def test_a_name_that_is_markup_stays_a_name() -> None:
    table = _table(("a|b_<i>*", 0.5), (r"\input{x}$", 0.7))

    assert r"| a\|b\_\<i\>\* |" in markdown(table)
    assert r"\textbackslash{}input\{x\}\$ & " in latex(table)


def test_latex_is_a_table_of_its_own() -> None:
    text = latex(_table(("a_b", 0.5), ("c", None)))

    assert text.startswith("\\begin{table}")
    assert r"\caption{\textbf{Title.} 100 \% of A\_B \& C.}" in text
    assert r"a\_b & $50.0\;{\scriptstyle [10.0, 90.0]}$ \\" in text
    assert r"c & -- \\" in text
    assert text.count("{") == text.count("}")


def test_rows_beside_the_competition_are_not_bold() -> None:
    table = _table(("model", 0.5), ("other", 0.4), ("control", 0.9))
    roles = ("main", "main", "")
    rows = [
        row.model_copy(update={"role": role, "group": role and "models"})
        for row, role in zip(table.rows, roles, strict=True)
    ]
    dots = table.model_copy(update={"look": "dots", "rows": tuple(rows)})

    assert [dots.is_best(row, 0) for row in dots.rows] == [True, False, False]
    more = rows[2].model_copy(update={"cells": (Cell(value=0.1),)})
    dots = dots.model_copy(update={"rows": (*rows, more)})
    assert not dots.is_best(rows[2], 0)


def test_pages_keep_parts_words_and_per_cents_in_their_places(tmp_path: Path) -> None:
    words = "most of the weight: it meets every criterion"
    write_plain_page(_Told(text=words), tmp_path / "page.html")

    text = (tmp_path / "page.html").read_text("utf-8")
    assert "95.5\N{NO-BREAK SPACE}% of it" in text
    assert '<span class="part">  ordinal</span>' in text
    assert f'<td class="words">{words}</td>' in text
    assert "<td>0.84</td>" in text


class _Told(Report):
    text: str

    @property
    def heading(self) -> str:
        return "Heading"

    def summary(self) -> str:
        return "95.5 % of it"

    def method(self) -> str:
        return ""

    def tables(self) -> list[Table]:
        rows = [("all", self.text), ("  ordinal", "0.84")]
        return [Table.from_texts("Title", ("", "value"), rows)]
