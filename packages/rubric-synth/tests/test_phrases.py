import pytest

from rubric_synth import Document
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.stages.extractive.phrases import (
    best_phrase,
    noun_phrases,
)


def _terms(*texts: str, copies: int = 1) -> CorpusTerms:
    return CorpusTerms(
        Document(title=f"t{n}", text=text, source=f"{n}.md")
        for n, text in enumerate(texts * copies)
    )


@pytest.mark.parametrize(
    ("sentence", "phrase"),
    [
        ("The measurements varies with salt.", "measurements"),
        ("For the servers seldom rest.", "servers"),
        ("In bones become brittle.", "brittle"),
        ("The tidal range is wide.", "tidal range"),
    ],
)
def test_a_phrase_cut_out_of_a_clause_is_not_asked_about(
    sentence: str, phrase: str
) -> None:
    found = best_phrase(sentence, _terms(sentence), without=frozenset())
    assert "varies" not in found
    assert "seldom" not in found
    assert "become" not in found
    assert found == phrase or " " not in found


def test_a_large_collection_tells_verbs_and_adjectives_from_nouns() -> None:
    text = (
        "The string plays middle tones, and strings can play low tones; the filter is slow. "
        "The orbit is wide; planets orbit stars and have to orbit them. The planets are old."
    )
    terms = _terms(text, copies=25)
    assert terms.is_verb("plays")
    assert terms.is_clear_noun("filter")
    assert not terms.is_clear_noun("slow")
    assert (
        best_phrase("Bright planets orbit.", terms, without=frozenset())
        != "planets orbit"
    )


def test_a_word_that_names_nothing_alone_is_no_point() -> None:
    text = "Tracers leave the rest of it as it was."
    assert best_phrase(text, _terms(text), without=frozenset({"tracer"})) == ""
    assert best_phrase(text, _terms(text), without=frozenset()) == "tracers"


def test_a_name_keeps_its_capital_in_prose_and_other_words_lose_it() -> None:
    text = (
        "Kalman filters track a ship. The Kalman filters of a ship are fast. "
        "Tidal range matters. The tidal range is wide."
    )
    terms = _terms(text)
    assert terms.is_name("Kalman")
    assert not terms.is_name("Tidal")
    assert (
        best_phrase("Kalman filters track.", terms, without=frozenset())
        == "Kalman filters"
    )
    assert (
        best_phrase("Tidal range matters.", terms, without=frozenset()) == "tidal range"
    )
    assert "Kalman filters" in noun_phrases(text, terms, limit=4, prose=True)
    assert "kalman filters" in noun_phrases(text, terms, limit=4)
