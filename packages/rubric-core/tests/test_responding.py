from collections.abc import Mapping

import pytest

from rubric_core import (
    Decoding,
    Finish,
    PluginError,
    Reason,
    Reply,
    SchemaError,
    Thought,
    answer_of,
    find_responder,
    responder_names,
)


def test_a_reply_is_an_answer_or_a_reason_why_none_came() -> None:
    answered = Reply.answered("", finish=Finish.TRUNCATED, tokens=0)
    assert (answered.text, answered.reason) == ("", None)
    lost = Reply.unavailable(Reason.TIMEOUT, "after 3 attempts")
    assert (lost.text, lost.finish, lost.reason) == (None, None, Reason.TIMEOUT)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"text": "a"},
        {"finish": Finish.COMPLETE},
        {"text": "a", "finish": Finish.COMPLETE, "reason": Reason.TIMEOUT},
        {"reason": Reason.NOT_JSON},  # what a judge does, not a model that answers
        {"reason": Reason.TIMEOUT, "finish": Finish.COMPLETE},
    ],
)
def test_a_reply_is_not_both_and_not_neither(fields: Mapping[str, object]) -> None:
    with pytest.raises(SchemaError, match="give a text and how it ended, or a reason"):
        Reply.model_validate(fields)


def test_a_reply_says_what_stood_before_its_answer() -> None:
    closed = Reply.of_completion(answer_of("<think>4?</think> 5 "), tokens=9)
    assert (closed.text, closed.thought, closed.tokens) == ("5", Thought.CLOSED, 9)
    assert closed.finish is Finish.COMPLETE
    assert Reply.of_completion(answer_of(" 5 ")) == Reply.answered("5")
    unclosed = Reply.of_completion(answer_of("<think>4?"))
    assert (unclosed.text, unclosed.thought) == ("", Thought.UNCLOSED)
    assert unclosed.finish is Finish.TRUNCATED
    filtered = Reply.of_completion(answer_of("<think>4?"), finish=Finish.REFUSED)
    assert filtered.finish is Finish.REFUSED


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "4", "finish": Finish.TRUNCATED},
        {"text": "", "finish": Finish.COMPLETE},
    ],
)
def test_a_thought_that_does_not_end_has_no_answer(
    fields: Mapping[str, object],
) -> None:
    with pytest.raises(SchemaError, match="leaves an empty text, and is cut"):
        Reply.model_validate({"thought": Thought.UNCLOSED, **fields})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("top_p", 0.0),
        ("top_k", 0),
        ("max_tokens", 0),
        ("beams", 4),
        ("stop", ("\n", "")),  # every answer would end before it began
    ],
)
def test_decoding_refuses_what_nobody_can_do(field: str, value: object) -> None:
    with pytest.raises(SchemaError, match=field):
        Decoding.model_validate({field: value})


def test_an_unknown_responder_is_named_with_those_that_are_installed() -> None:
    with pytest.raises(
        PluginError, match=r"nothing called 'no_such' .*rubric\.responders"
    ):
        find_responder("no_such")
    assert list(responder_names()) == sorted(responder_names())


def test_the_likeliest_of_some_choices_is_chosen() -> None:
    reply = Reply.chosen(("A", "B", "C"), [-2.0, -0.5, -0.5])
    assert (reply.text, reply.finish, reply.tokens) == ("B", Finish.COMPLETE, None)
    assert reply.choice_logprobs == (-2.0, -0.5, -0.5)
    assert Reply.answered("B").choice_logprobs == ()


@pytest.mark.parametrize("logprob", [float("nan"), float("-inf")])
def test_choices_without_numbers_are_no_answer(logprob: float) -> None:
    reply = Reply.chosen(("A", "B"), [-1.0, logprob])
    assert (reply.text, reply.reason) == (None, Reason.SERVER_ERROR)
