import time

from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.sources.cleaning.pages import Line, pages_to_markdown

_WORDS = st.text("abc -.1\x02\ufb01A(", max_size=30).map(str.strip)
_LINES = st.builds(
    Line,
    _WORDS.filter(bool),
    st.sampled_from([8.0, 10.0, 14.0]),
    st.floats(0, 800),
    st.floats(0, 500),
)


def _page(*texts: str, top: float = 800.0) -> list[Line]:
    return [Line(text, 10.0, top - 12.0 * row, 60.0) for row, text in enumerate(texts)]


def test_no_pages_and_empty_pages_give_no_text() -> None:
    assert pages_to_markdown([]) == ""
    assert pages_to_markdown([[], []]) == ""


def test_headings_that_the_file_names_are_headings() -> None:
    page = _page("Tides are slow.", "High water", "It comes twice a day.")
    text = pages_to_markdown([page], outline=["high  Water"])
    assert text == "Tides are slow.\n\n## High water\n\nIt comes twice a day."


def test_an_indented_line_after_a_sentence_begins_a_paragraph() -> None:
    page = _page(
        "Tides are the slow rise of the sea.", "They fall again after six hours."
    )
    page[1] = page[1]._replace(left=80.0)
    assert pages_to_markdown([page]).count("\n\n") == 1


def test_a_numbered_point_that_goes_on_is_no_heading() -> None:
    page = _page(
        "The tides have three causes, of which the first two are known to all who sail.",
        "",
        "1. The moon pulls at the water of the near side of the planet, and at its middle",
        "less, so that two bulges rise.",
        "2. The Sun does so too, from afar, and adds a half of what the moon does to the",
        "(Newton) tide.",
        "",
        "3 Currents of the tide",
        "They turn twice a day.",
    )
    text = pages_to_markdown([[line for line in page if line.text]])
    assert [line for line in text.split("\n") if line.startswith("#")] == [
        "## 3 Currents of the tide"
    ]


def test_large_print_of_figures_is_no_heading_where_headings_are_numbered() -> None:
    printed = [
        ("Tides and their causes", 20.0),
        ("Ada Pugh", 12.0),
        ("Chapter One", 18.5),
        ("1 Introduction", 14.0),
        ("Tides are slow, and come twice a day to most coasts of the planet.", 10.0),
        ("Years of record", 11.5),
        ("2 Records", 14.0),
        (
            "Records begin in 1807 at Brest, where a clock drew them on a drum of paper.",
            10.0,
        ),
        ("Spring", 16.0),
        ("σΛ = 2·b", 30.0),
        ("3 Tables", 14.0),
        (
            "Tables of the tides are printed a year before for every port of the coast.",
            10.0,
        ),
        ("Thanks", 14.0),
        ("To all who read the gauges by day and by night.", 10.0),
    ]
    page = [
        Line(text, height, 800 - 30.0 * row, 60)
        for row, (text, height) in enumerate(printed)
    ]
    text = pages_to_markdown([page])
    headings = [
        line.removeprefix("## ") for line in text.split("\n") if line.startswith("#")
    ]
    assert headings == [
        "Tides and their causes",
        "Chapter One",
        "1 Introduction",
        "2 Records",
        "3 Tables",
        "Thanks",
    ]
    assert "| Years of record |" in text


def test_bullets_become_a_list_and_rows_of_numbers_go() -> None:
    page = _page(
        "Two tides matter here:", "• spring tides", "• neap tides", "1.0 2.5 3.7 (4.2)"
    )
    assert (
        pages_to_markdown([page])
        == "Two tides matter here:\n\n- spring tides\n\n- neap tides"
    )


@given(st.lists(st.lists(_LINES, max_size=8), max_size=5))
def test_any_lines_give_text_without_marks_of_print(pages: list[list[Line]]) -> None:
    text = pages_to_markdown(pages)
    assert "\x02" not in text
    assert "\ufb01" not in text


def test_a_long_print_costs_no_more_than_its_length() -> None:
    pages = [
        _page(*["a-" * 40 + "\x02" + "b" * 40] * 40, top=800.0 - page)
        for page in range(200)
    ]
    start = time.perf_counter()
    pages_to_markdown(pages)
    assert time.perf_counter() - start < 10
