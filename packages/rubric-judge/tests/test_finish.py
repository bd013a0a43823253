"""Why a model stopped decides whether its answer is one, on every route."""

from importlib import import_module
from typing import Any

import pytest

from rubric_core import Reason
from rubric_judge.errors import JudgeTransportError
from rubric_judge.models.chat import read_completion
from rubric_judge.models.litellm_replies import chat_reply


def _completion(*reasons: object) -> Any:
    litellm: Any = import_module("litellm")
    message = {"role": "assistant", "content": "blue"}
    choices = [litellm.Choices(finish_reason=why, message=message) for why in reasons]
    return litellm.ModelResponse(choices=choices)


def _said(content: str | None, why: str, **message: str) -> dict[str, object]:
    return {
        "choices": [{"finish_reason": why, "message": {"content": content, **message}}]
    }


@pytest.mark.parametrize(
    ("why", "finish"),
    [
        ("stop", "complete"),
        ("end_turn", "complete"),
        ("COMPLETE", "complete"),
        ("length", "truncated"),
        ("MAX_TOKENS", "truncated"),
        ("content_filter", "refused"),
        ("RECITATION", "refused"),
    ],
)
def test_litellm_says_how_an_answer_ended(why: str, finish: str) -> None:
    answer = chat_reply(_completion(why))
    assert (answer.text, answer.finish) == ("blue", finish)


@pytest.mark.parametrize("why", ["error", "ERROR", "network_error", "abort"])
def test_an_answer_that_the_server_did_not_finish_is_none_though_litellm_calls_it_stop(
    why: str,
) -> None:
    with pytest.raises(JudgeTransportError, match="not finished") as caught:
        chat_reply(_completion(why))
    assert caught.value.reason is Reason.SERVER_ERROR


@pytest.mark.parametrize("why", ["no-such-reason", None, 7])
def test_an_end_that_is_not_known_may_be_a_cut(why: object) -> None:
    said = {"choices": [{"finish_reason": why, "message": {"content": "blue"}}]}
    answer = read_completion(said)
    assert (answer.text, answer.finish) == ("blue", "unsaid")


def test_litellm_keeps_an_end_that_it_does_not_know() -> None:
    assert chat_reply(_completion("no-such-reason")).finish == "unsaid"


def test_several_answers_are_none() -> None:
    with pytest.raises(JudgeTransportError, match="2 choices where one was asked for"):
        chat_reply(_completion("stop", "stop"))


@pytest.mark.parametrize(
    "why", ["tool_calls", "function_call", "MALFORMED_FUNCTION_CALL"]
)
def test_of_a_call_of_a_tool_counts_the_text_beside_it(why: str) -> None:
    for answer in (chat_reply(_completion(why)), read_completion(_said("blue", why))):
        assert (answer.text, answer.finish) == ("blue", "complete")


def test_a_call_without_text_is_told_from_an_empty_answer() -> None:
    message = {"content": None, "tool_calls": [{"id": "1"}]}
    said = {"choices": [{"finish_reason": "tool_calls", "message": message}]}
    answer = read_completion(said)
    assert (answer.text, answer.finish, answer.beside) == ("", "complete", "tools")


def test_the_words_of_a_refusal_outweigh_the_end() -> None:
    assert read_completion(_said(None, "stop", refusal="No.")).finish == "refused"
