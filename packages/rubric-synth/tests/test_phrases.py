from rubric_synth import Document
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.stages.extractive.phrases import (
    noun_phrases,
)


def _terms(*texts: str, copies: int = 1) -> CorpusTerms:
    return CorpusTerms(
        Document(title=f"t{n}", text=text, source=f"{n}.md")
        for n, text in enumerate(texts * copies)
    )


def test_a_large_collection_tells_verbs_and_adjectives_from_nouns() -> None:
    text = (
        "The string plays middle tones, and strings can play low tones; the filter is slow. "
        "The orbit is wide; planets orbit stars and have to orbit them. The planets are old."
    )
    terms = _terms(text, copies=25)
    assert terms.is_verb("plays")
    assert terms.is_clear_noun("filter")
    assert not terms.is_clear_noun("slow")


def test_a_name_keeps_its_capital_in_prose_and_other_words_lose_it() -> None:
    text = (
        "Kalman filters track a ship. The Kalman filters of a ship are fast. "
        "Tidal range matters. The tidal range is wide."
    )
    terms = _terms(text)
    assert terms.is_name("Kalman")
    assert not terms.is_name("Tidal")
    assert "Kalman filters" in noun_phrases(text, terms, limit=4, prose=True)
    assert "kalman filters" in noun_phrases(text, terms, limit=4)
