import copy
import hashlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core import Grounding, SchemaError

texts = st.text(st.characters(exclude_categories=("Cs",)))


@given(texts)
def test_reveal_is_the_only_way_to_the_text(text: str) -> None:
    grounding = Grounding(text)

    assert grounding.reveal() == text
    assert grounding.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert len(grounding) == len(text)
    assert (
        repr(grounding)
        == f"Grounding(sha256={grounding.sha256[:16]!r}, chars={len(text)})"
    )
    assert str(grounding) == repr(grounding) == f"{grounding}"


@given(texts, texts)
def test_equality_and_hash_are_those_of_the_text(a: str, b: str) -> None:
    assert (Grounding(a) == Grounding(b)) == (a == b)
    assert hash(Grounding(a)) == hash(Grounding(a))


def test_a_grounding_equals_no_other_type() -> None:
    assert Grounding("a") != "a"


def test_a_grounding_does_not_change() -> None:
    grounding = Grounding("a")

    with pytest.raises(AttributeError, match="frozen"):
        grounding._text = "b"
    with pytest.raises(AttributeError, match="frozen"):
        grounding.note = "b"  # pyright: ignore[reportAttributeAccessIssue]


@given(texts)
def test_a_pickle_or_a_copy_holds_the_text(text: str) -> None:
    grounding = Grounding(text)

    assert pickle.loads(pickle.dumps(grounding)) == grounding  # our own bytes
    assert copy.deepcopy(grounding) == grounding


@pytest.mark.parametrize("text", [None, 3, b"bytes", ["a"]])
def test_a_passage_is_text(text: object) -> None:
    with pytest.raises(SchemaError, match=type(text).__name__) as caught:
        Grounding(text)

    assert caught.value.field == "passage"


def test_lone_surrogates_are_refused_without_showing_the_text() -> None:
    with pytest.raises(SchemaError, match=r"8 characters.*lone surrogates") as caught:
        Grounding("secret \udc80")

    assert "secret" not in repr(caught.value)


class Holder(BaseModel):
    model_config = ConfigDict(frozen=True)

    grounding: Grounding


def test_a_model_that_holds_a_grounding_dumps_what_identifies_it() -> None:
    holder = Holder(grounding=Grounding("secret"))

    assert holder.model_dump() == {"grounding": str(holder.grounding)}
    assert holder.model_dump(mode="json") == {"grounding": str(holder.grounding)}
    assert "secret" not in holder.model_dump_json()
    assert "secret" not in repr(holder)


def test_a_model_takes_a_grounding_and_no_text() -> None:
    with pytest.raises(ValidationError, match="instance of Grounding"):
        Holder.model_validate({"grounding": "text"})
