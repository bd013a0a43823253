"""Who answers for a group of deployments: the real Router, over HTTP, with servers that fail."""

from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest

from rubric_core import Answerer, ConfigError, JudgeResult, JudgeView, Outcome, Reason
from rubric_judge import JudgeConfig, JudgePool, Ledger, LLMJudge
from rubric_judge.testing import FakeEndpoint, Fault, HostileText

ViewFactory = Callable[..., JudgeView]

ALWAYS = "disable_cooldowns: true"
"""No deployment rests, so that the number of attempts is always the same."""
TOLD = ("callbacks", "success_callback", "failure_callback", "_async_failure_callback")
"""litellm's lists of whom it tells of every call."""
DEAD = "http://127.0.0.1:1/v1"
FILE = """
model_list:
  - model_name: judge
    litellm_params: {{model: openai/small, api_base: "{first}", api_key: k}}
  - model_name: judge
    litellm_params: {{model: hosted_vllm/small, api_base: "{second}", api_key: k}}
  - model_name: spare
    model_info: {{id: hosted}}
    litellm_params: {{model: openai/large, api_base: "{spare}", api_key: k}}
router_settings: {{fallbacks: [{{judge: [spare]}}], {settings}}}
"""


def config(
    path: Path, *, text: str = FILE, settings: str = "", **changes: object
) -> JudgeConfig:
    """Write the file and return a judge's configuration that names it."""
    servers = {
        name: str(changes.pop(name, DEAD)) for name in ("first", "second", "spare")
    }
    (path / "litellm.yaml").write_text(
        text.format(settings=settings, **servers), "utf-8"
    )
    fields: dict[str, object] = {
        "backoff_s": 0.01,
        "max_transport_attempts": 2,
        **changes,
    }
    return JudgeConfig.model_validate(
        {"model": "judge", "litellm_config": path / "litellm.yaml", **fields}
    )


def results(config: JudgeConfig, views: list[JudgeView]) -> list[JudgeResult]:
    async def run() -> list[JudgeResult]:
        pool = JudgePool(LLMJudge(config), workers=4)
        try:
            return await pool.judge_all(views)
        finally:
            await pool.aclose()

    return anyio.run(run)


def host(endpoint: FakeEndpoint) -> str:
    return endpoint.url.removeprefix("http://").removesuffix("/v1")


@pytest.fixture
def views(make_view: ViewFactory) -> list[JudgeView]:
    return [make_view(f"Answer {number}") for number in range(24)]


@pytest.mark.parametrize(
    "settings",
    [
        "routing_strategy: simple-shuffle",
        "routing_strategy: least-busy",
        "routing_strategy: latency-based-routing",
        "routing_strategy: usage-based-routing-v2",
        ALWAYS,
    ],
)
def test_where_one_of_two_is_dead_the_other_answers_and_no_fallback_is_asked(
    tmp_path: Path, views: list[JudgeView], settings: str
) -> None:
    with FakeEndpoint() as alive, FakeEndpoint() as spare:
        judge = config(
            tmp_path,
            settings=settings,
            second=alive.url,
            spare=spare.url,
            allow_fallback_models=True,
            max_transport_attempts=1,
        )
        found = results(judge, views)
    assert spare.calls == []
    assert {result.outcome for result in found} == {Outcome.SCORED}
    assert {result.answered_by for result in found} == {
        Answerer(model="small", deployment=host(alive))
    }
    assert {result.attempts for result in found} <= {1, 2}


def test_where_both_are_dead_another_model_is_not_asked_for_a_score(
    tmp_path: Path, views: list[JudgeView]
) -> None:
    with FakeEndpoint() as spare:
        found = results(config(tmp_path, settings=ALWAYS, spare=spare.url), views[:3])
    assert spare.calls == []
    for result in found:
        assert (result.outcome, result.reason) == (
            Outcome.UNAVAILABLE,
            Reason.CONNECTION,
        )
        assert "not asked, for it is another model: 'spare' (allow_fa" in result.detail
        assert result.attempts == 4  # both, twice


