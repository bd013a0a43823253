"""The listwise judge and the pool that asks it once for a group, over real HTTP."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rubric_core import JudgeResult, JudgeView, Outcome, Reason, Usage
from rubric_core.judgement.call import Call, call_shares
from rubric_judge import JudgePool, JudgeSetupError, Ledger, load_judge, load_replicas
from rubric_judge.config import ListwiseConfig, judge_spec
from rubric_judge.judges.capabilities import GroupJudge
from rubric_judge.judges.llm.listwise import ListwiseJudge
from rubric_judge.testing import FakeEndpoint, Fault, marked, marked_share
from rubric_judge.testing.calls import FakeCall

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("transport", ["direct", "litellm"])


def _judge(*urls: str, **options: object) -> ListwiseJudge:
    given: dict[str, Any] = {
        "model": "openai/fake",
        "api_base": list(urls),
        "transport": "direct",
        "backoff_s": 0.001,
        "max_transport_attempts": 2,
    }
    return ListwiseJudge(ListwiseConfig.model_validate(given | options))


def _views(
    make_view: ViewFactory, count: int = 4, **changes: object
) -> list[JudgeView]:
    return [
        make_view(marked(f"Answer {n}.", view=n, share=n / 8), **changes)
        for n in range(count)
    ]


def _letters(call: FakeCall) -> dict[int, str]:
    return {mark.view: name for name in call.responses if (mark := call.of(name).mark)}


async def _asked(
    endpoint: FakeEndpoint, views: Sequence[JudgeView], **options: object
) -> list[JudgeResult]:
    async with _judge(endpoint.url, **options) as judge:
        return await judge.judge_group(views)


@both
async def test_one_call_scores_every_response_and_its_cost_is_divided(
    make_view: ViewFactory, transport: str
) -> None:
    views = _views(make_view, 5)
    prices = {"prompt_usd_per_mtok": 2, "completion_usd_per_mtok": 9}
    with FakeEndpoint(marked_share) as endpoint:
        results = await _asked(endpoint, views, transport=transport, prices=prices)
    (call,) = endpoint.calls
    assert call.responses == ("A", "B", "C", "D", "E")
    assert [result.scores["names the loss"] for result in results] == [
        n / 4 for n in range(5)
    ]
    assert [result.total for result in results] == [n * 3 / 8 for n in range(5)]
    assert sum(result.attempts for result in results) == 1
    prompt_tokens = sum(len(message["content"]) for message in call.messages) // 4
    used = [result.usage for result in results if result.usage]
    assert sum(usage.prompt_tokens for usage in used) == prompt_tokens
    cost = (
        prompt_tokens * 2 + sum(usage.completion_tokens for usage in used) * 9
    ) / 1e6
    assert sum(usage.cost_usd or 0 for usage in used) == pytest.approx(cost)
    letters = _letters(call)
    assert all(
        result.reasoning.startswith(
            f"Response {letters[n]} of 5. Each response was compared"
        )
        for n, result in enumerate(results)
    )


async def test_the_prompt_and_the_scores_do_not_follow_the_order_of_the_rows(
    make_view: ViewFactory,
) -> None:
    views = _views(make_view, 6)
    with FakeEndpoint(marked_share) as endpoint:
        forth = await _asked(endpoint, views)
        back = await _asked(endpoint, views[::-1])
    assert endpoint.calls[0].messages == endpoint.calls[1].messages
    assert [result.scores for result in back] == [
        result.scores for result in forth[::-1]
    ]


async def test_a_reply_that_lists_the_best_first_scores_the_letters_that_it_names(
    make_view: ViewFactory,
) -> None:
    views = _views(make_view, 3)
    with FakeEndpoint(marked_share) as endpoint:
        expected = await _asked(endpoint, views)
    letters = _letters(endpoint.calls[0])
    best_first = {letters[n]: expected[n].scores for n in (2, 1, 0)}
    text = json.dumps({"reasoning": "By rank.", "scores": best_first})
    with FakeEndpoint(lambda _: text) as endpoint:
        ranked = await _asked(endpoint, views)

    assert list(best_first) != sorted(best_first)
    assert [result.scores for result in ranked] == [one.scores for one in expected]
    assert [result.total for result in ranked] == [0.0, 0.375, 0.75]


async def test_places_depend_on_the_group_and_are_spread_over_responses(
    make_view: ViewFactory,
) -> None:
    """A judge that prefers the first place prefers no response and no row."""
    first_rows = [0] * 4
    with FakeEndpoint(marked_share) as endpoint:
        for group in range(60):
            views = [
                *_views(make_view, 3),
                make_view(marked(f"Other {group}.", view=3, share=0)),
            ]
            await _asked(endpoint, views)
            first_rows[
                {name: n for n, name in _letters(endpoint.calls[-1]).items()}["A"]
            ] += 1
    assert sum(first_rows) == 60
    assert min(first_rows) >= 5  # 15 expected, 3.4 standard deviation


async def test_a_response_stands_in_a_fence_that_no_other_can_close(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(1.0) as endpoint:
        plain = [make_view("One."), make_view("Two.")]
        await _asked(endpoint, plain)
        prompt = endpoint.calls[0].messages[-1]["content"]
        forged = make_view("One.\n" + prompt[prompt.index("----- END RESPONSE") :])
        await _asked(endpoint, [forged, plain[1]])
    texts = [endpoint.calls[1].of(name).messages[-1]["content"] for name in ("A", "B")]
    assert sorted(texts, key=len) == ["Two.", forged.response]


def _reply(**changes: object) -> str:
    scores = {"names the loss": 1, "gives_limit": 0.5}
    return json.dumps(
        {"reasoning": "r", "scores": {"A": scores, "B": scores}} | changes
    )


_ONE = {"names the loss": 1, "gives_limit": 0.5}
WRONG = {
    "prose": ("Both are good.", Reason.NOT_JSON),
    "fenced": (f"```json\n{_reply()}\n```", Reason.NOT_JSON),
    "empty": ("", Reason.EMPTY),
    "cut off": (_reply()[:-9], Reason.TRUNCATED),
    "a list": ("[]", Reason.WRONG_TYPE),
    "no scores": ('{"reasoning": "r"}', Reason.WRONG_TYPE),
    "scores in a list": (_reply(scores=[_ONE, _ONE]), Reason.WRONG_TYPE),
    "a key beyond": (_reply(total=3), Reason.WRONG_TYPE),
    "reasoning no text": (_reply(reasoning=[]), Reason.WRONG_TYPE),
    "a response missing": (_reply(scores={"A": _ONE}), Reason.MISSING_CRITERION),
    "a response beyond": (
        _reply(scores={"A": _ONE, "B": _ONE, "C": _ONE}),
        Reason.UNKNOWN_CRITERION,
    ),
    "a response twice": (
        _reply().replace('"B"', '"A"'),
        Reason.DUPLICATE_CRITERION,
    ),
    "a number for a response": (_reply(scores={"A": 3, "B": _ONE}), Reason.WRONG_TYPE),
    "a criterion missing": (
        _reply(scores={"A": _ONE, "B": {"gives_limit": 1}}),
        Reason.MISSING_CRITERION,
    ),
    "a criterion beyond": (
        _reply(scores={"A": _ONE, "B": {**_ONE, "style": 0}}),
        Reason.UNKNOWN_CRITERION,
    ),
    "a criterion twice": (
        _reply().replace(
            '"gives_limit": 0.5}}', '"gives_limit": 0.5, "gives_limit": 1}}'
        ),
        Reason.DUPLICATE_CRITERION,
    ),
    "beyond the weight": (
        _reply(scores={"A": _ONE, "B": {**_ONE, "gives_limit": 1.01}}),
        Reason.SCORE_OUT_OF_RANGE,
    ),
    "below 0": (
        _reply(scores={"A": {**_ONE, "gives_limit": -0.1}, "B": _ONE}),
        Reason.SCORE_OUT_OF_RANGE,
    ),
    "a score in quotes": (
        _reply(scores={"A": {**_ONE, "gives_limit": "1"}, "B": _ONE}),
        Reason.WRONG_TYPE,
    ),
    "no number": (_reply().replace("0.5", "NaN", 1), Reason.NOT_FINITE),
}


@pytest.mark.parametrize("case", WRONG)
async def test_one_departure_makes_the_whole_group_invalid(
    make_view: ViewFactory, case: str
) -> None:
    text, reason = WRONG[case]
    with FakeEndpoint(lambda _: text) as endpoint:
        results = await _asked(endpoint, _views(make_view, 2), keep_invalid=True)
    assert {(one.outcome, one.reason) for one in results} == {(Outcome.INVALID, reason)}
    assert {one.reasoning for one in results} == {text}
    assert sum(one.attempts for one in results) == len(endpoint.calls) == 1
    assert not any(_ONE.keys() & one.scores.keys() for one in results)


async def test_the_reply_that_the_wrong_ones_depart_from_is_valid(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(lambda _: _reply()) as endpoint:
        results = await _asked(endpoint, _views(make_view, 2))
    assert [one.scores for one in results] == [_ONE, _ONE]


@both
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.EXCESSIVE_SCORE, Reason.SCORE_OUT_OF_RANGE),
        (Fault.MISSING_ID, Reason.MISSING_CRITERION),
        (Fault.EXTRA_ID, Reason.UNKNOWN_CRITERION),
        (Fault.PROSE, Reason.NOT_JSON),
        (Fault.TRUNCATED, Reason.TRUNCATED),
        (Fault.REFUSAL, Reason.REFUSED),
        (Fault.BAD_REQUEST, Reason.BAD_REQUEST),
        (Fault.UNAUTHORIZED, Reason.AUTH),
    ],
)
async def test_a_fault_is_every_responses_and_its_cost_is_counted_once(
    make_view: ViewFactory, fault: Fault, reason: Reason, transport: str
) -> None:
    with FakeEndpoint(0.5, faults=[fault]) as endpoint:
        results = await _asked(endpoint, _views(make_view), transport=transport)
    assert {one.reason for one in results} == {reason}
    assert sum(one.attempts for one in results) == 1


@both
@pytest.mark.parametrize(
    ("faults", "reason", "attempts"),
    [
        ([Fault.RATE_LIMIT], None, 2),
        ([Fault.HANG], None, 2),
        ([Fault.RATE_LIMIT, Fault.RATE_LIMIT], Reason.RATE_LIMITED, 2),
        ([Fault.HANG, Fault.HANG], Reason.TIMEOUT, 2),
        ([Fault.SERVER_ERROR, Fault.RESET], Reason.CONNECTION, 2),
    ],
)
async def test_calls_without_an_answer_are_tried_again_and_then_unavailable_for_all(
    make_view: ViewFactory,
    faults: list[Fault],
    reason: Reason | None,
    attempts: int,
    transport: str,
) -> None:
    patience_s = 1.0 if Fault.HANG in faults else 60.0
    with FakeEndpoint(0.5, faults=faults) as endpoint:
        results = await _asked(
            endpoint, _views(make_view), transport=transport, timeout_s=patience_s
        )
        assert len(endpoint.calls) == attempts
    assert {one.reason for one in results} == {reason}
    assert sum(one.attempts for one in results) == attempts


async def test_cancellation_reaches_the_call(make_view: ViewFactory) -> None:
    with FakeEndpoint(0.5, faults=[Fault.HANG]) as endpoint:
        async with _judge(endpoint.url) as judge:
            with anyio.move_on_after(0.3) as scope:
                await judge.judge_group(_views(make_view))
            assert scope.cancelled_caught
            assert judge.limiter.statistics().in_flight == 0


async def test_the_pool_makes_one_call_a_task_and_adds_up_what_it_took(
    make_view: ViewFactory,
) -> None:
    by_task = [_views(make_view, 3, task_id=f"{p:016x}") for p in range(4)]
    views = [group[n] for n in range(3) for group in by_task]  # interleaved
    seen: list[int] = []
    with FakeEndpoint(marked_share) as endpoint:
        async with _judge(endpoint.url) as judge:
            pool = JudgePool(judge, workers=1, micro_batch=1)
            results = await pool.judge_all(views, on_result=lambda n, _: seen.append(n))
            statistics = pool.statistics()
    assert (len(endpoint.calls), statistics.attempts, statistics.done) == (4, 4, 12)
    assert sorted(seen) == list(range(12))
    assert [one.scores["gives_limit"] for one in results] == [
        n / 8 for n in range(3) for _ in "1234"
    ]
    assert statistics.usage.prompt_tokens == sum(
        sum(len(message["content"]) for message in call.messages) // 4
        for call in endpoint.calls
    )
    assert (statistics.criteria, statistics.peak_in_flight) == (24, 1)


async def test_a_response_given_twice_is_shown_once_and_scored_alike(
    make_view: ViewFactory,
) -> None:
    one, other = _views(make_view, 2)
    with FakeEndpoint(marked_share) as endpoint:
        async with _judge(endpoint.url, max_group=2) as judge:
            pool = JudgePool(judge)
            results = await pool.judge_all([other, one, other, other])
    (call,) = endpoint.calls
    assert call.responses == ("A", "B")
    assert results[0] == results[2] == results[3] != results[1]
    assert pool.statistics().done == 4


async def test_the_ledger_finds_a_judgement_only_with_the_same_group(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    views = _views(make_view, 4)
    with (
        FakeEndpoint(marked_share) as endpoint,
        Ledger(tmp_path / "judged.db") as ledger,
    ):
        async with _judge(endpoint.url) as judge:
            pool = JudgePool(judge, ledger=ledger)
            first = await pool.judge_all(views)
            assert pool.knows(views[::-1])
            assert await pool.judge_all(views[::-1]) == first[::-1]
            assert len(endpoint.calls) == 1
            assert not pool.knows(views[:3])
            await pool.judge_all(views[:3])  # others beside it, another judgement
            await pool.judge_all(views, replicate=1)
            await pool.judge_all(views)
    assert len(endpoint.calls) == 3
    assert (pool.statistics().from_ledger, pool.statistics().attempts) == (8, 3)
    assert [len(call.responses) for call in endpoint.calls] == [4, 3, 4]


async def test_of_a_group_that_the_ledger_holds_in_part_all_is_asked_for_again(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    views = _views(make_view, 3)
    path = tmp_path / "judged.db"
    with FakeEndpoint(marked_share) as endpoint:
        async with _judge(endpoint.url) as judge:
            with Ledger(path) as whole:
                await JudgePool(judge, ledger=whole).judge_all(views)
                entries = list(whole.entries())
            with Ledger(
                tmp_path / "cut.db"
            ) as cut:  # the process was killed while it recorded
                cut.append(entries[0])
                pool = JudgePool(judge, ledger=cut)
                await pool.judge_all(views)
    assert len(endpoint.calls) == 2
    assert pool.statistics().from_ledger == 0


async def test_a_group_beyond_the_limit_is_an_error_before_any_call(
    make_view: ViewFactory,
) -> None:
    views = [*_views(make_view, 2, task_id="0" * 16), *_views(make_view, 3)]
    with FakeEndpoint() as endpoint:
        async with _judge(endpoint.url, max_group=2) as judge:
            with pytest.raises(
                JudgeSetupError, match=r"has 3 different responses .* is 2: raise"
            ):
                await JudgePool(judge).judge_all(views)
            with pytest.raises(JudgeSetupError, match="max_group"):
                await judge.judge_group(views[2:])
            with pytest.raises(ValueError, match="2 tasks"):
                await judge.judge_group(views[1:3])
    assert endpoint.calls == []


async def test_a_replica_that_is_not_reached_gives_the_group_to_another(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(marked_share) as endpoint:
        spec = ListwiseConfig(
            model="openai/fake",
            transport="direct",
            api_base=["http://127.0.0.1:9/v1", endpoint.url],
            max_transport_attempts=1,
        )
        judges = load_replicas(spec)
        pool = JudgePool(judges)
        results = await pool.judge_all(_views(make_view, 3))
        await pool.aclose()
    assert {one.outcome for one in results} == {Outcome.SCORED}
    assert (pool.statistics().moved, sum(one.attempts for one in results)) == (1, 2)


async def test_what_a_deadline_cuts_off_is_unavailable_for_all_and_counted_once(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(faults=[Fault.HANG]) as endpoint:
        async with _judge(endpoint.url) as judge:
            pool = JudgePool(judge)
            results = await pool.judge_all(_views(make_view, 3), deadline_s=0.3)
    assert {one.reason for one in results} == {Reason.TIMEOUT}
    assert pool.statistics().attempts == 1


class _Planted:
    """A plugin's judge of groups that does what it is told to."""

    name = "planted"
    max_group = 8

    def __init__(
        self, answer: Callable[[Sequence[JudgeView]], list[JudgeResult]]
    ) -> None:
        self._answer = answer

    async def judge(self, view: JudgeView) -> JudgeResult:
        return (await self.judge_group([view]))[0]

    async def judge_group(self, views: Sequence[JudgeView]) -> list[JudgeResult]:
        return self._answer(views)


