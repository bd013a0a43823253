from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.cleaning import clean_markdown, document_title, sections


def test_front_matter_comments_and_carriage_returns_go() -> None:
    text = (
        "---\ntitle: x\n---\r\n# Tides\r\n\r\n<!-- draft -->\r\nHigh water.\u00a0Low water.\u200b"
    )
    assert clean_markdown(text) == "# Tides\n\nHigh water. Low water."


def test_headings_cut_sections_and_code_lists_tables_and_formulas_are_left_out() -> None:
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


@given(st.text(max_size=300))
def test_any_text_can_be_cut(text: str) -> None:
    for section in sections(clean_markdown(text)):
        assert all(section.paragraphs)