def test_a_fallback_that_is_allowed_answers_and_every_result_says_so(
    tmp_path: Path, views: list[JudgeView]
) -> None:
    prices = {"prompt_usd_per_mtok": 1.0, "completion_usd_per_mtok": 1.0}
    text = FILE.replace("openai/large,", "openai/large, input_cost_per_token: 0.5,")
    text = text.replace("input_cost", "output_cost_per_token: 0.0, input_cost")
    with FakeEndpoint() as spare:
        judge = config(
            tmp_path,
            text=text,
            settings=ALWAYS,
            spare=spare.url,
            allow_fallback_models=True,
            prices=prices,
        )
        found = results(judge, views[:3])
    for result in found:
        assert result.outcome is Outcome.SCORED
        by = Answerer(model="large", deployment="hosted", fallback="spare")
        assert (result.answered_by, result.attempts) == (by, 3)
        assert result.usage is not None  # at the fallback's price, not at the judge's
        assert result.usage.cost_usd == pytest.approx(0.5 * result.usage.prompt_tokens)


def test_a_fallback_of_the_same_model_answers_without_being_allowed(
    tmp_path: Path, views: list[JudgeView]
) -> None:
    with FakeEndpoint() as spare:
        text = FILE.replace("openai/large", "openai/small")
        (result,) = results(config(tmp_path, text=text, spare=spare.url), views[:1])
    assert result.answered_by == Answerer(
        model="small", deployment="hosted", fallback="spare"
    )


def test_all_dead_is_unavailable(tmp_path: Path, views: list[JudgeView]) -> None:
    judge = config(tmp_path, settings=ALWAYS, allow_fallback_models=True)
    (result,) = results(judge, views[:1])
    assert (result.reason, result.attempts) == (Reason.CONNECTION, 6)
    assert result.answered_by is None


def test_litellm_tells_the_router_of_a_judge_that_is_closed_of_no_further_call(
    tmp_path: Path, views: list[JudgeView]
) -> None:
    litellm: Any = import_module("litellm")
    # Of its router's parts, one that learns from every call: no version tells the others of all.
    judge = LLMJudge(
        config(tmp_path, settings="routing_strategy: latency-based-routing")
    )

    def told() -> dict[str, list[object]]:
        return {name: list(getattr(litellm, name)) for name in TOLD}

    async def run() -> dict[str, list[object]]:
        async with judge:
            await judge.judge(views[0])
            return told()

    before = told()
    for _ in range(2):  # closed, it can be used again
        open_ = anyio.run(run)
        # The oldest litellm that we take leaves it out of one of the lists.
        assert {len(open_[name]) - len(before[name]) for name in TOLD} in ({1}, {0, 1})
        assert told() == before


def test_a_server_that_dies_in_the_middle_costs_no_judgement(
    tmp_path: Path, views: list[JudgeView]
) -> None:
    async def run() -> list[JudgeResult]:
        pool = JudgePool(LLMJudge(judge), workers=2, micro_batch=1)

        def after(position: int, _: JudgeResult) -> None:
            if position == 7:
                mortal.close()

        try:
            return await pool.judge_all(views, on_result=after)
        finally:
            await pool.aclose()

    with ExitStack() as mortal, FakeEndpoint() as alive, FakeEndpoint() as spare:
        first = mortal.enter_context(FakeEndpoint())
        judge = config(tmp_path, first=first.url, second=alive.url, spare=spare.url)
        found = anyio.run(run)
    assert spare.calls == []
    assert {result.outcome for result in found} == {Outcome.SCORED}
    assert {result.answered_by for result in found[-8:]} == {
        Answerer(model="small", deployment=host(alive))
    }


def test_a_server_that_hangs_leaves_time_for_the_others(
    tmp_path: Path, views: list[JudgeView]
) -> None:
    with (
        FakeEndpoint(faults=[Fault.HANG] * 99) as hanging,
        FakeEndpoint(faults=[Fault.SERVER_ERROR] * 99) as failing,
        FakeEndpoint() as spare,
    ):
        judge = config(
            tmp_path,
            first=hanging.url,
            second=failing.url,
            spare=spare.url,
            timeout_s=5.0,
            max_transport_attempts=1,
            allow_fallback_models=True,
        )
        (result,) = results(judge, views[:1])
    assert result.answered_by == Answerer(
        model="large", deployment="hosted", fallback="spare"
    )
    assert result.attempts == 3


