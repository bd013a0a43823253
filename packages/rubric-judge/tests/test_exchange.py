"""JSON on its way to a server and back: what the fast coder does not take, Python's does."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from rubric_core import Reason
from rubric_judge import ChatModel, JudgeTransportError, ModelConfig
from rubric_judge.models.chat import Answer, ChatRequest
from rubric_judge.models.direct import DirectClient
from rubric_judge.testing import FakeEndpoint

_ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text(
    "\ud800\udc00a\\\"'\x00\x7f\u2028я"
)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _ANY_TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_ANY_TEXT, inner, max_size=4)
    ),
    max_leaves=20,
)


class _Reply(BaseModel):
    name: str


@given(system=_ANY_TEXT, user=_ANY_TEXT)
@example(system="", user="\ud83d")
@example(system="\udc00", user="Страх и 😀")
def test_a_request_has_the_texts_as_they_are(system: str, user: str) -> None:
    client = DirectClient(
        ModelConfig(model="m", transport="direct", api_base="http://127.0.0.1:1")
    )
    request = ChatRequest(user=user, system=system, reply=_Reply)
    body = json.loads(client._body(request, client._fields.of(request)))
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
    assert [message["content"] for message in endpoint.calls[0].messages] == [
        "ясно",
        "\ud800!",
    ]


def _refused(body: bytes) -> str:
    with pytest.raises(JudgeTransportError) as caught:
        Answer(200, (), body).decoded()
    assert caught.value.reason is Reason.SERVER_ERROR
    return caught.value.detail


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": "\xff"}',
        b'{"a": "\x01"}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"\xef\xbb\xbf{}",
        '{"a": "я"}'.encode("utf-16"),
        b"{} x",
        b"{}{}",
        b"{}\x00",
        "{}\u00a0".encode(),
        b"{'a': 1}",
        b'{"a": 01}',
        b'{"a": 1,}',
        b"\x0b{}",
        b"[]",
        b"",
    ],
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    assert "no JSON object" in _refused(body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a": 1, "a": 1}', "the same key twice"),
        (b'{"b": [{"a": 1, "\\u0061": 2}]}', "the same key twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"b": [-Infinity]}', "-Infinity"),
    ],
)
def test_what_readers_of_json_take_in_different_ways_is_refused(
    body: bytes, said: str
) -> None:
    assert said in _refused(body)


@given(value=st.dictionaries(_ANY_TEXT, _JSON, max_size=4), ascii_only=st.booleans())
def test_json_is_read_as_it_was_written(
    *, value: dict[str, object], ascii_only: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    body = text.encode(errors="surrogatepass")
    written = json.loads(text if ascii_only else body, parse_int=float)
    assert Answer(200, (), body).decoded() == written


def test_half_a_surrogate_pair_in_an_answer_is_its_text() -> None:
    message = {"role": "assistant", "content": "\ud800"}
    body = json.dumps(
        {"choices": [{"finish_reason": "stop", "message": message}]}
    ).encode()
    assert Answer(200, (), body).chat_reply().text == "\ud800"
