"""Trajectories whose format is told by their fields, and what is refused."""

from typing import Any

import pytest

from rubric_core import SchemaError, answer_of
from rubric_core.traces import chat_trace, format_of, recorded_trace
from rubric_core.traces.messages import answer_from

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MESSAGES = [
    {"role": "assistant", "content": "Look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "r"},
    {"role": "assistant", "content": "Done."},
]
ITEMS = [
    {"type": "message", "role": "assistant", "content": "Look."},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "r"},
    {"type": "message", "role": "assistant", "content": "Done."},
]
NODES = [
    {"parent": place - 1 if place else None, "message": message, "sampled": place != 1}
    for place, message in enumerate(MESSAGES)
]
STEPS: list[dict[str, Any]] = [
    {
        "source": "agent",
        "message": "Look.",
        "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {}}],
        "observation": {"results": [{"source_call_id": "c", "content": "r"}]},
    },
    {"source": "agent", "message": "Done."},
]


@pytest.mark.parametrize(
    ("trajectory", "kind"),
    [
        (MESSAGES, "messages"),
        ({"messages": MESSAGES, "prompt": "Q?"}, "messages"),
        (ITEMS, "responses"),
        ({"object": "response", "output": ITEMS}, "responses"),
        (
            {
                "responses_create_params": {"input": "Q?"},
                "response": {"output": ITEMS},
            },
            "responses",
        ),
        ({"nodes": NODES}, "verifiers"),
        ({"task": {}, "traces": [{"nodes": NODES}]}, "verifiers"),
        ({"schema_version": "ATIF-v1.8", "steps": STEPS}, "atif"),
    ],
)
def test_the_format_of_a_trajectory_is_told_by_its_fields(
    trajectory: object, kind: str
) -> None:
    read = recorded_trace(trajectory)

    assert read.format == kind == format_of(trajectory)
    found = [
        (step.text, [call.text for call in step.calls])
        for step in read.trace.steps
        if step.role != "user"
    ]
    assert found == [("Look.", ["f({})"]), ("r", []), ("Done.", [])]
    assert [step.text for step in read.trace.turns] == ["Look.", "Done."]


@pytest.mark.parametrize(
    ("trajectory", "shape"),
    [
        ([], "an empty list is no trajectory"),
        ([{"text": "a"}], "a list of objects that do not all have a `role`"),
        ([{"role": "assistant", "content": "a"}, {"says": "b"}], "all have a `role`"),
        ([1], "a list of something else than objects"),
        ({"answer": "a", "a text of SECRET": 1}, "an object with answer is no"),
        ({}, "an object with no field of these is no"),
        ("a text", "a value of the type str"),
    ],
)
def test_what_is_no_trajectory_is_said_by_its_shape(
    trajectory: object, shape: str
) -> None:
    assert format_of(trajectory) is None
    with pytest.raises(SchemaError, match=shape) as caught:
        recorded_trace(trajectory)
    assert "give messages of OpenAI with `role`" in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_calls_of_messages_that_are_named_as_items_are_read() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"type": "message", "role": "assistant", "content": "a"}

    read = recorded_trace([{**message, "tool_calls": [call]}], cut=True)

    assert read.format == "messages"
    assert [made.text for made in read.trace.turns[0].calls] == ["f({})"]


def test_calls_in_a_message_among_items_are_not_left_out() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "a", "tool_calls": [call]}
    item = {"type": "function_call", "call_id": "d", "name": "g", "arguments": "{}"}

    with pytest.raises(SchemaError, match="has `tool_calls`, as chat messages do"):
        recorded_trace([item, message], cut=True)


def test_an_episode_of_several_agents_is_refused() -> None:
    episode: dict[str, Any] = {"task": {}, "traces": [{"nodes": NODES}] * 2}

    with pytest.raises(SchemaError, match="the episode has 2 traces"):
        recorded_trace(episode)


