"""`granularity: criterion` over real HTTP, by both transports."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Outcome,
    Reason,
    Rubric,
    Task,
    Usage,
)
from rubric_judge import JudgeConfig, JudgePool, Ledger, LLMJudge
from rubric_judge.errors import EventLoopError
from rubric_judge.judges.llm.by_criterion import judge_by_criterion
from rubric_judge.quality.reliability import Rating, collect, measure
from rubric_judge.testing import FakeEndpoint, Fault
from rubric_judge.testing.calls import FakeCall

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("transport", ["direct", "litellm"])


def _judge(url: str, **options: object) -> LLMJudge:
    settings: dict[str, Any] = {
        "model": "openai/fake",
        "api_base": url,
        "transport": "direct",
        "granularity": "criterion",
        "backoff_s": 0.001,
        "max_transport_attempts": 2,
    }
    return LLMJudge(JudgeConfig.model_validate(settings | options))


async def _judged(
    endpoint: FakeEndpoint, view: JudgeView, **options: object
) -> JudgeResult:
    async with _judge(endpoint.url, **options) as judge:
        return await judge.judge(view)


def _asked(endpoint: FakeEndpoint) -> Counter[str]:
    return Counter(name for call in endpoint.calls for name in call.weights)


@both
async def test_each_criterion_is_a_call_and_the_result_is_what_they_come_to(
    make_view: ViewFactory, transport: str
) -> None:
    with FakeEndpoint(
        lambda call: 0.5 if "gives_limit" in call.weights else 0.75
    ) as endpoint:
        result = await _judged(endpoint, make_view(), transport=transport)
    assert result.scores == {"names the loss": 1.5, "gives_limit": 0.5}
    assert (result.total, result.max_total, result.attempts) == (2.0, 3.0, 2)
    assert _asked(endpoint) == {"names the loss": 1, "gives_limit": 1}
    assert result.reasoning.startswith("names the loss: ")
    sent = [
        sum(len(message["content"]) for message in call.messages)
        for call in endpoint.calls
    ]
    assert result.usage is not None
    assert result.usage.prompt_tokens == sum(characters // 4 for characters in sent)
    assert result.judge.endswith(" by criterion")


async def test_the_calls_of_a_judgement_differ_only_behind_what_they_share(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint() as endpoint:
        await _judged(endpoint, make_view())
    one, other = (call.messages[-1]["content"] for call in endpoint.calls)
    pairs = itertools.takewhile(
        lambda pair: pair[0] == pair[1], zip(one, other, strict=False)
    )
    shared = "".join(character for character, _ in pairs)
    assert (
        shared.rindex("RESPONSE:\n")
        > shared.rindex("QUESTION: ")
        > shared.rindex("PASSAGE:\n")
    )
    assert shared.endswith("CRITERIA (total weight ")
    assert "names the loss" not in shared
    assert endpoint.calls[0].messages[0] == endpoint.calls[1].messages[0]


async def test_a_criterion_without_weight_scores_0_without_a_call(
    make_view: ViewFactory,
) -> None:
    criteria = (Criterion(id="a", weight=0.0), Criterion(id="b", weight=2.0))
    with FakeEndpoint(1.0) as endpoint:
        result = await _judged(endpoint, make_view(rubric=Rubric(criteria=criteria)))
    assert list(result.scores.items()) == [("a", 0.0), ("b", 2.0)]
    assert _asked(endpoint) == {"b": 1}


@both
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.EXCESSIVE_SCORE, Reason.SCORE_OUT_OF_RANGE),
        (Fault.DUPLICATE_ID, Reason.DUPLICATE_CRITERION),
        (Fault.PROSE, Reason.NOT_JSON),
        (Fault.EXTRA_ID, Reason.UNKNOWN_CRITERION),
        (Fault.TRUNCATED, Reason.TRUNCATED),
    ],
)
async def test_one_invalid_answer_makes_the_judgement_invalid(
    make_view: ViewFactory, fault: Fault, reason: Reason, transport: str
) -> None:
    if (transport, fault) == ("litellm", Fault.DUPLICATE_ID):
        fault = Fault.MISSING_ID
        reason = Reason.MISSING_CRITERION
    with FakeEndpoint(faults=[None, fault]) as endpoint:
        result = await _judged(
            endpoint, make_view(), transport=transport, keep_invalid=True
        )
    assert (result.outcome, result.reason) == (Outcome.INVALID, reason)
    assert result.reasoning
    (failed,) = [name for call in endpoint.calls if call.fault for name in call.weights]
    assert result.detail.startswith(f"criterion {failed!r}: ")
    assert (result.attempts, len(endpoint.calls)) == (2, 2)
    assert result.usage is not None
    assert result.usage.completion_tokens > 0


@both
async def test_a_call_that_brings_no_answer_makes_it_unavailable_with_all_that_it_took(
    make_view: ViewFactory, transport: str
) -> None:
    faults = [None, Fault.SERVER_ERROR, Fault.RATE_LIMIT]
    with FakeEndpoint(faults=faults) as endpoint:
        result = await _judged(endpoint, make_view(), transport=transport)
        assert (result.outcome, result.reason) == (
            Outcome.UNAVAILABLE,
            Reason.RATE_LIMITED,
        )
        assert result.attempts == len(endpoint.calls) == 3
        assert result.usage is not None
        assert result.usage.prompt_tokens > 0
        again = await _judged(endpoint, make_view(), transport=transport)
    assert again.outcome is Outcome.SCORED


async def test_an_invalid_answer_counts_before_one_that_did_not_come(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(faults=[Fault.BAD_REQUEST, Fault.PROSE]) as endpoint:
        result = await _judged(endpoint, make_view())
    assert result.reason is Reason.NOT_JSON


async def test_retries_are_each_calls_own(make_view: ViewFactory) -> None:
    with FakeEndpoint(faults=[Fault.RATE_LIMIT, Fault.OVERLOADED]) as endpoint:
        result = await _judged(endpoint, make_view())
    assert (result.outcome, result.attempts) == (Outcome.SCORED, 4)
    assert _asked(endpoint) == {"names the loss": 2, "gives_limit": 2}


async def test_calls_run_at_once_and_within_the_judges_limit(
    make_view: ViewFactory,
) -> None:
    criteria = tuple(Criterion(id=f"c{m}", weight=1.0) for m in range(6))
    view = make_view(rubric=Rubric(criteria=criteria))
    with FakeEndpoint(latency=0.05) as endpoint:
        async with _judge(endpoint.url) as free:
            await free.judge(view)
        async with _judge(endpoint.url, limits={"max_in_flight": 2}) as bound:
            result = await bound.judge(view)
        peaks = [judge.limiter.statistics().peak_in_flight for judge in (free, bound)]
    assert peaks == [6, 2]
    assert result.latency_s is not None
    assert result.latency_s > 0.14  # three calls one after another


async def test_with_a_warm_call_the_first_goes_alone(make_view: ViewFactory) -> None:
    criteria = tuple(Criterion(id=f"c{m}", weight=1.0) for m in range(4))
    with FakeEndpoint(latency=0.05) as endpoint:
        await _judged(
            endpoint, make_view(rubric=Rubric(criteria=criteria)), warm_call=True
        )
    begun_s = [call.at_s for call in endpoint.calls]
    assert begun_s[1] - begun_s[0] > 0.04
    assert endpoint.calls[0].weights == {"c0": 1.0}


async def test_cancellation_reaches_every_call(make_view: ViewFactory) -> None:
    with FakeEndpoint(faults=[Fault.HANG, Fault.HANG]) as endpoint:
        async with _judge(endpoint.url) as judge:
            with anyio.move_on_after(0.3) as scope:
                await judge.judge(make_view())
            assert scope.cancelled_caught
            assert judge.limiter.statistics().in_flight == 0
            result = await judge.judge(make_view())
    assert len(endpoint.calls) == 4
    assert result.outcome is Outcome.SCORED


@pytest.mark.parametrize(
    "error", [EventLoopError("two"), KeyboardInterrupt(), RuntimeError("x")]
)
async def test_what_a_call_raises_is_raised_as_it_is_and_ends_the_others(
    make_view: ViewFactory, error: BaseException
) -> None:
    ended: list[str] = []

    async def ask(view: JudgeView) -> JudgeResult:
        if view.rubric.ids == ("gives_limit",):
            raise error
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(view.rubric.ids[0])
        raise AssertionError

    with pytest.raises(type(error)) as caught:
        await judge_by_criterion(ask, make_view(), warm=False)
    assert caught.value is error
    assert ended == ["names the loss"]


async def test_a_call_that_cancels_itself_costs_its_own_judgement(
    make_view: ViewFactory,
) -> None:
    class Cancelling:
        name = "cancelling"

        async def judge(self, view: JudgeView) -> JudgeResult:
            async def ask(_: JudgeView) -> JudgeResult:
                raise anyio.get_cancelled_exc_class()

            return await judge_by_criterion(ask, view, warm=False)

    (result,) = await JudgePool(Cancelling()).judge_all([make_view()])
    assert result.reason is Reason.CANCELLED


@pytest.mark.parametrize("prompt", ["paper", "shared_prefix"])
def test_the_fingerprint_tells_it_from_one_call_for_all(prompt: str) -> None:
    both = [
        _judge("http://127.0.0.1:1", granularity=granularity, prompt=prompt).fingerprint
        for granularity in ("rubric", "criterion")
    ]
    assert len(set(both)) == 2


async def test_quotes_of_all_calls_are_kept_and_one_that_is_not_found_counts(
    make_view: ViewFactory,
) -> None:
    def answer(quote: str) -> Callable[[FakeCall], str]:
        def award(call: FakeCall) -> str:
            ((name, weight),) = call.weights.items()
            said = quote if name == "gives_limit" else "minimises the cross entropy"
            return (
                f'{{"reasoning": "r", "evidence": {{"{name}": "{said}"}}, '
                f'"scores": {{"{name}": 1}}, "total": 1, "max_total": {weight}}}'
            )

        return award

    with FakeEndpoint(answer("It minimises the cross")) as endpoint:
        found = await _judged(endpoint, make_view(), evidence="require")
    assert list(found.evidence) == ["names the loss", "gives_limit"]
    assert {one.found_in for one in found.evidence.values()} == {"response"}
    with FakeEndpoint(answer("It says nothing of this kind")) as endpoint:
        missing = await _judged(endpoint, make_view(), evidence="require")
    assert missing.reason is Reason.EVIDENCE_NOT_FOUND


async def test_the_ledger_keeps_the_judgement_and_the_pool_adds_up(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    with FakeEndpoint(0.5) as endpoint, Ledger(tmp_path / "judged.db") as ledger:
        async with _judge(endpoint.url) as judge:
            pool = JudgePool(judge, ledger=ledger)
            first = await pool.judge_all([make_view("a"), make_view("b")])
            again = await pool.judge_all([make_view("b"), make_view("a")])
        statistics = pool.statistics()
    assert (len(endpoint.calls), statistics.attempts, statistics.from_ledger) == (
        4,
        4,
        2,
    )
    assert again == first[::-1]
    spent = [result.usage for result in first if result.usage]
    assert statistics.usage == spent[0].plus(spent[1])
    assert isinstance(statistics.usage, Usage)


async def _inflation(granularity: Literal["rubric", "criterion"]) -> float:
    """Judge 24 responses six times by an endpoint whose error is one and the same in a call."""
    criteria = tuple(Criterion(id=f"c{m}", weight=1.0) for m in range(4))
    grounding, rubric = Grounding("A passage."), Rubric(criteria=criteria)
    tasks = {
        task.task_id: task
        for task in (
            Task(question=f"Question {p}?", grounding=grounding, rubric=rubric)
            for p in range(8)
        )
    }
    lines = [
        (n, task.judge_view(f"Text {n}."))
        for n, task in enumerate([*tasks.values()] * 3)
    ]

    def award(call: FakeCall) -> float:
        return 0.5 + random.Random(call.number).uniform(-0.4, 0.4)

    ratings: list[Rating] = []
    with FakeEndpoint(award) as endpoint:
        async with _judge(endpoint.url, granularity=granularity) as judge:
            pool = JudgePool(judge)
            for _ in range(6):
                results = await pool.judge_all([view for _, view in lines])
                ratings += [
                    Rating("judge", view.task_id, n, result)
                    for (n, view), result in zip(lines, results, strict=True)
                ]
    report = measure(collect(ratings, tasks), resamples=2)
    found = report.judges[0].inflation.value
    assert found is not None
    return found


async def test_errors_shared_within_a_call_are_one_error_by_rubric_and_four_by_criterion() -> (
    None
):
    assert await _inflation("rubric") == pytest.approx(4.0, rel=1e-6)
    assert await _inflation("criterion") == pytest.approx(1.0, abs=0.4)
