"""JSON on its way to a server and back: what the fast coder does not take, Python's does."""

from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from rubric_judge import ChatModel, JudgeTransportError, ModelConfig
from rubric_judge.chat import ChatRequest
from rubric_judge.direct import DirectClient
from rubric_judge.exchange import Answer, _decoded
from rubric_judge.testing import FakeEndpoint

_ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text(
    "\ud800\udc00a\\\"'\x00\x7f\u2028я"
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_ANY_TEXT, inner, max_size=4),
    max_leaves=20,
)


class _Reply(BaseModel):
    name: str


@given(system=_ANY_TEXT, user=_ANY_TEXT)
@example(system="", user="\ud83d")
@example(system="\udc00", user="Страх и 😀")
def test_a_request_has_the_texts_as_they_are(system: str, user: str) -> None:
    client = DirectClient(ModelConfig(model="m", transport="direct", api_base="http://127.0.0.1:1"))
    body = json.loads(client._body(ChatRequest(user=user, system=system, reply=_Reply)))
    assert [message["content"] for message in body["messages"]] == json.loads(
        json.dumps([system, user])  # two halves of one pair become one character
    )
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["response_format"]["json_schema"]["name"] == "_Reply"


@pytest.mark.anyio
async def test_half_a_surrogate_pair_gets_to_the_server() -> None:
    with FakeEndpoint(lambda _: '{"name": "blue"}') as endpoint:
        config = ModelConfig(model="m", transport="direct", api_base=endpoint.url)
        async with ChatModel(config) as model:
            await model.complete(system="ясно", user="\ud800!", reply=_Reply)
    assert [message["content"] for message in endpoint.calls[0].messages] == ["ясно", "\ud800!"]


def _as_python_reads(body: bytes) -> object:
    try:
        read = cast("object", json.loads(body))
    except (ValueError, RecursionError):
        return None
    return cast("object", read) if isinstance(read, dict) else None


def _assert_read_as_by_python(body: bytes) -> None:
    expected = _as_python_reads(body)
    if expected is None:
        with pytest.raises(JudgeTransportError, match="no JSON object"):
            _decoded(body)
    else:
        assert repr(_decoded(body)) == repr(expected)  # NaN is not equal to itself


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": NaN, "b": -Infinity, "c": 1e999, "d": -0, "e": -0.0, "f": 1E+2}',
        b'{"a": -NaN}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\\ud800", "\\udc00": "\\ud83d\\ude00"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": "\xff"}',
        b'{"a": "\x01"}',
        b'{"a": ' + b"1" * 4300 + b"}",
        b'{"a": ' + b"1" * 4301 + b"}",
        b'{"a": 0.1234567890123456789, "b": 5e-324, "c": 1.7976931348623159e308}',
        b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"\xef\xbb\xbf{}",
        '{"a": "я"}'.encode("utf-16"),
        b"{} x",
        b"{'a': 1}",
        b'{"a": 01}',
        b'{"a": 1,}',
        b"\x0b{}",
        b" \t\r\n{} \n",
    ],
)
def test_odd_json_is_read_as_by_python(body: bytes) -> None:
    _assert_read_as_by_python(body)


@given(value=st.dictionaries(_ANY_TEXT, _JSON, max_size=4), ascii_only=st.booleans())
def test_json_is_read_as_by_python(*, value: dict[str, object], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    _assert_read_as_by_python(text.encode(errors="surrogatepass"))


@given(
    value=st.dictionaries(st.text(max_size=3), _JSON, min_size=1, max_size=3),
    place=st.integers(min_value=0),
    put=st.binary(max_size=2)
    | st.sampled_from([b'"', b",", b"}", b"\\", b"-", b"0", b"e", b"NaN"]),
)
def test_damaged_json_is_read_as_by_python(
    value: dict[str, object], place: int, put: bytes
) -> None:
    body = json.dumps(value).encode()
    place %= len(body)
    _assert_read_as_by_python(body[:place] + put + body[place + 1 :])
    _assert_read_as_by_python(body[:place] + put + body[place:])


def test_half_a_surrogate_pair_in_an_answer_is_its_text() -> None:
    message = {"role": "assistant", "content": "\ud800"}
    body = json.dumps({"choices": [{"finish_reason": "stop", "message": message}]}).encode()
    assert Answer(200, (), body).chat_reply().text == "\ud800"