def test_inspect_names_a_tool_in_function() -> None:
    call = {"id": "c", "function": "find", "arguments": {"q": "x"}, "type": "function"}
    trace = chat_trace(
        [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "r"},
        ]
    )

    assert [c.text for c in trace.turns[0].calls] == ['find({"q": "x"})']


def test_a_call_of_inspect_that_the_server_executed_brings_its_result() -> None:
    def search(place: str, result: str, error: str | None = None) -> dict[str, Any]:
        return {
            "type": "tool_use",
            "tool_type": "web_search",
            "id": place,
            "name": "web_search",
            "arguments": '{"query": "x"}',
            "result": result,
            "error": error,
        }

    parts = [search("s1", "found"), search("s2", "", "timed out")]
    reply = {"role": "assistant", "content": [*parts, {"type": "text", "text": "4."}]}

    trace = chat_trace([reply])

    assert [(step.call_id, step.text) for step in trace.steps] == [
        ("", "4."),
        ("s1", "found"),
        ("s2", "timed out"),
    ]
    assert [call.text for call in trace.turns[0].calls] == [
        'web_search({"query": "x"})'
    ] * 2


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        ("", {"type": "permission", "message": "Not allowed."}, "Not allowed."),
        ("12 lines", {"type": "limit", "message": "Cut."}, "12 lines\nCut."),
        ("12 lines", None, "12 lines"),
        ("12 lines", "lost", "12 lines"),
        ("12 lines", {"type": "limit"}, "12 lines"),
    ],
)
def test_what_a_tool_of_inspect_said_of_its_failure_is_its_result(
    content: str, error: object, text: str
) -> None:
    result = {**MESSAGES[1], "content": content, "error": error}

    trace = chat_trace([MESSAGES[0], result, MESSAGES[2]])

    assert trace.steps[1].text == text


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ([{"type": "hologram", "hologram": "4"}], "hologram"),
        ([{"type": "text", "text": "It is"}, {"type": "image_url"}], "image_url"),
        ([{"says": "4"}], "without a type"),
        ([4], "int"),
        ({"parts": ["4"]}, "dict"),
        (4, "int"),
    ],
)
def test_a_reply_of_an_unknown_kind_is_no_empty_answer(
    content: object, kind: str
) -> None:
    message = {"role": "assistant", "content": content}
    for read in (answer_from, chat_trace):
        with pytest.raises(SchemaError, match=f"is of the kind '{kind}', in which"):
            read([message])


def test_an_item_of_an_unknown_kind_of_content_is_no_empty_reply() -> None:
    item = {"type": "message", "role": "assistant", "content": [{"type": "hologram"}]}

    with pytest.raises(SchemaError, match="is of the kind 'hologram'"):
        recorded_trace([item])


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": ["It is ", "4."]}, "It is 4."),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": "So.", "refusal": "I will not."}, "So."),
        ({"content": [{"type": "refusal", "refusal": "No."}]}, "No."),
        ({"content": None, "audio": {"id": "a", "transcript": "Four."}}, "Four."),
        ({"content": [{"type": "text", "text": None}]}, ""),
        ({"content": [{"type": "tool_use", "id": "c"}]}, ""),
        ({"content": None}, ""),
    ],
)
def test_a_reply_is_read_where_openai_keeps_it(
    message: dict[str, Any], text: str
) -> None:
    answer = answer_from([{"role": "assistant", **message}])

    assert answer == answer_of(text)


@pytest.mark.parametrize(
    "trajectory",
    [
        [{"role": "assistant", "content": [{"type": "k" * 99}]}],
        [{"type": "reasoning"}, {"type": "k" * 99}],
        {"schema_version": "k" * 99, "steps": []},
        {"schema_version": "ATIF-v1.4", "steps": [{"source": "k" * 99}]},
        {"k" * 99: 1},
    ],
)
def test_an_error_says_that_it_cut_a_name(trajectory: object) -> None:
    with pytest.raises(SchemaError, match=r"k…"):
        recorded_trace(trajectory)
