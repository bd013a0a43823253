import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.sources.cleaning.markup import (
    clean_markdown,
    normal_characters,
    without_ligatures,
)


def test_line_ends_marks_and_controls_have_one_form() -> None:
    raw = (
        "\ufeffa\r\nb\rc\x0cd\u2028e\x85f\x1b[31mred\x1b[0m\x08"
        " so\u00adft\u00a0x\u200by\u202ez\ttab"
    )
    assert normal_characters(raw) == "a\nb\nc\nd\ne\nfred soft xyz\ttab"


def test_a_soft_hyphen_between_digits_is_a_lost_character() -> None:
    """A browser shows 012301, and who wrote it in Latin-1 meant 01-2301: neither is sure."""
    assert normal_characters("01\xad2301 in 3\xad\xad4") == "01\ufffd2301 in 3\ufffd4"
    assert normal_characters("max_\xadsize, SHA\xad1") == "max_size, SHA1"


def test_what_joins_letters_or_turns_them_round_does_not_cut_a_number() -> None:
    written = "12\u200c34, 12\u200d34, 12\u200e34, 12\u200f34, 12\u061c34"
    assert normal_characters(written) == ", ".join(["1234"] * 5)
    assert normal_characters("نامه\u200cها") == "نامه\u200cها"


def test_entities_of_markdown_are_normal_characters_too() -> None:
    written = "So&shy;ft, 1&#8203;2, 01&shy;2301, 3&nbsp;4"
    assert clean_markdown(written) == "Soft, 12, 01\ufffd2301, 3&nbsp;4"


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
