import pytest

from rubric_synth.document import Document
from rubric_synth.stages.extractive import corpus_terms
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms

SHARED = "This article is a stub that you can help to expand."


@pytest.mark.parametrize(
    "most", [500_000, 20], ids=["all are counted", "the rare are forgotten"]
)
def test_a_sentence_of_three_documents_is_boilerplate_and_one_of_two_is_none(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_terms, "_MOST_SENTENCES", most)
    pair = "Both of these two documents end with these words."
    names = ("".join(chr(97 + int(digit)) for digit in f"{n:03}") for n in range(200))
    own = [
        f"Only the document called {name} says all of these words." for name in names
    ]
    texts = [
        f"{one} {SHARED if n % 5 == 0 else pair if n < 3 else ''}"
        for n, one in enumerate(own)
    ]
    terms = CorpusTerms(
        Document(title=f"Title {n}", text=text, source=f"{n}.md")
        for n, text in enumerate(texts)
    )

    assert terms.is_boilerplate(SHARED, "Title 0")
    assert not any(terms.is_boilerplate(one, "Title 0") for one in (pair, *own))
