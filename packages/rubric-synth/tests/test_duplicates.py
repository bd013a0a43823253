import random
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_synth import CollectConfig, Document
from rubric_synth.collect.duplicates.minhash import (
    rows_per_band,
    shingles,
    signature,
    signature_twins,
)
from rubric_synth.collect.duplicates.passages import PassageIndex, PassageSet
from rubric_synth.collect.duplicates.selection import Twin, find_twins, fingerprint

_WATER = (
    "The gauge records the level of the water at the pier of the harbour every hour."
)
_BREAD = "Yeast turns the sugar of the flour into gas, and the dough rises in a warm kitchen."
_CONFIG = CollectConfig()


def _api(source: str, text: str) -> Document:
    return Document(title=source, text=text, source=f"python:{source}", kind="api")


def _prose(source: str, text: str) -> Document:
    return Document(title="Introduction", text=text, source=source)


def _twins(documents: Sequence[Document], *, settled: int = 0) -> dict[int, Twin]:
    prints = [fingerprint(document) for document in documents]
    return find_twins(
        prints, lambda i: documents[i].text, config=_CONFIG, settled=settled
    )


def _pieces(text: str) -> set[str]:
    return {piece for pieces in shingles(text) for piece in pieces}


def _jaccard(one: str, other: str) -> float:
    return len(_pieces(one) & _pieces(other)) / len(_pieces(one) | _pieces(other))


def _article(seed: int, words: int = 400) -> list[str]:
    rng = random.Random(seed)
    return [f"word{rng.randrange(3000)}" for _ in range(words)]


def test_the_first_of_each_set_of_twins_is_kept() -> None:
    documents = [
        _api("a.svd", _WATER),
        _api("b.svd", _BREAD + " Bake."),
        _prose("x.md", _BREAD),
        _prose("y.md", _BREAD + " Twice."),
        _prose("z.md", _WATER.upper().replace(" ", "\n")),
        _api("c.lu", _WATER + " Twice."),
    ]
    found = {
        i: (str(twin.reason), twin.earlier) for i, twin in _twins(documents).items()
    }
    assert found == {
        1: ("same_name", 0),
        3: ("near_duplicate", 2),
        4: ("exact_duplicate", 0),
        5: ("near_duplicate", 0),
    }


def test_prose_documents_may_share_a_title_and_texts_without_words_are_compared_whole() -> (
    None
):
    assert not _twins(
        [_prose("a", _WATER), _prose("b", _BREAD), _prose("c", "1"), _prose("d", ".")]
    )
    assert list(_twins([_prose("a", "..."), _prose("b", "..."), _prose("c", "!")])) == [
        1
    ]


def test_settled_documents_are_never_near_duplicates() -> None:
    prose = [
        _prose("a", _WATER),
        _prose("b", _WATER + " Twice."),
        _prose("c", _WATER + " Thrice."),
    ]
    entries = [
        _api("a", _WATER),
        _api("b", _WATER + " Twice."),
        _api("c", _WATER + " Thrice."),
    ]
    for documents in (prose, entries):
        assert list(_twins(documents)) == [1, 2]
        assert list(_twins(documents, settled=2)) == [2]


def test_copies_with_changed_words_and_dropped_paragraphs_are_found_and_others_are_not() -> (
    None
):
    rng = random.Random(5)
    originals = [_article(seed) for seed in range(300)]
    copies: list[list[str]] = []
    for number, words in enumerate(originals[:100]):
        copy = list(words)
        if number % 2:
            copy = copy[:60] + copy[150:]
        for _ in range(8):
            copy[rng.randrange(len(copy))] = "changed"
        copies.append(copy)
    documents = [_prose(str(i), " ".join(w)) for i, w in enumerate(originals + copies)]
    found = {later: twin.earlier for later, twin in _twins(documents).items()}
    assert found == {300 + number: number for number in range(100)}


def test_documents_from_one_template_are_compared_in_bounded_time() -> None:
    frame = _article(0, 200)
    documents = [" ".join(frame + _article(seed, 260)) for seed in range(1, 800)]
    copy = documents[700].replace(" word7", " other", 1)
    twins = signature_twins([signature(t) for t in [*documents, copy]], jaccard=0.5)
    assert twins[799] == 700
    assert len(twins) < 20  # the estimate is above the threshold for few pairs at 0.28


