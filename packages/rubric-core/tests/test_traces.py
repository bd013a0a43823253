"""Traces of the formats that others record: turns, calls and results, and what is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rubric_core import Criterion, SchemaError, Thought
from rubric_core.traces import (
    Trace,
    TraceStep,
    atif_trace,
    chat_trace,
    responses_trace,
    verifiers_trace,
)

QUESTION = {"role": "user", "content": "How warm is it in Oslo?"}
ARGUMENTS = '{"city": "Oslo"}'
EXPECTED = [
    ("user", "How warm is it in Oslo?", (), ""),
    ("assistant", "Let me look.", (f"weather({ARGUMENTS})",), ""),
    ("tool", "4 degrees", (), "c1"),
    ("assistant", "It is 4 degrees.", (), ""),
    ("user", "And tomorrow?", (), ""),
    ("assistant", "I do not know.", (), ""),
]
"""Role, text, calls and the call that is answered, of the same trajectory in all formats."""


def _chat() -> Trace:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "weather", "arguments": ARGUMENTS},
    }
    messages = [
        {
            "role": "assistant",
            "content": "<think>Which tool?</think>\n\nLet me look.",
            "tool_calls": [call],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "4 degrees"},
        {
            "role": "assistant",
            "reasoning_content": "So 4.",
            "content": "It is 4 degrees.",
        },
        {"role": "user", "content": [{"type": "text", "text": "And tomorrow?"}]},
        {"role": "assistant", "content": "I do not know."},
    ]
    return chat_trace(messages, prompt=[QUESTION])


def _responses() -> Trace:
    def message(text: str) -> dict[str, object]:
        part = {"type": "output_text", "text": text, "annotations": []}
        return {"id": "m", "type": "message", "role": "assistant", "content": [part]}

    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "So"}]}
    output = [
        thought,
        message("Let me look."),
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "weather",
            "arguments": ARGUMENTS,
        },
        {"type": "function_call_output", "call_id": "c1", "output": "4 degrees"},
        thought,
        message("It is 4 degrees."),
        {"role": "user", "content": "And tomorrow?"},
        message("I do not know."),
    ]
    return responses_trace(output, prompt=[QUESTION])


def _atif() -> Trace:
    steps = [
        {"source": "user", "message": QUESTION["content"]},
        {
            "source": "agent",
            "message": "Let me look.",
            "reasoning_content": "Which tool?",
            "tool_calls": [
                {
                    "tool_call_id": "c1",
                    "function_name": "weather",
                    "arguments": {"city": "Oslo"},
                }
            ],
            "observation": {
                "results": [{"source_call_id": "c1", "content": "4 degrees"}]
            },
        },
        {
            "source": "agent",
            "message": "It is 4 degrees.",
            "reasoning_content": "So 4.",
        },
        {"source": "user", "message": [{"type": "text", "text": "And tomorrow?"}]},
        {"source": "agent", "message": "I do not know."},
    ]
    numbered = [{"step_id": n, **step} for n, step in enumerate(steps, 1)]
    agent = {"name": "a", "version": "1"}
    return atif_trace(
        {"schema_version": "ATIF-v1.8", "agent": agent, "steps": numbered}
    )


def _verifiers() -> Trace:
    call = {"id": "c1", "type": "function", "name": "weather", "arguments": ARGUMENTS}
    messages: list[dict[str, object]] = [
        QUESTION,
        {
            "role": "assistant",
            "content": "Let me look.",
            "reasoning_content": "Which tool?",
            "tool_calls": [call],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "4 degrees"},
        {
            "role": "assistant",
            "content": "It is 4 degrees.",
            "reasoning_content": "So 4.",
        },
        {"role": "user", "content": "And tomorrow?"},
        {"role": "assistant", "content": "I do not know."},
    ]
    nodes: list[dict[str, object]] = []
    for number, message in enumerate(messages):
        parent = number - 1 if number else None
        sampled = message["role"] == "assistant"
        nodes.append({"parent": parent, "message": message, "sampled": sampled})
    # A side branch, before the last node of the main one.
    stray = {"role": "assistant", "content": "Elsewhere."}
    nodes.insert(5, {"parent": 1, "message": stray, "sampled": True})
    nodes[6]["parent"] = 4
    return verifiers_trace({"nodes": nodes, "stop_condition": "has_error"})


@pytest.mark.parametrize("read", [_chat, _responses, _atif, _verifiers])
def test_one_trajectory_is_the_same_trace_in_all_formats(
    read: Callable[[], Trace],
) -> None:
    trace = read()

    found = [
        (step.role, step.text, tuple(call.text for call in step.calls), step.call_id)
        for step in trace.steps
    ]
    assert found == EXPECTED
    assert [step.text for step in trace.turns] == [
        "Let me look.",
        "It is 4 degrees.",
        "I do not know.",
    ]
    thoughts = [step.thought for step in trace.turns]
    assert thoughts == [Thought.CLOSED, Thought.CLOSED, Thought.NONE]
    assert trace.answer.text == "I do not know."


def test_no_dump_of_a_trace_shows_a_text() -> None:
    trace = _chat()

    for shown in (repr(trace), json.dumps(trace.model_dump(mode="json"))):
        assert "degrees" not in shown
        assert "Oslo" not in shown


def test_an_assistant_of_the_prompt_is_no_turn() -> None:
    given = [QUESTION, {"role": "assistant", "content": "Where are you?"}, QUESTION]

    trace = chat_trace([{"role": "assistant", "content": "Here."}], prompt=given)

    assert [step.text for step in trace.turns] == ["Here."]


CALL = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "r"}
END = {"role": "assistant", "content": "Done."}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([CALLS, END], r"steps\.0 makes a tool call 'c1' that has no result"),
        ([CALLS], "say `cut` if the last turn was cut"),
        ([RESULT, END], r"steps\.0 is the result of a tool call 'c1' that no step"),
        ([CALLS, RESULT, RESULT, END], "or that has its result"),
        ([CALLS, CALLS, RESULT], "while another one of this id"),
        ([], "the trace is empty: none of its 0 steps"),
        ([{"role": "user", "content": "Hi"}], "none of its 1 steps is a turn"),
        ([{"role": "tool", "content": "r"}, END], "names no call: give it the"),
        ([{"role": "narrator", "content": "r"}], r"messages\.0 has no role of system"),
        (
            [{"role": "assistant", "tool_calls": [{"id": "c1"}]}],
            r"messages\.0\.tool_calls\.0 names no tool",
        ),
        ("Done.", "messages: a text or a list of messages is needed, not str"),
        ([END, [END]], "is needed, not a list that holds a list"),
        (
            [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "f"}],
                },
            ],
            r"messages\.0 holds calls or results in its content, as Anthropic's",
        ),
        (
            [END, {"role": "user", "content": [{"type": "tool_result"}]}, END],
            r"messages\.1 holds calls or results in its content",
        ),
    ],
)
def test_what_is_no_trace_is_refused_with_its_place(
    messages: object, problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        chat_trace(messages)


def test_a_rollout_that_was_cut_may_end_with_open_calls() -> None:
    trace = chat_trace([CALLS, RESULT, CALLS], cut=True)

    assert len(trace.turns) == 2
    with pytest.raises(SchemaError, match=r"steps\.0 makes a tool call 'c1'"):
        chat_trace([CALLS, END], cut=True)


def test_calls_without_ids_get_their_results_in_order() -> None:
    calls = [{"function": {"name": name, "arguments": {}}} for name in "ab"]
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "name": "a", "content": "first"},
        {"role": "tool", "name": "b", "content": "second"},
        END,
    ]

    trace = chat_trace(messages)

    ids = [call.id for call in trace.steps[0].calls]
    assert [trace.steps[1].call_id, trace.steps[2].call_id] == ids
    assert [call.text for call in trace.steps[0].calls] == ["a({})", "b({})"]
    with pytest.raises(SchemaError, match="has no result"):
        chat_trace([messages[0], messages[1], END])


def test_results_that_name_a_tool_alone_answer_calls_with_ids() -> None:
    # As Ollama's: its calls have ids, and its results have none.
    def calls(*names: str) -> dict[str, object]:
        made = [{"id": f"call_{name}", "function": {"name": name}} for name in names]
        return {"role": "assistant", "tool_calls": made}

    def result(name: str, **more: str) -> dict[str, str]:
        return {"role": "tool", "content": name, "tool_name": name, **more}

    named = result("b", tool_call_id="call_b")
    messages = [calls("a", "b", "c"), named, result("c"), result("a"), calls("d")]

    trace = chat_trace([*messages, result("d"), END])

    results = [step for step in trace.steps if step.role == "tool"]
    assert [(step.call_id, step.text) for step in results] == [
        (f"call_{name}", name) for name in "bcad"
    ]
    with pytest.raises(SchemaError, match="'call_a' that has no result"):
        chat_trace([calls("a"), calls("d"), result("d"), END], cut=True)


def test_a_result_that_names_its_tool_answers_a_call_of_it() -> None:
    calls = [{"function": {"name": name, "arguments": ""}} for name in "abb"]
    results = [
        {"role": "tool", "name": name, "content": f"of {name} {number}"}
        for number, name in enumerate("bab")
    ]

    trace = chat_trace([{"role": "assistant", "tool_calls": calls}, *results, END])

    first, second, third = (call.id for call in trace.steps[0].calls)
    assert {step.call_id: step.text for step in trace.steps[1:4]} == {
        first: "of a 1",
        second: "of b 0",
        third: "of b 2",
    }


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": [{"id": "c1", "name": "f", "args": {"city": "Oslo"}}]},
        {"function_call": {"name": "f", "arguments": '{"city": "Oslo"}'}},
        {"tool_calls": [{"custom": {"name": "f", "input": '{"city": "Oslo"}'}}]},
    ],
)
def test_a_call_keeps_its_arguments_in_each_form(message: dict[str, Any]) -> None:
    result = {"role": "tool", "content": "r"}
    if "tool_calls" in message and "id" in message["tool_calls"][0]:
        result["tool_call_id"] = "c1"
    messages = [{"role": "assistant", "content": None, **message}, result, END]

    trace = chat_trace(messages)

    assert [call.text for call in trace.turns[0].calls] == ['f({"city": "Oslo"})']


def test_a_call_that_a_policy_left_without_a_name_is_one() -> None:
    call = {"id": "c1", "function": {"name": "", "arguments": "{}"}}

    trace = chat_trace([{"role": "assistant", "tool_calls": [call]}, RESULT, END])

    assert [call.text for call in trace.turns[0].calls] == ["({})"]


def test_one_observation_of_a_terminal_answers_all_commands_of_its_step() -> None:
    commands = [
        {
            "tool_call_id": f"call_0_{n}",
            "function_name": "bash_command",
            "arguments": {"keystrokes": keys},
        }
        for n, keys in enumerate(("ls\n", "pwd\n"), 1)
    ]
    step = {
        "step_id": 1,
        "source": "agent",
        "message": "Analysis: look around",
        "tool_calls": commands,
        "observation": {
            "results": [
                {"content": "a.txt\n/home"},
                {"source_call_id": "call_0_2", "content": "/home"},
            ]
        },
    }

    trace = atif_trace({"schema_version": "ATIF-v1.5", "steps": [step]})

    assert [step.call_id for step in trace.steps] == ["", "", "call_0_2"]
    assert [call.id for call in trace.turns[0].calls] == ["", "call_0_2"]


def test_several_results_of_one_call_are_its_result() -> None:
    call = {"tool_call_id": "c", "function_name": "look", "arguments": {}}
    results = [
        {"source_call_id": "c", "content": "a chart"},
        {"content": "a prompt"},
        {"source_call_id": "c", "content": [{"type": "image"}]},
        {"content": "a prompt"},
    ]
    step = {"source": "agent", "message": "", "tool_calls": [call]}
    step["observation"] = {"results": results}

    trace = atif_trace({"schema_version": "ATIF-v1.6", "steps": [step]})

    assert [(step.call_id, step.text) for step in trace.steps[1:]] == [
        ("c", "a chart\n[image]"),
        ("", "a prompt"),
        ("", "a prompt"),
    ]


def test_the_call_that_ends_a_task_may_stand_beside_a_command() -> None:
    def step(**more: object) -> dict[str, object]:
        calls = [
            {"tool_call_id": name, "function_name": name, "arguments": {}}
            for name in ("bash_command", "mark_task_complete")
        ]
        return {"source": "agent", "message": "x", "tool_calls": calls, **more}

    linked = {"source_call_id": "bash_command", "content": "ok"}
    seen = step(observation={"results": [linked]})

    trace = atif_trace({"schema_version": "ATIF-v1.8", "steps": [seen, seen]})

    assert [call.id for call in trace.turns[1].calls] == ["bash_command", ""]
    with pytest.raises(SchemaError, match="that has no result"):
        atif_trace({"schema_version": "ATIF-v1.8", "steps": [step()]})


def test_steps_of_atif_that_no_model_wrote_in_this_run_are_no_turns() -> None:
    steps: list[dict[str, object]] = [
        {"source": "agent", "message": "Old.", "is_copied_context": True},
        {"source": "agent", "message": "By rule.", "llm_call_count": 0},
        {"source": "agent", "message": "New.", "llm_call_count": 1},
    ]

    trace = atif_trace({"schema_version": "ATIF-v1.7", "steps": steps})

    assert [step.text for step in trace.turns] == ["New."]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"steps": []}, "schema_version is 'None', and ATIF-v1.x is read"),
        ({"schema_version": "ATIF-v2.0"}, "schema_version is 'ATIF-v2.0'"),
        (
            {"schema_version": "ATIF-v1.8", "continued_trajectory_ref": "next.json"},
            "goes on in another file",
        ),
        (
            {"schema_version": "ATIF-v1.8", "steps": [{"source": "robot"}]},
            r"steps\.0\.source is 'robot'",
        ),
    ],
)
def test_another_document_than_a_whole_trajectory_is_refused(
    document: dict[str, object], problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        atif_trace(document)


def test_calls_made_at_once_are_one_turn_of_responses() -> None:
    calls = [
        {"type": "function_call", "call_id": name, "name": name, "arguments": "{}"}
        for name in ("a", "b")
    ]
    results = [
        {"type": "function_call_output", "call_id": name, "output": name}
        for name in ("b", "a")
    ]

    trace = responses_trace([*calls, *results], prompt="Do both.")

    assert [step.role for step in trace.steps] == ["user", "assistant", "tool", "tool"]


def test_one_screen_of_a_terminal_is_the_result_of_the_call_that_it_names() -> None:
    def calls(step: int, *numbers: int) -> list[dict[str, str]]:
        return [
            {"type": "function_call", "call_id": f"call_{step}_{n}", "name": "run"}
            for n in numbers
        ]

    def screen(call_id: str) -> dict[str, str]:
        return {"type": "function_call_output", "call_id": call_id, "output": "$"}

    items = [*calls(0, 1, 2), screen("call_0_1"), *calls(1, 1, 2), screen("call_1_2")]
    user = {"role": "user", "content": "Go on."}

    trace = responses_trace([*items, user, *calls(2, 1, 2)], cut=True)

    # The last turn was cut: nobody knows what its calls would have returned.
    assert [(step.call_id, step.text) for step in trace.steps if not step.sampled] == [
        ("call_0_1", "$"),
        ("call_0_2", "[no result of its own]"),
        ("call_1_2", "$"),
        ("call_1_1", "[no result of its own]"),
        ("", "Go on."),
    ]
    with pytest.raises(SchemaError, match="'call_0_1' that has no result"):
        responses_trace([*calls(0, 1, 2), user, *calls(1, 1)], cut=True)


def test_a_call_that_the_server_executed_brings_its_result() -> None:
    item = {"type": "mcp_call", "name": "python", "arguments": "1+1", "output": "2"}
    said = {"type": "message", "role": "assistant", "content": "It is 2."}

    trace = responses_trace([item, said])

    # One model call may hold both, and the items do not say where it ended.
    assert [step.text for step in trace.steps] == ["It is 2.", "2"]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (
            {"type": "web_search_call", "id": "w"},
            "'web_search_call', which is not read",
        ),
        ({"type": "function_call_output", "output": "r"}, "names no call"),
    ],
)
def test_an_item_that_is_not_read_is_refused_by_its_type(
    item: dict[str, object], problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        responses_trace([item])


def test_an_image_is_named_where_a_tool_shows_one() -> None:
    parts = [{"type": "text", "text": "See:"}, {"type": "image_url", "image_url": {}}]
    result = {**RESULT, "content": parts}

    trace = chat_trace([CALLS, result, END])

    assert trace.steps[1].text == "See:\n[image_url]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (42, "42"),
        (0, "0"),
        (False, "false"),
        ({"degrees": 4}, '{"degrees": 4}'),
        ([{"degrees": 4}, 5], '{"degrees": 4}\n5'),
        (None, ""),
    ],
)
def test_what_a_tool_returns_is_kept_where_it_is_no_text(
    value: object, text: str
) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": value}

    chat = chat_trace([CALLS, {**RESULT, "content": value}, END])
    items = responses_trace([call, output])

    assert [chat.steps[1].text, items.steps[1].text] == [text, text]


@pytest.mark.parametrize(
    ("fields", "text"),
    [({"output": 0}, "0"), ({"output": None, "error": "no route"}, "no route")],
)
def test_a_hosted_call_keeps_what_it_returned(
    fields: dict[str, object], text: str
) -> None:
    trace = responses_trace([{"type": "mcp_call", "id": "c", "name": "f", **fields}])

    assert trace.steps[1].text == text


@pytest.mark.parametrize("observation", ["4 degrees", [{"content": "4 degrees"}], 4])
def test_an_observation_of_another_shape_is_not_left_out(observation: object) -> None:
    step = {"source": "agent", "message": "Look.", "observation": observation}

    with pytest.raises(SchemaError, match=r"steps\.0\.observation is of the type"):
        atif_trace({"schema_version": "ATIF-v1.5", "steps": [step]})


@pytest.mark.parametrize("kind", [["text"], {"a": 1}])
def test_a_type_that_is_no_name_is_refused_as_one_that_is_not_known(
    kind: object,
) -> None:
    part = {"role": "assistant", "content": [{"type": kind, "image": "i"}]}

    with pytest.raises(SchemaError, match=r"content\.0 is of the kind"):
        chat_trace([part])
    with pytest.raises(SchemaError, match=r"output\.0 is an item of the type"):
        responses_trace([{"type": kind}])


def test_an_error_shows_the_beginning_of_an_id() -> None:
    result = {**RESULT, "tool_call_id": "c" * 100 + "SECRET"}

    with pytest.raises(SchemaError, match="is the result of a tool call 'ccc") as error:
        chat_trace([CALLS, result, END])
    assert "SECRET" not in str(error.value)


def test_a_call_of_openais_first_form_counts_beside_an_empty_list() -> None:
    call = {"name": "f", "arguments": "{}"}
    message: dict[str, object] = {"role": "assistant", "content": "a", "tool_calls": []}

    trace = chat_trace([{**message, "function_call": call}], cut=True)

    assert [made.text for made in trace.turns[0].calls] == ["f({})"]


@pytest.mark.parametrize(
    ("record", "is_cut"),
    [
        ({"stop_condition": "max_turns"}, True),
        (
            {"calls": [{"finish_reason": "tool_calls"}, {"finish_reason": "length"}]},
            True,
        ),
        # A call that failed says nothing of how the model ended.
        (
            {"calls": [{"finish_reason": "length"}, {"error": {"type": "APIError"}}]},
            True,
        ),
        ({"calls": [{"finish_reason": "length"}, {"finish_reason": "stop"}]}, False),
        ({"stop_condition": "agent_completed", "calls": []}, False),
    ],
)
def test_a_record_of_verifiers_says_whether_it_was_cut(
    record: dict[str, Any], *, is_cut: bool
) -> None:
    nodes = [{"parent": None, "message": CALLS, "sampled": True}]

    if is_cut:
        assert verifiers_trace({"nodes": nodes, **record}).cut
        return
    with pytest.raises(SchemaError, match="that has no result"):
        verifiers_trace({"nodes": nodes, **record})


def test_a_reply_that_a_harness_made_up_is_no_turn_of_verifiers() -> None:
    made_up = {"role": "assistant", "content": "I go on."}
    search = {"type": "tool_use", "id": "s", "name": "search", "result": "found"}
    searched = {"role": "assistant", "content": [search]}
    messages = [QUESTION, END, made_up, searched, QUESTION, made_up, END]
    nodes = [
        {"parent": place - 1 if place else None, "message": message, "sampled": own}
        for place, (message, own) in enumerate(
            zip(messages, (False, True, False, True, False, False, True), strict=True)
        )
    ]

    trace = verifiers_trace({"nodes": nodes})

    assert [step.text for step in trace.turns] == ["Done.", "", "Done."]
    assert [step.role for step in trace.steps].count("tool") == 1


def test_a_damaged_record_of_verifiers_is_refused() -> None:
    node = {"parent": 7, "message": END, "sampled": True}

    with pytest.raises(SchemaError, match=r"nodes\.7 is no node"):
        verifiers_trace({"nodes": [node]})
    with pytest.raises(SchemaError, match="wrote none of its 1 messages"):
        verifiers_trace({"nodes": [{"parent": None, "message": QUESTION}]})
    with pytest.raises(SchemaError, match="here are none"):
        verifiers_trace({})


def test_a_step_fits_its_role() -> None:
    with pytest.raises(SchemaError, match="only an assistant calls tools"):
        TraceStep(role="user", text="x", sampled=True)
    with pytest.raises(SchemaError, match="only a tool has a call_id"):
        TraceStep(role="assistant", text="x", call_id="c1")


@pytest.mark.parametrize(
    "judges", ["every_turn", "turn_1", "turn_12", "tool_use", "full_trace"]
)
def test_a_criterion_keeps_what_it_judges(judges: str) -> None:
    criterion = Criterion(id="a", weight=1, judges=judges)

    assert criterion.reveal()["judges"] == judges
    assert Criterion.model_validate(criterion.reveal()) == criterion


@pytest.mark.parametrize(
    "judges", ["turn_0", "turn_01", "turn 1", "the end", "turn_12345"]
)
def test_another_part_of_a_trace_is_refused(judges: str) -> None:
    with pytest.raises(SchemaError, match="must be 'last_reply', 'every_turn'"):
        Criterion(id="a", weight=1, judges=judges)


def test_the_last_reply_is_what_a_criterion_judges_that_says_nothing() -> None:
    plain = Criterion(id="a", weight=1)

    assert Criterion(id="a", weight=1, judges="last_reply") == plain
    assert "judges" not in plain.reveal()
