import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core.judgement.evidence import composed

ACUTE, DOT, SANSKRIT = "\u0301", "\u0323", "\u0f73"
_marked = st.text(
    st.sampled_from(["e", "é", "क", ACUTE, DOT, SANSKRIT, "—", "\u0345", "𝅥"]),
    max_size=30,
)


@given(st.text() | _marked)
def test_a_text_of_any_writing_is_in_nfc(text: str) -> None:
    assert composed(text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("marks", [ACUTE + DOT, SANSKRIT, "\U0001d165", "\u3099"])
def test_marks_without_end_on_a_letter_are_not_put_in_order(marks: str) -> None:
    text = composed("so x" + marks * 1_000_000 + " — " + "—" * 40 + " end")

    assert text.startswith("so ")
    assert text.endswith(" — " + "—" * 40 + " end")
    assert len(text) < 200
    assert text == unicodedata.normalize("NFC", text)
