from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import ConfigError, SchemaError, split_of


def test_the_split_is_pinned_so_that_no_release_moves_a_document() -> None:
    sides = "train validation train train test train train train"

    assert [split_of(f"document {k}") for k in range(8)] == sides.split()


def test_shares_are_70_15_15() -> None:
    counts = Counter(split_of(str(k)) for k in range(20_000))

    assert counts["train"] / 20_000 == pytest.approx(0.70, abs=0.01)
    assert counts["validation"] / 20_000 == pytest.approx(0.15, abs=0.01)
    assert counts["test"] / 20_000 == pytest.approx(0.15, abs=0.01)


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_a_document_is_always_on_the_same_side(doc_hash: str) -> None:
    assert split_of(doc_hash) == split_of(doc_hash)


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_a_larger_training_share_never_takes_a_training_document_away(
    doc_hash: str,
) -> None:
    if split_of(doc_hash, train=0.5) == "train":
        assert split_of(doc_hash, train=0.8) == "train"


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_whole_shares_leave_nothing_else(doc_hash: str) -> None:
    assert split_of(doc_hash, train=1, validation=0) == "train"
    assert split_of(doc_hash, train=0, validation=1) == "validation"
    assert split_of(doc_hash, train=0, validation=0) == "test"


@pytest.mark.parametrize(
    ("train", "validation", "location"),
    [
        (-0.1, 0.5, "train"),
        (1.1, 0.0, "train"),
        (float("nan"), 0.1, "train"),
        (0.9, 0.2, "validation"),
        (0.5, -0.1, "validation"),
    ],
)
def test_shares_must_fit(train: float, validation: float, location: str) -> None:
    with pytest.raises(ConfigError, match="at most 1") as caught:
        split_of("a", train=train, validation=validation)

    assert caught.value.location == location


@pytest.mark.parametrize("doc_hash", ["\ud800", None, 3, b"a"])
def test_a_document_is_named_by_text(doc_hash: object) -> None:
    with pytest.raises(SchemaError, match="doc_hash must be a text"):
        split_of(doc_hash)  # pyright: ignore[reportArgumentType]
