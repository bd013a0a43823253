"""Answers over a real socket: what is sent, what is refused, and what becomes of a failure."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import yaml

from rubric_core import Ask, ConfigError, Decoding, Finish, PolicyView, Reason, Reply
from rubric_eval.responders.opening import OpenModel, open_model, open_models
from rubric_eval.responders.spec import ModelSpec, parse_model
from rubric_judge import JudgeSetupError
from rubric_judge.testing import FakeCall, FakeEndpoint, Fault, ServedModel

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:9/v1"
DECODING = Decoding(temperature=0.7, top_p=0.9, top_k=40, max_tokens=50, stop=("END",))


def _asks(*questions: str) -> list[Ask]:
    return [
        Ask(view=PolicyView(task_id=f"t{number}", question=question), seed=number)
        for number, question in enumerate(questions)
    ]


async def _replies(
    model: OpenModel, asks: list[Ask], decoding: Decoding
) -> list[Reply]:
    replies: dict[int, Reply] = {}
    stream: AsyncIterator[tuple[int, Reply]] = model.responder.respond(asks, decoding)
    async for index, reply in stream:
        assert index not in replies
        replies[index] = reply
    return [replies[index] for index in range(len(asks))]


def _spec(url: str, *, kind: str = "server", **options: object) -> ModelSpec:
    given = {"api_base": url, "model": "fake", "backoff_s": 0.001, **options}
    return ModelSpec.model_validate(
        {"name": "m", "kind": kind, "options": given, "spec": f"m={kind}"}
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [("server", "fake"), ("litellm", "hosted_vllm/fake"), ("litellm", "openai/fake")],
)
async def test_the_whole_decoding_is_sent_through_both_transports(
    kind: str, name: str
) -> None:
    with FakeEndpoint(served=ServedModel()) as endpoint:
        async with await open_model(
            _spec(endpoint.url, kind=kind, model=name)
        ) as model:
            await _replies(model, _asks("one?", "two?"), DECODING)
            await _replies(model, _asks("three?"), Decoding())
            assert model.entry.prompt_form == "chat"

    by_question = {call.messages[-1]["content"]: call.body for call in endpoint.calls}
    assert len(endpoint.calls) == 3
    for number, question in enumerate(("one?", "two?")):
        body = by_question[question]
        assert body["messages"] == [{"role": "user", "content": question}]
        sent = {
            key: body[key]
            for key in ("temperature", "top_p", "top_k", "max_tokens", "stop")
        }
        assert sent == {
            "temperature": 0.7,
            "top_p": 0.9,
            "top_k": 40,
            "max_tokens": 50,
            "stop": ["END"],
        }
        assert body["seed"] == number
        assert "response_format" not in body
    # What vLLM would else take from the model's own generation_config.json.
    plain = by_question["three?"]
    assert (plain["temperature"], plain["top_p"], plain["top_k"]) == (0.0, 1.0, -1)
    assert (plain["repetition_penalty"], plain["min_p"]) == (1.0, 0.0)
    assert (plain["presence_penalty"], plain["frequency_penalty"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("kind", "name"), [("server", "fake"), ("litellm", "openai/fake")]
)
async def test_a_conversation_is_sent_as_its_messages(kind: str, name: str) -> None:
    question = "system: Be brief.\n\nuser: Hi\n\nassistant: Hello.\n\nuser: Well?"
    view = PolicyView(task_id="t", question=question, conversation=True)
    with FakeEndpoint(served=ServedModel()) as endpoint:
        async with await open_model(
            _spec(endpoint.url, kind=kind, model=name)
        ) as model:
            await _replies(model, [Ask(view=view, seed=1)], Decoding())

    assert endpoint.calls[-1].messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Well?"},
    ]


async def test_another_server_than_vllm_is_sent_no_field_of_vllms() -> None:
    with FakeEndpoint(served=ServedModel(owner="organization")) as endpoint:
        async with await open_model(_spec(endpoint.url)) as model:
            await _replies(model, _asks("one?"), Decoding())
    body = endpoint.calls[0].body
    assert {"top_k", "min_p", "repetition_penalty"}.isdisjoint(body)
    assert body["top_p"] == 1.0


@pytest.mark.parametrize("owner", ["sglang", "llamacpp"])
async def test_other_servers_that_fill_fields_in_are_sent_theirs(owner: str) -> None:
    with FakeEndpoint(served=ServedModel(owner=owner)) as endpoint:
        async with await open_model(_spec(endpoint.url)) as model:
            await _replies(model, _asks("one?"), Decoding())
            identity = model.entry.identity
    body = endpoint.calls[0].body
    penalty = {"sglang": "repetition_penalty", "llamacpp": "repeat_penalty"}[owner]
    assert (body[penalty], body["min_p"], body["presence_penalty"]) == (1.0, 0.0, 0.0)
    assert body["top_k"] == (-1 if owner == "sglang" else 0)
    assert identity["decoding"] == "neutral"


async def test_a_field_that_the_model_refuses_is_left_out_where_the_user_says_so() -> (
    None
):
    with FakeEndpoint(served=ServedModel(owner="openai")) as endpoint:
        options = {"leaves_out": ["temperature", "top_p"], "takes_seed": False}
        async with await open_model(_spec(endpoint.url, **options)) as model:
            (reply,) = await _replies(model, _asks("one?"), Decoding())
            identity = model.entry.identity
        async with await open_model(_spec(endpoint.url)) as usual:
            assert "leaves_out" not in usual.entry.identity
    assert reply.text == "An answer of five words."
    assert {"temperature", "top_p", "seed"}.isdisjoint(endpoint.calls[0].body)
    assert identity["leaves_out"] == ["temperature", "top_p"]


async def test_a_model_that_refuses_a_temperature_is_told_how_to_be_asked_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    options = {
        "model": "openai/gpt-5-mini",
        "takes_seed": False,
        "leaves_out": ["top_p"],
    }
    spec = ModelSpec.model_validate(
        {"name": "m", "kind": "litellm", "options": options, "spec": "m"}
    )
    async with await open_model(spec) as model:
        (reply,) = await _replies(model, _asks("one?"), Decoding())
    assert (reply.text, reply.reason) == (None, Reason.BAD_REQUEST)
    assert "set `leaves_out: [temperature]`" in reply.detail


async def test_a_route_that_says_vllm_is_sent_its_fields_whoever_owns_the_model() -> (
    None
):
    with FakeEndpoint(served=ServedModel(owner="organization")) as endpoint:
        spec = _spec(endpoint.url, kind="litellm", model="hosted_vllm/fake")
        async with await open_model(spec) as model:
            await _replies(model, _asks("one?"), Decoding())
    body = endpoint.calls[0].body
    assert (body["top_k"], body["repetition_penalty"], body["min_p"]) == (-1, 1.0, 0.0)


async def test_answers_say_how_they_ended_and_how_long_they_are() -> None:
    def answer(call: FakeCall) -> str:
        return (
            "a b c d e f END g"
            if call.messages[0]["content"] == "stop?"
            else "a b c d e f g h"
        )

    with FakeEndpoint(served=ServedModel(answer=answer)) as endpoint:
        async with await open_model(_spec(endpoint.url)) as model:
            decoding = Decoding(max_tokens=7, stop=("END",))
            stopped, cut = await _replies(model, _asks("stop?", "cut?"), decoding)
    assert (stopped.text, stopped.finish) == ("a b c d e f", Finish.COMPLETE)
    assert (cut.text, cut.finish, cut.tokens) == ("a b c d e f g", Finish.TRUNCATED, 7)


async def test_max_tokens_is_cut_to_what_the_model_has_positions_for() -> None:
    served = ServedModel(answer=" ".join("x" * 200), positions=64)
    questions = (
        "short?",
        " ".join("q" * 50),
        " ".join("q" * 61),
        " ".join("q" * 62),
        "q " * 500,
    )
    with FakeEndpoint(served=served) as endpoint:
        async with await open_model(_spec(endpoint.url)) as model:
            replies = await _replies(model, _asks(*questions), Decoding())
    assert [reply.tokens for reply in replies] == [61, 12, 1, None, None]
    assert {reply.finish for reply in replies[:3]} == {Finish.TRUNCATED}
    assert {reply.reason for reply in replies[3:]} == {Reason.BAD_REQUEST}
    assert "longer than the model's context" in replies[4].detail
    assert len(endpoint.calls) == 3  # nothing is sent that cannot be answered


@pytest.mark.parametrize("transport", ["direct", "litellm"])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.SERVER_ERROR, Reason.SERVER_ERROR),
        (Fault.RATE_LIMIT, Reason.RATE_LIMITED),
        (Fault.UNAUTHORIZED, Reason.AUTH),
        (Fault.BAD_REQUEST, Reason.BAD_REQUEST),
        (Fault.RESET, Reason.CONNECTION),
        (Fault.HALF_RESPONSE, Reason.CONNECTION),
        (Fault.WRONG_CONTENT_TYPE, Reason.SERVER_ERROR),
        (Fault.HANG, Reason.TIMEOUT),
    ],
)
async def test_a_failure_is_no_answer(
    transport: str, fault: Fault, reason: Reason
) -> None:
    options = {"transport": transport, "max_transport_attempts": 1, "timeout_s": 2}
    name = "fake" if transport == "direct" else "hosted_vllm/fake"
    # litellm's route to vLLM asked once more by itself where a connection is reset, before 1.108.
    may_ask = 2 if (transport, fault) == ("litellm", Fault.RESET) else 1
    faults = [fault] * 2
    with FakeEndpoint(served=ServedModel(), faults=faults) as endpoint:
        async with await open_model(
            _spec(endpoint.url, model=name, **options)
        ) as model:
            (failed,) = await _replies(model, _asks("one?"), Decoding())
            asked = len(endpoint.calls)
            faults.clear()
            (answered,) = await _replies(model, _asks("one?"), Decoding())
    assert (failed.text, failed.reason) == (None, reason)
    assert 1 <= asked <= may_ask
    assert answered.text == "An answer of five words."


@pytest.mark.parametrize("transport", ["direct", "litellm"])
@pytest.mark.parametrize(
    ("fault", "finish", "text"),
    [
        (Fault.EMPTY, Finish.COMPLETE, ""),
        (Fault.TRUNCATED, Finish.TRUNCATED, "An answer of"),
        (Fault.REFUSAL, Finish.REFUSED, ""),
        (Fault.CONTENT_FILTER, Finish.REFUSED, "An answer of five words."),
        (Fault.CONTENT_POLICY, Finish.REFUSED, ""),
        (Fault.SLOW_DRIP, Finish.COMPLETE, "An answer of five words."),
    ],
)
async def test_an_answer_that_came_is_one(
    transport: str,
    fault: Fault,
    finish: Finish,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rubric_judge.testing.endpoint._DRIP_INTERVAL_S", 0.001)
    name = "fake" if transport == "direct" else "hosted_vllm/fake"
    spec_options = {"transport": transport, "model": name}
    with FakeEndpoint(served=ServedModel(), faults=[fault]) as endpoint:
        async with await open_model(_spec(endpoint.url, **spec_options)) as model:
            (reply,) = await _replies(model, _asks("one?"), Decoding())
    assert reply.finish == finish
    assert reply.text is not None
    assert reply.text.strip() == text
    assert len(endpoint.calls) == 1


async def test_attempts_are_made_again_within_the_limits() -> None:
    faults = [Fault.SERVER_ERROR, Fault.RATE_LIMIT, Fault.RESET]
    with FakeEndpoint(served=ServedModel(), faults=faults) as endpoint:
        async with await open_model(
            _spec(endpoint.url, limits={"max_in_flight": 2})
        ) as model:
            replies = await _replies(
                model, _asks(*(f"{n}?" for n in range(20))), Decoding()
            )
    assert all(reply.text for reply in replies)
    assert len(endpoint.calls) == 23


async def test_half_a_surrogate_pair_in_an_answer_is_replaced() -> None:
    with FakeEndpoint(served=ServedModel(answer="half \ud800 pair")) as endpoint:
        async with await open_model(_spec(endpoint.url)) as model:
            (reply,) = await _replies(model, _asks("one?"), Decoding())
    assert reply.text == "half ? pair"


async def test_a_server_names_its_only_model_and_its_weights() -> None:
    served = ServedModel(name="policy", root="runs/best", positions=512)
    with (
        FakeEndpoint(served=served) as endpoint,
        FakeEndpoint(
            served=ServedModel(name="policy", root="runs/base", positions=512)
        ) as other,
    ):
        async with await open_model(parse_model(f"m=server:{endpoint.url}")) as model:
            await _replies(model, _asks("one?"), Decoding(max_tokens=5))
            again = await open_model(parse_model(f"n=server:{endpoint.url}#policy"))
            base = await open_model(parse_model(f"m=server:{other.url}"))
    assert endpoint.calls[0].body["model"] == "policy"
    assert model.fingerprint == again.fingerprint != base.fingerprint
    assert "127.0.0.1" not in str(model.entry.identity)
    for one in (again, base):
        await one.aclose()
    with (
        FakeEndpoint(served=served) as endpoint,
        pytest.raises(ConfigError, match="serves no 'other', but 'policy'"),
    ):
        await open_model(parse_model(f"m=server:{endpoint.url}#other"))


async def test_replicas_serve_one_model() -> None:
    one, other = ServedModel(root="runs/base"), ServedModel(root="runs/best")
    with FakeEndpoint(served=one) as first, FakeEndpoint(served=other) as second:
        options = {"transport": "direct", "api_base": [first.url, second.url]}
        with pytest.raises(ConfigError, match="serve different models"):
            await open_model(_spec("", **options))


async def test_nobody_there_is_said_at_once_and_others_are_closed() -> None:
    with FakeEndpoint(served=ServedModel()) as endpoint:
        specs = [
            parse_model(f"a=server:{endpoint.url}#fake"),
            parse_model(f"b=server:{NOBODY}#fake"),
        ]
        with pytest.raises(JudgeSetupError, match="no model is served at"):
            await open_models(specs)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"temperature": 0.5}, "temperature may not stand there"),
        ({"max_tokens": 5}, "max_tokens may not stand there"),
        ({"parameters": {"top_p": 0.5, "seed": 1}}, "seed, top_p may not stand there"),
        (
            {"parameters": {"repetition_penalty": 1.1}},
            "repetition_penalty may not stand there",
        ),
        ({"leaves_out": ["max_tokens"]}, "leaves_out"),
        ({"api_bse": "x"}, "did you mean 'api_base'"),
        ({"takes_seed": "no"}, "takes_seed: needs `true` or `false`"),
    ],
)
async def test_a_decoding_of_its_own_is_refused(
    options: dict[str, object], what: str
) -> None:
    with pytest.raises(ConfigError, match=what):
        await open_model(_spec(NOBODY, **options))


async def test_what_a_provider_does_not_take_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    spec = ModelSpec(
        name="m",
        kind="litellm",
        options={"model": "anthropic/claude-3-haiku-20240307"},
        spec="m",
    )
    async with await open_model(spec) as model:
        with pytest.raises(ConfigError, match=r"does not send seed.*takes_seed: false"):
            await _replies(model, _asks("one?"), Decoding())


async def test_a_router_file_is_part_of_who_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "a-key")
    fingerprints: list[str] = []
    for weights in ("hosted_vllm/base", "hosted_vllm/best"):
        with FakeEndpoint(served=ServedModel()) as endpoint:
            params = {
                "model": weights,
                "api_base": endpoint.url,
                "api_key": "os.environ/SOME_KEY",
            }
            router = {
                "model_list": [{"model_name": "policy", "litellm_params": params}]
            }
            (tmp_path / "router.yaml").write_text(yaml.safe_dump(router), "utf-8")
            (tmp_path / "model.yaml").write_text(
                "model: policy\nlitellm_config: router.yaml\n", "utf-8"
            )
            spec = parse_model(f"m=file:{tmp_path / 'model.yaml'}")
            async with await open_model(spec) as model:
                (reply,) = await _replies(model, _asks("one?"), DECODING)
                fingerprints.append(model.fingerprint)
        assert reply.text == "An answer of five words."
        assert endpoint.calls[0].body["model"] == weights.partition("/")[2]
        assert endpoint.calls[0].body["seed"] == 0
        # Nobody has asked the server who it is, and its model may have a penalty of its own.
        plain = {"top_k": 40, "repetition_penalty": 1.0, "min_p": 0.0}
        assert {name: endpoint.calls[0].body.get(name) for name in plain} == plain
    assert len(set(fingerprints)) == 2


async def test_who_leaves_early_leaves_no_call_behind() -> None:
    with FakeEndpoint(served=ServedModel(), latency=0.05) as endpoint:
        async with await open_model(
            _spec(endpoint.url, limits={"max_in_flight": 2})
        ) as model:
            asks = _asks(*(f"{n}?" for n in range(50)))
            async with aclosing(model.responder.respond(asks, Decoding())) as stream:
                await anext(stream)
    assert len(endpoint.calls) <= 4
