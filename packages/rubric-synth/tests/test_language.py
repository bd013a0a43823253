import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.language import clip_words, lower_first, proper_names, sentences


def test_abbreviations_do_not_end_a_sentence() -> None:
    text = "Use a gauge, e.g. a float, i.e. a buoy, etc. Levels rise 3.5 m. See Fig. 2 for it."
    assert sentences(text) == [
        "Use a gauge, for example a float, that is a buoy, and so on.",
        "Levels rise 3.5 m.",
        "See Fig 2 for it.",
    ]


@pytest.mark.parametrize(
    ("text", "limit", "clipped"),
    [
        ("the high water of the gauge", 9, "the high water of the gauge"),
        ("the high water of the gauge", 5, "the high water"),
        ("levels of the sea, measured every hour at noon", 8, "levels of the sea"),
        ("levels (in metres above datum) here", 3, "levels"),
        ("one.", 3, "one"),
    ],
)
def test_a_phrase_is_cut_where_it_can_end(text: str, limit: int, clipped: str) -> None:
    assert clip_words(text, limit) == clipped


@given(st.text(max_size=80), st.integers(1, 10))
def test_a_cut_phrase_is_never_longer(text: str, limit: int) -> None:
    assert len(clip_words(text, limit).split()) <= limit


@pytest.mark.parametrize(
    ("text", "lowered"),
    [
        ("The level", "the level"),
        ("A level", "a level"),
        ("FFT of it", "FFT of it"),
        ("Bessel function", "Bessel function"),
        ("Mean-square error", "mean-square error"),
        ("", ""),
    ],
)
def test_names_and_acronyms_keep_their_capital(text: str, lowered: str) -> None:
    proper = proper_names("values of the Bessel function. The next, The end")
    assert lower_first(text, proper) == lowered