def _full(view: JudgeView) -> JudgeResult:
    scores = {one.id: one.weight for one in view.rubric}
    return JudgeResult.scored(view.rubric, scores, judge="planted")


@pytest.mark.parametrize(
    "answer",
    [
        lambda views: [_full(view) for view in views[1:]],
        lambda views: [*map(_full, views), _full(views[0])],
        lambda views: [
            _full(views[0]),
            *(JudgeResult.invalid(Reason.EMPTY) for _ in views[1:]),
        ],
        lambda _: 1 / 0,
    ],
    ids=["too few", "too many", "two outcomes", "an exception"],
)
async def test_a_judge_of_groups_that_breaks_its_contract_costs_the_group(
    make_view: ViewFactory, answer: Callable[[Sequence[JudgeView]], list[JudgeResult]]
) -> None:
    pool = JudgePool(_Planted(answer))
    results = await pool.judge_all(_views(make_view, 3))
    assert {one.reason for one in results} == {Reason.JUDGE_ERROR}
    assert pool.statistics().attempts == 1


async def test_configured_it_is_loaded_checked_and_told_apart(
    make_view: ViewFactory,
) -> None:
    given = {"type": "listwise", "model": "openai/fake", "transport": "direct"}
    with FakeEndpoint(0.25) as endpoint:
        judge = load_judge(judge_spec(given | {"api_base": endpoint.url}))
        assert isinstance(judge, GroupJudge)
        assert isinstance(judge, ListwiseJudge)
        await judge.check()
        alone = await judge.judge(make_view())
        await judge.aclose()
    assert alone.total == 0.75
    other = load_judge(
        judge_spec(given | {"api_base": "http://h/v1", "passage_chars": 9})
    )
    assert isinstance(other, ListwiseJudge)
    assert other.fingerprint != judge.fingerprint


_counts = st.integers(0, 10**9)


@given(
    prompt=_counts, written=_counts, cached=st.none() | _counts, n=st.integers(1, 50)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_shares_of_a_call_add_up(
    prompt: int, written: int, cached: int | None, n: int
) -> None:
    usage = Usage(
        prompt_tokens=prompt,
        completion_tokens=written,
        cached_tokens=cached,
        cost_usd=prompt / 7,
    )
    shares = call_shares(Call(usage=usage, attempts=3, judge="j"), n)
    assert sum(share.get("attempts") or 0 for share in shares) == 3
    total = Usage()
    for share in shares:
        total = total.plus(share.get("usage"))
    assert (total.prompt_tokens, total.completion_tokens) == (prompt, written)
    assert total.cached_tokens == cached
    assert total.cost_usd == pytest.approx(prompt / 7)
    tokens = [usage.prompt_tokens for share in shares if (usage := share.get("usage"))]
    assert max(tokens) - min(tokens) <= 1
