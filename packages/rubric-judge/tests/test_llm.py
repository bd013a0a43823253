"""The judge over a scripted client; `test_client.py` has the real one."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import structlog

from rubric_core import Grounding, JudgeView, Outcome, Reason, Usage
from rubric_judge import (
    ChatReply,
    ChatRequest,
    JudgeConfig,
    JudgeTransportError,
    LLMJudge,
    Prices,
    Transport,
)
from rubric_judge.judges.llm.prompt import load_prompt
from rubric_judge.models.chat import Finish

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio

CONFIG = JudgeConfig(model="openai/gpt", passage_chars=20)
VALID = {
    "reasoning": "ok",
    "scores": {"names the loss": 1.5, "gives_limit": 0},
    "total": 1.5,
    "max_total": 3,
}


@dataclass
class Answering(Transport):
    """A client that gives one answer, or one error."""

    answer: ChatReply | JudgeTransportError
    asked: list[ChatRequest] = field(default_factory=list[ChatRequest])

    async def ask(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        if isinstance(self.answer, JudgeTransportError):
            raise self.answer
        return self.answer


def _reply(text: str, *, finish: Finish = "complete") -> ChatReply:
    return ChatReply(text=text, finish=finish, usage=Usage(prompt_tokens=7), attempts=2)


async def test_a_valid_reply_is_scored_with_what_is_known_of_the_call(
    make_view: ViewFactory,
) -> None:
    client = Answering(_reply(json.dumps(VALID)))
    judge = LLMJudge(CONFIG, client=client)
    result = await judge.judge(make_view())
    assert result.outcome is Outcome.SCORED
    assert result.scores == VALID["scores"]
    assert (result.judge, result.attempts) == (judge.name, 2)
    assert result.usage == Usage(prompt_tokens=7)
    assert result.latency_s is not None
    (request,) = client.asked
    rendered = load_prompt("shared_prefix").render(make_view(), passage_chars=20)
    assert (request.system, request.user) == (rendered.system, rendered.user)
    assert request.reply is not None
    assert request.reply.__name__ == "JudgeReply"


@pytest.mark.parametrize(
    ("cached_price", "cached_tokens", "cost_usd"),
    [(None, 400, 3.8e-3), (0.5, 400, 3.2e-3), (0.5, None, 3.8e-3)],
)
async def test_prices_of_ones_own_give_the_cost_of_a_call(
    cached_price: float | None,
    cached_tokens: int | None,
    cost_usd: float,
    make_view: ViewFactory,
) -> None:
    prices = Prices(
        prompt_usd_per_mtok=2,
        completion_usd_per_mtok=9,
        cached_usd_per_mtok=cached_price,
    )
    usage = Usage(
        prompt_tokens=1000,
        completion_tokens=200,
        cached_tokens=cached_tokens,
        cost_usd=77.0,
    )
    reply = ChatReply(
        text=json.dumps(VALID), finish="complete", usage=usage, attempts=1
    )
    config = CONFIG.model_copy(update={"prices": prices})
    result = await LLMJudge(config, client=Answering(reply)).judge(make_view())
    assert result.usage is not None
    # 1000 read at 2 and 200 written at 9; 400 of those read are cheaper by 1.5 where it is known.
    assert result.usage.cost_usd == pytest.approx(cost_usd)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (_reply(json.dumps(VALID), finish="truncated"), Reason.TRUNCATED),
        (_reply(json.dumps(VALID), finish="refused"), Reason.REFUSED),
        (_reply(""), Reason.EMPTY),
        (_reply("No."), Reason.NOT_JSON),
        (_reply(f"```json\n{json.dumps(VALID)}\n```"), Reason.NOT_JSON),
        (_reply(json.dumps(VALID | {"reasoning": "x" * 1_000_000})), Reason.NOT_JSON),
        (_reply(json.dumps(VALID | {"total": 3})), Reason.TOTAL_MISMATCH),
    ],
)
async def test_any_other_reply_is_invalid_with_its_reason(
    make_view: ViewFactory, reply: ChatReply, reason: Reason
) -> None:
    result = await LLMJudge(CONFIG, client=Answering(reply)).judge(make_view())
    assert (result.outcome, result.reason) == (Outcome.INVALID, reason)
    assert (result.attempts, result.usage) == (2, Usage(prompt_tokens=7))
    assert not result.reasoning
    keeping = CONFIG.model_copy(update={"keep_invalid": True})
    kept = LLMJudge(keeping, client=Answering(reply))
    assert kept.fingerprint == LLMJudge(CONFIG, client=Answering(reply)).fingerprint
    again = await kept.judge(make_view())
    assert (again.reasoning, again.reason) == (reply.text[:20_000], reason)


async def test_of_a_valid_reply_the_reasoning_stays_and_a_kept_one_can_be_written(
    make_view: ViewFactory,
) -> None:
    config = CONFIG.model_copy(update={"keep_invalid": True})
    valid = await LLMJudge(config, client=Answering(_reply(json.dumps(VALID)))).judge(
        make_view()
    )
    assert valid.reasoning == "ok"
    broken = await LLMJudge(config, client=Answering(_reply("No \ud800."))).judge(
        make_view()
    )
    assert broken.model_dump_json().encode()
    assert broken.reasoning == "No ?."


async def test_a_reply_that_begins_with_thoughts_says_what_the_server_needs(
    make_view: ViewFactory,
) -> None:
    reply = _reply(f"\n<think>Zyzzyva</think>{json.dumps(VALID)}")
    result = await LLMJudge(CONFIG, client=Answering(reply)).judge(make_view())
    assert result.reason is Reason.NOT_JSON
    assert result.detail == (
        "the reply begins with <think>; start the server with a reasoning parser "
        "(vLLM: --reasoning-parser)"
    )


async def test_a_call_without_an_answer_is_unavailable(make_view: ViewFactory) -> None:
    error = JudgeTransportError(Reason.CONNECTION, "no connection", attempts=5)
    for most, attempts in (
        (1, 5),
        (3, 15),
    ):  # a client of one's own is asked again as well
        config = CONFIG.model_copy(
            update={"max_transport_attempts": most, "backoff_s": 0.001}
        )
        client = Answering(error)
        result = await LLMJudge(config, client=client).judge(make_view())
        assert len(client.asked) == most
        assert (result.outcome, result.reason) == (
            Outcome.UNAVAILABLE,
            Reason.CONNECTION,
        )
        assert (result.attempts, result.detail) == (attempts, "no connection")


def _quoting(quote: str) -> ChatReply:
    evidence = {"names the loss": quote, "gives_limit": ""}
    return _reply(json.dumps(VALID | {"evidence": evidence}))


@pytest.mark.parametrize("layout", ["paper", "shared_prefix"])
async def test_evidence_is_asked_for_and_looked_up(
    make_view: ViewFactory, layout: str
) -> None:
    settings = {"model": "m", "prompt": layout, "evidence": "require"}
    client = Answering(_quoting("the Cross  Entropy"))
    judge = LLMJudge(JudgeConfig.model_validate(settings), client=client)
    result = await judge.judge(make_view())
    assert result.evidence["names the loss"].found_in == "response"
    (request,) = client.asked
    assert (
        '"evidence": {"names the loss": "<quote>", "gives_limit": "<quote>"}'
        in request.user
    )
    assert "copied word for word" in request.user
    assert request.reply is not None
    assert list(
        request.reply.model_json_schema()["$defs"]["Evidence"]["properties"]
    ) == [*VALID["scores"]]
    client.answer = _quoting("the squared error")
    invented = await judge.judge(make_view())
    assert (invented.outcome, invented.reason) == (
        Outcome.INVALID,
        Reason.EVIDENCE_NOT_FOUND,
    )


async def test_a_quote_from_what_was_cut_off_the_passage_is_not_found(
    make_view: ViewFactory,
) -> None:
    config = CONFIG.model_copy(update={"evidence": "report"})
    view = make_view(
        "Something else.", grounding=Grounding("The first words. The later words.")
    )
    for quote, place in (("The first words", "passage"), ("The later words", None)):
        result = await LLMJudge(config, client=Answering(_quoting(quote))).judge(view)
        assert result.outcome is Outcome.SCORED
        assert result.evidence["names the loss"].found_in == place
        assert result.passage_truncated


async def test_an_uncut_passage_is_not_marked(make_view: ViewFactory) -> None:
    judge = LLMJudge(
        JudgeConfig(model="m"), client=Answering(_reply(json.dumps(VALID)))
    )
    assert not (await judge.judge(make_view())).passage_truncated


async def test_one_event_is_logged_for_each_call_and_holds_no_text(
    make_view: ViewFactory,
) -> None:
    word = "Zyzzyva"
    reply = _reply(json.dumps(VALID | {"reasoning": word}))
    judge = LLMJudge(CONFIG, client=Answering(reply))
    view = make_view(word, question=word, grounding=Grounding(word * 9))
    with structlog.testing.capture_logs() as logs:
        await judge.judge(view)
    (event,) = logs
    assert event["event"] == "judge.call.finished"
    assert (event["outcome"], event["prompt_tokens"]) == ("scored", 7)
    assert event["passage_truncated"] is True
    assert word not in str(event)
    assert "cross entropy" not in str(event)


async def test_nothing_is_printed_for_a_call_until_an_application_configures_its_log(
    make_view: ViewFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    structlog.reset_defaults()
    client = Answering(_reply(json.dumps(VALID)))
    await LLMJudge(CONFIG, client=client).judge(make_view())
    assert capsys.readouterr() == ("", "")
