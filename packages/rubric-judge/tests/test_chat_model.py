"""The model that judges and synthesis share, over real HTTP."""

import json

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from rubric_core import Reason
from rubric_judge import (
    ChatModel,
    JudgeConfig,
    JudgeSetupError,
    JudgeTransportError,
    LimitsConfig,
    LocalLimiter,
    ModelConfig,
    Prices,
)
from rubric_judge.testing import FakeCall, FakeEndpoint, Fault

pytestmark = pytest.mark.anyio


class Colour(BaseModel):
    """A reply of one field."""

    name: str


def _config(*addresses: str, **settings: object) -> ModelConfig:
    given = {"transport": "direct", "backoff_s": 0.001, **settings}
    return ModelConfig.model_validate({"model": "m", "api_base": addresses, **given})


def _colour(call: FakeCall) -> str:
    assert call.body["response_format"] is not None
    return '{"name": "blue"}'


async def test_the_schema_goes_with_the_question_and_the_text_comes_back_unread() -> (
    None
):
    with FakeEndpoint(_colour) as endpoint:
        async with ChatModel(_config(endpoint.url)) as model:
            answer = await model.complete(system="Be brief.", user="Sky?", reply=Colour)

    (call,) = endpoint.calls
    schema = call.body["response_format"]
    assert isinstance(schema, dict)
    assert schema["json_schema"]["name"] == "Colour"
    assert [message["content"] for message in call.messages] == ["Be brief.", "Sky?"]
    assert (answer.text, answer.finish, answer.attempts) == (
        '{"name": "blue"}',
        "complete",
        1,
    )


async def test_an_answer_outside_of_the_schema_is_still_an_answer() -> None:
    with FakeEndpoint(lambda _: "no colour at all") as endpoint:
        async with ChatModel(_config(endpoint.url)) as model:
            answer = await model.complete(system="", user="", reply=Colour)

    assert answer.text == "no colour at all"
    assert len(endpoint.calls) == 1


async def test_attempts_are_priced_together_whether_an_answer_comes_or_not() -> None:
    prices = Prices(prompt_usd_per_mtok=1_000_000, completion_usd_per_mtok=0)
    faults = [Fault.HALF_RESPONSE, None]
    with FakeEndpoint(_colour, faults=faults) as endpoint:
        async with ChatModel(_config(endpoint.url, prices=prices)) as model:
            answer = await model.complete(system="four", user="four" * 3, reply=Colour)

    assert answer.attempts == 2
    assert answer.usage is not None
    assert answer.usage.cost_usd == answer.usage.prompt_tokens > 0


async def test_no_answer_is_an_error_with_its_reason_and_attempts() -> None:
    with FakeEndpoint(_colour, faults=[Fault.SERVER_ERROR] * 2) as endpoint:
        async with ChatModel(_config(endpoint.url, max_transport_attempts=2)) as model:
            with pytest.raises(JudgeTransportError) as raised:
                await model.complete(system="", user="", reply=Colour)

    assert (raised.value.reason, raised.value.attempts) == (Reason.SERVER_ERROR, 2)


async def test_calls_of_one_affinity_go_to_one_replica_and_others_spread() -> None:
    with FakeEndpoint(_colour) as one, FakeEndpoint(_colour) as other:
        async with ChatModel(_config(one.url, other.url)) as model:
            for affinity in ("document a", "document b", "document c", "document d"):
                for _ in range(2):
                    await model.complete(
                        system="", user=affinity, reply=Colour, affinity=affinity
                    )

    seen = [{call.messages[1]["content"] for call in e.calls} for e in (one, other)]
    assert not seen[0] & seen[1]
    assert all(seen)


async def test_several_models_share_a_limiter() -> None:
    limiter = LocalLimiter(LimitsConfig(max_in_flight=1))
    with FakeEndpoint(_colour) as endpoint:
        for _ in range(2):
            async with ChatModel(_config(endpoint.url), limiter=limiter) as model:
                assert model.limiter is limiter
                await model.complete(system="", user="", reply=Colour)

    assert limiter.statistics().attempts == 2


async def test_a_check_names_the_role_the_model_and_the_address() -> None:
    with FakeEndpoint(_colour, faults=[Fault.UNAUTHORIZED]) as endpoint:
        async with ChatModel(_config(endpoint.url), role="author") as model:
            with pytest.raises(JudgeSetupError) as raised:
                await model.check()
            await model.check()  # it answers now

    assert f"the author 'm' at '{endpoint.url}'" in str(raised.value)


def test_the_identity_has_all_that_may_change_an_answer_and_no_address() -> None:
    here = ChatModel(_config("http://127.0.0.1:1/v1", api_key_env=None)).identity
    there = ChatModel(_config("http://127.0.0.1:2/v1", timeout_s=5)).identity
    warmer = ChatModel(_config("http://127.0.0.1:1/v1", temperature=1.0)).identity

    assert here == there != warmer
    assert "127.0.0.1" not in str(here)


def test_a_judge_is_a_model_with_settings_of_its_own() -> None:
    settings = {"model": "openai/gpt", "temperature": 0.5, "max_tokens": 7}
    judge = JudgeConfig.model_validate(settings)

    assert isinstance(judge, ModelConfig)
    assert (
        ChatModel(judge).identity
        == ChatModel(ModelConfig.model_validate(settings)).identity
    )


async def test_a_check_sends_no_word_about_this_program() -> None:
    with FakeEndpoint(lambda _: '{"ready": true}') as endpoint:
        async with ChatModel(_config(endpoint.url)) as model:
            await model.check()

    assert "ChatModel" not in json.dumps(endpoint.calls[0].body)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Yes, I am.", "json_invalid in an answer of 10 characters"),
        ('{"ready": "yes"}', "bool_type in an answer of 16 characters"),
        ('{"name": "blue"}', "missing in an answer of 16 characters"),
        (
            '{"ready": true, "note": "?"}',
            "extra_forbidden in an answer of 28 characters",
        ),
        ('```json\n{"ready": true}\n```', "json_invalid in an answer of 27 characters"),
    ],
)
async def test_a_check_tells_of_an_answer_outside_of_its_schema(
    said: str, why: str
) -> None:
    with FakeEndpoint(lambda _: said) as endpoint, capture_logs() as logged:
        async with ChatModel(_config(endpoint.url), role="judge") as model:
            await model.check()

    (event,) = logged
    assert event["event"] == "judge.check.out_of_schema"
    assert (event["log_level"], event["why"]) == ("warning", why)
    assert (event["role"], event["model"]) == ("judge", "m")
    assert f"http://{event['server']}/v1" == endpoint.url
    assert said not in str(event)


async def test_a_check_tells_of_an_answer_that_is_cut() -> None:
    with (
        FakeEndpoint(_colour, faults=[Fault.TRUNCATED]) as endpoint,
        capture_logs() as logged,
    ):
        async with ChatModel(_config(endpoint.url)) as model:
            await model.check()

    assert [event["why"] for event in logged] == ["the answer is truncated"]


async def test_a_check_that_is_answered_in_its_schema_says_nothing() -> None:
    with (
        FakeEndpoint(lambda _: '{"ready": false}') as endpoint,
        capture_logs() as logged,
    ):
        async with ChatModel(_config(endpoint.url)) as model:
            await model.check()

    assert not logged
