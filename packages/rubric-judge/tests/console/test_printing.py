"""Tables in a terminal of 80 columns, and in narrower ones."""

import pytest
from rich.console import Console

from rubric_judge.ui.console.printing import print_cells, print_table
from rubric_judge.ui.page.tables import Cell, Column, Row, Table

HEADER = ("model", "judge", "reward", "95 %", "zero", "invalid", "missing", "cut", "n")
FIGURES = ("43.1 %", "40.1 to 46.2", "10.5 %", "1.0 %", "0.0 %", "12.2 %", "120")
NAMES = ("control_right_in_other_words", "openai/gpt-oss-20b@low")


def _printed(width: int, *table: object) -> list[str]:
    stdout = Console(width=width, markup=False, highlight=False, force_terminal=False)
    with stdout.capture() as captured:
        print_cells(stdout, *table)  # pyright: ignore[reportArgumentType]
    return captured.get().splitlines()


def test_a_wide_terminal_shows_every_cell_in_one_line() -> None:
    title, _, _, row, _ = _printed(120, "Rewards", HEADER, [(*NAMES, *FIGURES)])
    assert title == "Rewards"
    assert row.split() == [*NAMES, *" ".join(FIGURES).split()]


def test_names_are_broken_behind_their_marks_and_figures_are_not() -> None:
    lines = _printed(80, "Rewards", HEADER, [(*NAMES, *FIGURES)])
    assert max(map(len, lines)) <= 80
    assert all(figure in lines[3] for figure in FIGURES)
    names = [line[:9].strip() for line in lines[3:] if line[:9].strip()]
    assert "".join(names) == NAMES[0]
    assert all(name.endswith("_") for name in names[:-1])


def test_eleven_figures_fit_into_a_terminal_without_broken_words() -> None:
    header = "criterion,weight %,mean %,spread,all met %,dead %,held down %,gradient %"
    header += ",idle tokens %,groups,scores"
    row = ("language", "12.5", "50.9", "0.33", "0.0", "0.0", "0.0", "12.5", "0.0")
    lines = _printed(80, "", header.split(","), [(*row, "18", "594")])
    assert max(map(len, lines)) <= 80
    assert lines[-2].split() == [*row, "18", "594"]
    words = " ".join(lines[: lines.index(next(x for x in lines if "─" in x))]).split()
    assert {"criterion", "weight", "spread", "gradient", "tokens", "scores"} <= set(
        words
    )


def test_nothing_is_lost_in_a_narrow_terminal() -> None:
    row = ("a_very_long_name_without_end", "a sentence of words", "0.51 [0.40, 0.61]")
    lines = _printed(24, "", ("", "what it is", "value"), [row])
    assert max(map(len, lines)) <= 24
    kept = "".join("".join(lines).split())
    assert all(char in kept for cell in row for char in cell.replace(" ", ""))


def test_figures_stand_on_the_right_and_words_on_the_left() -> None:
    rows = [("a", "most of it", "0.5"), ("b", "2 of 3 are right ones", "12.25")]
    _, _, first, second, _ = _printed(60, "", ("name", "what", "value"), rows)
    assert first.endswith("  0.5")
    assert second.endswith("12.25")
    assert first.index("most") == second.index("2 of 3")


def test_an_indented_name_stays_indented() -> None:
    rows = [("all of them", "1"), ("  those that are left over", "2")]
    for width in (60, 18):
        lines = _printed(width, "", ("", "value"), rows)
        assert any(line.startswith("  those") for line in lines)


@pytest.mark.parametrize("rows", [[], ()])
def test_a_table_without_rows_is_not_printed(rows: list[tuple[str]]) -> None:
    assert _printed(80, "Rewards", ("model",), rows) == []


def test_numbers_are_printed_as_a_page_writes_them() -> None:
    table = Table(
        title="Rewards",
        first="model",
        columns=(Column(key="r", title="reward", form="percent", has_interval=True),),
        rows=(Row(name="base", cells=(Cell(value=0.5, low=0.25, high=0.75),)),),
    )
    stdout = Console(width=80, markup=False, highlight=False)
    with stdout.capture() as captured:
        print_table(stdout, table)
    assert "base   50.0 (25.0 to 75.0)" in captured.get()