def test_deployments_are_asked_in_their_order(
    tmp_path: Path, views: list[JudgeView]
) -> None:
    text = FILE.replace("openai/small,", "openai/small, order: 1,")
    text = text.replace("hosted_vllm/small,", "hosted_vllm/small, order: 2,")
    with FakeEndpoint(faults=[Fault.SERVER_ERROR]) as first, FakeEndpoint() as second:
        judge = config(tmp_path, text=text, first=first.url, second=second.url)
        found = [results(judge, [view])[0] for view in views[:3]]
    servers = [result.answered_by.deployment for result in found if result.answered_by]
    assert servers == [host(second), host(first), host(first)]


def test_a_refused_request_and_a_refusal_are_not_asked_of_others(
    tmp_path: Path, views: list[JudgeView]
) -> None:
    faults = [Fault.BAD_REQUEST, Fault.CONTENT_POLICY]
    text = FILE.replace("openai/large", "openai/small")
    with FakeEndpoint(faults=faults) as one, FakeEndpoint(0.5) as spare:
        judge = config(
            tmp_path, text=text, first=one.url, second=one.url, spare=spare.url
        )
        first, second = (results(judge, [view])[0] for view in views[:2])
    assert len(one.calls) == 2
    assert first.answered_by == Answerer(
        model="small", deployment="hosted", fallback="spare"
    )
    assert (second.outcome, second.reason) == (Outcome.INVALID, Reason.REFUSED)
    assert len(spare.calls) == 1


def test_a_group_that_mixes_models_is_refused_unless_that_is_allowed(
    tmp_path: Path,
) -> None:
    text = FILE.replace("hosted_vllm/small", "hosted_vllm/other")
    with pytest.raises(
        ConfigError, match="the group 'judge' mixes the models other, small, whose"
    ):
        LLMJudge(config(tmp_path, text=text))
    LLMJudge(config(tmp_path, text=text, allow_fallback_models=True))
    other = "    litellm_params: {{model: hosted_vllm/other"
    same = text.replace(other, "    model_info: {{base_model: small}}\n" + other)
    LLMJudge(config(tmp_path, text=same))


BODY = (
    '{"id": "1", "object": "chat.completion", "created": 1, "model": "MODEL", "choices": [{"index":'
    ' 0, "finish_reason": "stop", "message": {"role": "assistant", "content": @quoted@}}]}'
)


def _from(model: str) -> HostileText:
    return HostileText("", BODY.replace('"MODEL"', model), place="body")


@pytest.mark.parametrize("transport", ["direct", "litellm"])
def test_a_model_that_changes_in_mid_run_is_no_score_unless_allowed(
    views: list[JudgeView], transport: str
) -> None:
    names = ['"old"', '"new"', "7", f'"{"x" * 9999}"', '"old"']
    for allowed in (False, True):
        with FakeEndpoint(faults=[_from(name) for name in names]) as endpoint:
            judge = LLMJudge(
                JudgeConfig.model_validate(
                    {
                        "model": "openai/m",
                        "api_base": endpoint.url,
                        "transport": transport,
                        "allow_fallback_models": allowed,
                    }
                )
            )

            async def run(judge: LLMJudge = judge) -> list[JudgeResult]:
                async with judge:
                    return [await judge.judge(view) for view in views[: len(names)]]

            found = anyio.run(run)
        scored = [result.outcome is Outcome.SCORED for result in found]
        assert scored == [True, allowed, True, True, True]
        if not allowed:
            assert found[1].reason is Reason.OTHER_MODEL
            assert (
                f"'new' answered at {host(endpoint)} where 'old' did before"
                in found[1].detail
            )
        models = [result.answered_by.model for result in found if result.answered_by]
        assert [name for name in models if name != "new"] == [
            "old",
            "openai/m",
            "openai/m",
            "old",
        ]


def test_a_ledger_keeps_who_answered_and_a_judge_that_allows_others_has_its_own_entries(
    tmp_path: Path, views: list[JudgeView]
) -> None:
    with FakeEndpoint() as alive, Ledger(tmp_path / "ledger") as ledger:

        async def run(*, allowed: bool) -> int:
            judge = config(tmp_path, second=alive.url, allow_fallback_models=allowed)
            pool = JudgePool(LLMJudge(judge), ledger=ledger)
            await pool.judge_all(views[:2])
            await pool.aclose()
            return pool.statistics().from_ledger

        assert [anyio.run(lambda a=a: run(allowed=a)) for a in (True, True, False)] == [
            0,
            2,
            0,
        ]
        entries = [entry.result.answered_by for entry in ledger.entries()]
    assert entries == [Answerer(model="small", deployment=host(alive))] * 4
