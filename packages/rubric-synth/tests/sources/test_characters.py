import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.sources.cleaning.markup import normal_characters, without_ligatures


def test_line_ends_marks_and_controls_have_one_form() -> None:
    raw = (
        "\ufeffa\r\nb\rc\x0cd\u2028e\x85f\x1b[31mred\x1b[0m\x08"
        " so\u00adft\u00a0x\u200by\u202ez\ttab"
    )
    assert normal_characters(raw) == "a\nb\nc\nd\ne\nfred soft xyz\ttab"


def test_letters_are_composed() -> None:
    assert normal_characters("e\u0301") == "é"


def test_a_letter_with_marks_without_end_keeps_some_of_them() -> None:
    assert len(normal_characters("a" + "\u0301\u0323" * 500_000)) < 40


def test_ligatures_become_letters() -> None:
    assert without_ligatures(
        "e\ufb03cient \ufb02ow, \ufb01rst \ufb00 \ufb04 \ufb05"
    ) == ("efficient flow, first ff ffl st")


@given(st.text("ae\u0301\r\n\x0c\x85\x08\x1b[0m \u200b\u00ad", max_size=20))
def test_normal_characters_are_normal_already(text: str) -> None:
    once = normal_characters(text)
    assert normal_characters(once) == once
    kinds = {unicodedata.category(char) for char in once if char not in "\n\t"}
    assert "Cc" not in kinds
