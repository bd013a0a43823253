import pytest

from rubric_synth.language import lower_first, proper_names, sentences


def test_abbreviations_do_not_end_a_sentence() -> None:
    text = "Use a gauge, e.g. a float, i.e. a buoy, etc. Levels rise 3.5 m. See Fig. 2 for it."
    assert sentences(text) == [
        "Use a gauge, for example a float, that is a buoy, and so on.",
        "Levels rise 3.5 m.",
        "See Fig 2 for it.",
    ]


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
