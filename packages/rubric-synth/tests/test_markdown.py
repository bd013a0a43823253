import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.sources.cleaning.markup import (
    clean_markdown,
    document_title,
    inline_text,
    sections,
)


def test_front_matter_comments_and_carriage_returns_go() -> None:
    text = (
        "---\ntitle: x\n---\r\n# Tides\r\n\r\n<!-- draft -->\r\nHigh water.\u00a0Low "
        "water.\u200b"
    )
    assert clean_markdown(text) == "# Tides\n\nHigh water. Low water."


def test_code_that_begins_a_list_item_ends_where_it_ends() -> None:
    code = "1. ```\n   x = 1\n   ```\n\nThe tide rises by 4 metres.\n\n"
    text = f"{code}- ~~~\n  y\n  ~~~\n\nIt falls."
    (section,) = sections(text)
    assert section.paragraphs == ("The tide rises by 4 metres.", "It falls.")


@pytest.mark.parametrize(
    "address",
    [
        "wiki/Go_(game)",
        "x?a(b(c)d)e",
        "<p q (1).html>",
        "it.html",
        'it.html "It"',
        "b(c",
    ],
)
def test_the_address_of_a_link_goes_whole(address: str) -> None:
    assert inline_text(f"See [Go]({address}) for it.") == "See Go for it."


def test_headings_cut_sections_and_code_lists_tables_and_formulas_are_left_out() -> (
    None
):
    text = """Opening words.

# First *heading*

Some [linked](http://x.org) prose
on two lines.

- a list item
  with more

| a | b |

```python
# no heading
```

$$x = y$$

    indented code

Second
------

Last words."""
    assert [(s.heading, s.paragraphs) for s in sections(text)] == [
        ("", ("Opening words.",)),
        ("First heading", ("Some linked prose on two lines.",)),
        ("Second", ("Last words.",)),
    ]


def test_the_title_is_the_first_heading() -> None:
    assert document_title("text\n\n## A `b` #\n\nmore") == "A `b`"
    assert document_title("no heading at all") == ""


def test_openings_without_ends_cost_no_more_than_their_length() -> None:
    start = time.perf_counter()
    sections(("![" * 20_000 + "\n\n") * 20 + "\\begin{a}" * 20_000 + "<!--" * 20_000)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    "line",
    [
        f"# a{' ' * 1_000_000}b",
        f"# a{'#' * 1_000_000}b",
        "# " + "[" * 1_000_000,
        "# " + "![" * 500_000,
        "# " + "**a " * 200_000,
        "# " + "![a](" * 200_000,
        f"# x{' ' * 500_000}[1{',1' * 200_000}",
        "**a " * 200_000 + "\n---",
        "<!--" * 1_000_000,
        "<!--" * 500_000 + " " * 6_000 + "-->",
    ],
    ids=["spaces", "hashes", "brackets", "images", "emphasis", "addresses", "references",
         "underlined", "comments", "a late end"],
)  # fmt: skip
def test_a_title_costs_no_more_than_the_length_of_the_text(line: str) -> None:
    text = clean_markdown(f"{line}\n\nWords.\n\n# Tides")
    assert document_title(text) == "Tides"


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("# Tides", "Tides"),
        ("###### Tides ##", "Tides"),
        ("#\tTides in C#", "Tides in C"),
        ("# A # b ##  ", "A # b"),
        ("####### Tides", ""),
        ("#Tides", ""),
        ("# " + "tide " * 150, " ".join(["tide"] * 60)),
        ("# " + "tide " * 300, ""),
    ],
)
def test_the_marks_of_a_heading_are_no_part_of_it(line: str, heading: str) -> None:
    assert document_title(line) == heading


def test_a_line_too_long_for_a_heading_is_prose() -> None:
    text = "tide " * 300
    (found,) = sections(clean_markdown(f"# {text}\n\nWords."))
    assert found == ("", (text.strip(), "Words."))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a<!-- x -->b<!----> c", "ab c"),
        ("a<!-- x", "a<!-- x"),
        ("a<!--> b --> c", "a c"),
        ("<!-- <!-- a --> b -->", "b -->"),
        ("<!--" + "x" * 5000 + "-->a", "a"),
        ("b<!--" + "x" * 5001 + "<!--y-->a", "b<!--" + "x" * 5001 + "a"),
        ("<!--" + "x" * 5001 + "-->", "<!--" + "x" * 5001 + "-->"),
    ],
)
def test_comments_that_end_soon_go(text: str, left: str) -> None:
    assert clean_markdown(text) == left


@given(st.text(max_size=300))
def test_any_text_can_be_cut(text: str) -> None:
    for section in sections(clean_markdown(text)):
        assert all(section.paragraphs)


def test_ligatures_are_letters_and_gaps_behind_them_go() -> None:
    text = (
        "The \ufb01 eld is veri\ufb01 ed, sta\ufb00 is o\ufb00 duty, wi\ufb01 is an "
        "a\ufb03 nity."
    )
    said = "The field is verified, staff is off duty, wifi is an affinity."
    assert clean_markdown(text) == said
