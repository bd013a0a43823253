import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core.errors import NotJsonError, RepeatedKeyError
from rubric_core.strict_json import decode

documents = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(documents)
def test_what_json_writes_is_read_back(document: object) -> None:
    assert decode(json.dumps(document)) == document


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "a": 3}}]', '{"a": 1, "\\u0061": 2}'],
)
def test_a_key_that_repeats_at_any_depth_is_refused(text: str) -> None:
    with pytest.raises(RepeatedKeyError) as caught:
        decode(text)

    assert caught.value.key == "a"


def test_the_same_key_in_two_objects_is_fine() -> None:
    assert decode('[{"a": 1}, {"a": {"a": 2}}]') == [{"a": 1.0}, {"a": {"a": 2.0}}]


def test_an_integer_of_any_length_is_a_number() -> None:
    assert decode("9" * 10_000) == math.inf


def test_every_number_is_a_float() -> None:
    assert type(decode("1")) is float


@pytest.mark.parametrize(
    "text", ["\ufeff{}", "", "{} {}", "[1,]", "nul", '{"a":\n 1,\n b}']
)
def test_what_is_no_document_is_refused_as_the_standard_library_does(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)
    for form in (text, text.encode()):
        with pytest.raises(NotJsonError) as caught:
            decode(form)

        assert str(caught.value).startswith(
            f"not JSON: {expected.value.msg.removesuffix(' at')}"
        )
        assert str(caught.value).endswith(f"column {expected.value.colno}")
        assert (f"line {expected.value.lineno}," in str(caught.value)) == ("\n" in text)
        assert caught.value.__context__ is None  # it would hold the text


def test_bytes_that_are_no_text_and_depth_that_nobody_follows_are_told() -> None:
    with pytest.raises(NotJsonError, match=r"^not UTF-8 at byte 2$"):
        decode(b'["\xff"]')
    with pytest.raises(NotJsonError, match=r"^nested too deeply$"):
        decode("[" * 100_000)
    with pytest.raises(NotJsonError, match=r"^not usable: NaN is no number in JSON$"):
        decode("[NaN]", finite=True)


@pytest.mark.parametrize("digits", ["1000000", "9007199254740993", "-12", "1" * 300])
def test_whole_numbers_stay_whole_where_that_is_asked(digits: str) -> None:
    assert decode(digits, exact=True) == int(digits)
    assert decode(digits + "0" * 400, exact=True) in (math.inf, -math.inf)