_TEXTS = st.lists(
    st.lists(
        st.sampled_from(["tide", "gauge", "yeast", "iron", "zinc"]),
        min_size=1,
        max_size=30,
    ),
    max_size=12,
)


@given(_TEXTS, st.sampled_from([0.3, 0.5, 0.8]))
@settings(max_examples=60)
def test_what_is_kept_holds_no_close_pair(
    texts: list[list[str]], jaccard: float
) -> None:
    documents = sorted({" ".join(words) for words in texts})
    twins = signature_twins([signature(text) for text in documents], jaccard=jaccard)
    kept = [text for index, text in enumerate(documents) if index not in twins]
    # The standard error of an estimate is below 0.032: six of them.
    assert all(_jaccard(*pair) <= jaccard + 0.19 for pair in combinations(kept, 2))
    for later, earlier in twins.items():
        assert earlier < later
        assert earlier not in twins
        assert _jaccard(documents[later], documents[earlier]) > jaccard - 0.19


@pytest.mark.parametrize(
    ("jaccard", "rows"), [(0.5, 3), (0.9, 13), (1.0, 256), (0.01, 1)]
)
def test_bands_find_pairs_at_the_threshold(jaccard: float, rows: int) -> None:
    assert rows_per_band(jaccard) == rows


@given(st.text(max_size=300))
def test_a_signature_does_not_depend_on_case_spacing_and_punctuation(text: str) -> None:
    spaced = "\n" + text.replace(" ", " , ") + "!"
    assert signature(spaced) == signature(text.replace(" ", "\n "))


def test_a_huge_text_has_the_shingles_of_its_parts() -> None:
    words = [f"w{number}" for number in range(40_000)]
    lists = list(shingles(" ".join(words)))
    assert len(lists) > 1
    expected = [" ".join(words[i : i + 5]) for i in range(len(words) - 4)]
    assert [piece for pieces in lists for piece in pieces] == expected


def _sentences(seed: int, count: int) -> str:
    words = _article(seed, 12 * count)
    return " ".join(f"{' '.join(words[i : i + 12])}." for i in range(0, len(words), 12))


def test_a_page_beside_its_handbook_goes_and_one_that_shares_a_paragraph_stays() -> (
    None
):
    pages = [_prose(f"page{seed}", _sentences(seed, 20)) for seed in range(12)]
    handbook = _prose("z_handbook", "\n\n".join(page.text for page in pages[:10]))
    changed = _prose("x", pages[0].text.replace("word11", "term11"))
    other = _prose("y", _sentences(77, 20) + " " + pages[1].text[:300])
    documents = [*pages, changed, other, handbook]
    twins = _twins(documents)
    assert twins.keys() == {*range(10), 12}
    assert {str(twin.reason) for twin in twins.values()} == {"near_duplicate"}
    assert {twins[place].earlier for place in range(10)} == {14}
    assert _twins(documents, settled=12).keys() == {12, 14}


def test_a_passage_is_looked_for_in_other_splits_alone() -> None:
    index = PassageIndex(0.5)
    long, short = _sentences(1, 60), _sentences(1, 15)
    assert index.find_or_add(long, "train", "a") is None
    assert index.find_or_add(long, "train", "b") is None
    assert index.find_or_add(short, "test", "c") in {"a", "b"}
    assert index.find_or_add(_sentences(2, 15), "test", "d") is None


def test_what_a_run_keeps_shares_no_passage_in_whatever_order_it_is_checked() -> None:
    boilerplate, special = _sentences(1, 30), _sentences(2, 30)
    passages = [
        (f"{boilerplate} {_sentences(n + 3, 70)}", "train", str(n)) for n in range(70)
    ]
    for split, seed in (("train", 100), ("test", 101)):
        passages.append(
            (f"{boilerplate} {special} {_sentences(seed, 40)}", split, split)
        )
    index = PassageIndex(0.5)
    assert [index.find_or_add(*one) for one in passages] == [None] * 72
    for order in (passages, passages[::-1]):
        all_of_them = PassageSet(0.5)
        for one in order:
            all_of_them.add(*one)
        assert list(all_of_them.twins()) == []
    all_of_them.add(passages[0][0], "test", "copy")
    assert list(all_of_them.twins()) == [("0", "copy")]
    # One by one, and the other way round, the two would be found.
    index = PassageIndex(0.5)
    assert [one[2] for one in passages[::-1] if index.find_or_add(*one)] == ["train"]
