from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_synth import Document, Rejection
from rubric_synth.duplicates import without_duplicates

_WATER = "The gauge records the level of the water at the pier of the harbour every hour."
_BREAD = "Yeast turns the sugar of the flour into gas, and the dough rises in a warm kitchen."


def _api(source: str, text: str) -> Document:
    return Document(title=source, text=text, source=f"python:{source}", kind="api")


def _reasons(rejections: list[Rejection]) -> list[tuple[str, str, str]]:
    return [(r.source, str(r.reason), r.detail) for r in rejections]


def test_the_first_of_each_set_of_twins_is_kept() -> None:
    documents = [
        _api("b.svd", _BREAD + " Bake."),
        _api("a.svd", _WATER),
        Document(title="copy", text=_WATER.upper().replace(" ", "\n"), source="z.md"),
        Document(title="near", text=_WATER + " Twice.", source="y.md"),
        Document(title="other", text=_BREAD, source="x.md"),
    ]
    kept, rejections = without_duplicates(documents, cosine=0.55)
    assert [document.source for document in kept] == ["python:a.svd", "x.md"]
    assert sorted(_reasons(rejections)) == [
        ("python:b.svd", "same_name", "of python:a.svd"),
        ("y.md", "near_duplicate", "of python:a.svd"),
        ("z.md", "exact_duplicate", "of python:a.svd"),
    ]


def test_prose_documents_may_share_a_title() -> None:
    documents = [
        Document(title="Introduction", text=text, source=source)
        for text, source in ((_WATER, "a"), (_BREAD, "b"))
    ]
    assert len(without_duplicates(documents, cosine=0.55)[0]) == 2


_WORDS = ["tide", "gauge", "water", "yeast", "flour", "gas", "iron", "zinc"]


@given(st.lists(st.sampled_from(_WORDS), max_size=8))
@settings(max_examples=25)
def test_the_order_of_reading_has_no_effect_and_nothing_is_lost(texts: list[str]) -> None:
    documents = [
        Document(title="t", text=f"{word} {texts[i - 1]} of the {texts[0]}", source=str(i))
        for i, word in enumerate(texts)
    ]
    kept, rejections = without_duplicates(documents, cosine=0.55)
    again, _ = without_duplicates(list(reversed(documents)), cosine=0.55)
    assert [d.source for d in kept] == [d.source for d in again]
    assert len(kept) + len(rejections) == len(documents)


def test_documents_without_words_are_compared_by_their_text_alone() -> None:
    documents = [
        Document(title="t", text="1 2 3", source="a"),
        Document(title="t", text="4", source="b"),
    ]
    assert len(without_duplicates(documents, cosine=0.55)[0]) == 2
