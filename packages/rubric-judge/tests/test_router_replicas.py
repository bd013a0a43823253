"""Deployments of a litellm file as replicas: over HTTP, with servers that fail and come back."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from rubric_core import JudgeView, Outcome
from rubric_judge import JudgeConfig, JudgePool, LLMJudge
from rubric_judge.models import replicas as replicas_module
from rubric_judge.models.replicas import Rests
from rubric_judge.models.router_file import read_router_file
from rubric_judge.testing import FakeEndpoint, Fault

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio

FILE = """
model_list:
  - model_name: judge
    litellm_params: {{model: openai/small, api_base: "{first}", api_key: k{more}}}
  - model_name: judge
    litellm_params: {{model: hosted_vllm/small, api_base: "{second}", api_key: k}}
  - model_name: spare
    litellm_params: {{model: openai/small, api_base: "{spare}", api_key: k}}
router_settings: {{fallbacks: [{{judge: [spare]}}]{settings}}}
"""
DEAD = "http://127.0.0.1:1/v1"


def _config(
    folder: Path,
    first: str,
    second: str,
    spare: str = DEAD,
    *,
    settings: str = "",
    **options: object,
) -> JudgeConfig:
    path = folder / "litellm.yaml"
    text = FILE.format(
        first=first, second=second, spare=spare, settings=settings, more=""
    )
    path.write_text(text, "utf-8")
    usual = {"backoff_s": 0.01, "max_transport_attempts": 2}
    return JudgeConfig.model_validate(
        {"model": "judge", "litellm_config": path, **usual, **options}
    )


def _views(make_view: ViewFactory, *, groups: int, members: int) -> list[JudgeView]:
    return [
        make_view(f"{group}.{member}", task_id=f"{group:016x}")
        for member in range(members)
        for group in range(groups)
    ]


def _tasks(endpoint: FakeEndpoint, views: list[JudgeView]) -> Counter[str]:
    """Count the calls of each task by what the endpoint was asked."""
    asked = [call.messages[-1]["content"] for call in endpoint.calls]
    return Counter(
        view.task_id for view in views for text in asked if view.response in text
    )


@pytest.mark.parametrize("strategy", ["", ", routing_strategy: least-busy"])
async def test_a_group_stays_on_one_deployment_and_groups_are_shared_out(
    tmp_path: Path, make_view: ViewFactory, strategy: str
) -> None:
    views = _views(make_view, groups=8, members=6)
    with FakeEndpoint() as first, FakeEndpoint() as second:
        config = _config(tmp_path, first.url, second.url, settings=strategy)
        pool = JudgePool(LLMJudge(config), workers=4)
        results = await pool.judge_all(views)
        await pool.aclose()
        tasks = [_tasks(first, views), _tasks(second, views)]
    assert {result.outcome for result in results} == {Outcome.SCORED}
    assert min(map(len, tasks)) >= 2
    assert sum(map(len, tasks)) == 8
    assert not tasks[0] & tasks[1]


async def test_a_deployment_that_fails_rests_and_comes_back(
    tmp_path: Path, make_view: ViewFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    clock = SimpleNamespace(monotonic=lambda: now_s)
    monkeypatch.setattr(replicas_module, "time", clock)
    views = _views(make_view, groups=30, members=1)
    settings = ", allowed_fails: 1, cooldown_time: 3"
    with (
        FakeEndpoint(faults=[Fault.SERVER_ERROR] * 2) as flaky,
        FakeEndpoint() as steady,
        FakeEndpoint() as spare,
    ):
        config = _config(tmp_path, flaky.url, steady.url, spare.url, settings=settings)
        async with LLMJudge(config) as judge:
            results = [await judge.judge(view) for view in views[:10]]
            assert len(flaky.calls) == 2  # the third would be one too many
            now_s += 3
            results += [await judge.judge(view) for view in views[10:]]
    assert {result.outcome for result in results} == {Outcome.SCORED}
    assert sum(result.attempts for result in results) == 30 + 2
    assert len(flaky.calls) + len(steady.calls) == 30 + 2
    assert len(flaky.calls) > 8
    assert spare.calls == []


async def test_what_is_at_rest_is_asked_where_nobody_else_answers(
    tmp_path: Path, make_view: ViewFactory
) -> None:
    first_view, second_view = _views(make_view, groups=2, members=1)
    with FakeEndpoint(faults=[Fault.SERVER_ERROR]) as flaky:
        settings = ", allowed_fails: 0, cooldown_time: 600"
        config = _config(
            tmp_path, flaky.url, DEAD, settings=settings, max_transport_attempts=1
        )
        async with LLMJudge(config) as judge:
            lost = await judge.judge(first_view)
            result = await judge.judge(second_view)
    assert (lost.outcome, lost.attempts) == (Outcome.UNAVAILABLE, 3)
    assert result.outcome is Outcome.SCORED
    assert result.answered_by is not None
    assert f"http://{result.answered_by.deployment}/v1" == flaky.url
    assert result.answered_by.fallback == ""


async def test_a_cancelled_call_speaks_against_no_deployment(
    tmp_path: Path, make_view: ViewFactory
) -> None:
    views = _views(make_view, groups=2, members=1)
    settings = ", allowed_fails: 0, cooldown_time: 600"
    with (
        FakeEndpoint(faults=[Fault.HANG]) as first,
        FakeEndpoint(faults=[Fault.HANG]) as second,
    ):
        config = _config(tmp_path, first.url, second.url, settings=settings)
        async with LLMJudge(config) as judge:
            for number, view in enumerate(views):
                async with anyio.create_task_group() as group:
                    group.start_soon(judge.judge, view)
                    with anyio.fail_after(60):
                        while len(first.calls + second.calls) <= number:  # noqa: ASYNC110
                            await anyio.sleep(0.01)
                    group.cancel_scope.cancel()
            for view in views:
                assert (await judge.judge(view)).attempts == 1
    assert [len(one.calls) for one in (first, second)] == [2, 2]


async def test_the_little_time_of_a_caller_speaks_against_no_deployment(
    tmp_path: Path, make_view: ViewFactory
) -> None:
    views = _views(make_view, groups=4, members=1)
    settings = ", allowed_fails: 0, cooldown_time: 600"
    with (
        FakeEndpoint(faults=[Fault.HANG]) as first,
        FakeEndpoint(faults=[Fault.HANG]) as second,
    ):
        config = _config(
            tmp_path,
            first.url,
            second.url,
            settings=settings,
            max_transport_attempts=1,
        )
        async with LLMJudge(config) as judge:
            with anyio.move_on_after(6):
                lost = await judge.judge(views[0])
                assert (lost.outcome, lost.attempts) == (Outcome.UNAVAILABLE, 3)
            results = [await judge.judge(view) for view in views]
    assert [result.attempts for result in results] == [1] * 4
    assert len(first.calls) == len(second.calls) == 3


@pytest.mark.parametrize(
    ("settings", "more", "is_ours"),
    [
        ("", "", True),
        (", routing_strategy: simple-shuffle, cooldown_time: 3", "", True),
        (", routing_strategy: least-busy, allowed_fails: 3", "", True),
        (", model_group_alias: {alias: judge}, debug_level: INFO", "", True),
        (", routing_strategy: latency-based-routing", "", False),
        (", routing_strategy: usage-based-routing-v2", "", False),
        (", enable_pre_call_checks: true", "", False),
        (", routing_groups: []", "", False),
        (", default_litellm_params: {tpm: 5}", "", False),
        (", default_litellm_params: {top_p: 0.5}", "", True),
        ("", ", weight: 3", False),
        ("", ", rpm: 100", False),
        ("", ", order: 1, top_p: 0.5", True),
    ],
)
def test_litellm_chooses_where_the_file_says_how(
    tmp_path: Path,
    settings: str,
    more: str,
    is_ours: bool,  # noqa: FBT001
) -> None:
    path = tmp_path / "litellm.yaml"
    path.write_text(
        FILE.format(first=DEAD, second=DEAD, spare=DEAD, settings=settings, more=more)
    )
    assert read_router_file(path, model="judge").is_ours is is_ours


@pytest.mark.parametrize(
    ("settings", "rests"),
    [
        ("", Rests(4, 5, 120)),
        (", allowed_fails: 0", Rests(1, 5, 120)),
        (", allowed_fails: 2, cooldown_time: 30", Rests(3, 30, 30)),
        (", disable_cooldowns: true, cooldown_time: 30", Rests(first_s=0)),
    ],
)
def test_a_deployment_rests_as_the_file_says(
    tmp_path: Path, settings: str, rests: Rests
) -> None:
    path = tmp_path / "litellm.yaml"
    path.write_text(
        FILE.format(first=DEAD, second=DEAD, spare=DEAD, settings=settings, more="")
    )
    assert read_router_file(path, model="judge").rests == rests
