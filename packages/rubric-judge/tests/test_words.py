import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_judge.judges.lexical.words import stem


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("value", "values"),
        ("array", "Arrays"),
        ("frequency", "frequencies"),
        ("match", "matches"),
        ("index", "indexes"),
        ("compute", "computing"),
        ("compute", "computed"),
        ("computes", "computed"),
        ("fit", "fitting"),
        ("call", "calling"),
        ("filter", "filtered"),
        ("return", "returns"),
        ("box", "boxes"),
    ],
)
def test_forms_of_a_word_share_a_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("loss", "lo"),
        ("axis", "ax"),
        ("string", "str"),
        ("red", "r"),
        ("analysis", "analy"),
    ],
)
def test_an_ending_that_belongs_to_the_word_stays(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@given(st.from_regex(r"[a-z]{1,20}", fullmatch=True))
def test_a_stem_is_lower_case_short_and_starts_like_its_word(word: str) -> None:
    assert stem(word) == stem(word.upper())
    assert len(stem(word)) <= len(word)
    assert len(stem(word)) >= min(3, len(word))
    assert stem(word)[:2] == word[:2]
