"""litellm's calls: prices, callbacks, and what is loaded before the first."""

import asyncio
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any

import anyio
import pytest

from rubric_core import JudgeResult, JudgeView, MissingExtraError, Outcome, Reason
from rubric_judge import JudgeConfig, LLMJudge
from rubric_judge.models.litellm_client import LiteLLMClient
from rubric_judge.testing import FakeEndpoint, replies

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio

ROUTES = ("openai/fake", "hosted_vllm/fake")
PRICES = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.002, "mode": "chat"}

FIRST_CALLS = """
import asyncio, sys
from rubric_core import Criterion, JudgeView, Rubric
from rubric_judge import JudgeConfig
from rubric_judge.models.chat import ChatRequest
from rubric_judge.models.litellm_client import LiteLLMClient
from rubric_judge.judges.llm.replies import reply_model
from rubric_judge.testing import FakeEndpoint

async def main():
    reply = reply_model(Rubric(criteria=(Criterion(id="a", weight=1.0),)), "shared_prefix")
    with FakeEndpoint(1.0) as endpoint:
        client = LiteLLMClient(JudgeConfig(model=sys.argv[1], api_base=endpoint.url))
        await client.prepare()
        before = set(sys.modules)
        asked = [client.ask(ChatRequest(user="{}", reply=reply)) for _ in range(4)]
        answers = await asyncio.gather(*asked)
        assert len(endpoint.calls) == 4, answers
        await client.aclose()
    print(sorted(name for name in sys.modules.keys() - before if name.startswith("litellm")))

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
async def closed_connections() -> AsyncIterator[None]:
    """Close what litellm keeps open, which belongs to the event loop of one test."""
    yield
    await LLMJudge(JudgeConfig(model="openai/gpt-4.1-mini")).aclose()


@pytest.fixture
def litellm() -> Iterator[Any]:
    """Return the module, and put its prices and callbacks back afterwards."""
    module: Any = import_module("litellm")
    prices, callbacks = dict(module.model_cost), list(module.callbacks)
    yield module
    module.model_cost.clear()
    module.model_cost.update(prices)
    module.callbacks[:] = callbacks
    module.logging_callback_manager._reset_all_callbacks()  # for the other tests


async def _judge_twice(view: JudgeView, **config: object) -> list[JudgeResult]:
    with FakeEndpoint(0.5) as endpoint:
        settings = {"api_base": endpoint.url, "transport": "litellm", **config}
        async with LLMJudge(JudgeConfig.model_validate(settings)) as judge:
            results = [await judge.judge(view) for _ in range(2)]
    assert {result.outcome for result in results} == {Outcome.SCORED}
    return results


def _costs(results: list[JudgeResult]) -> list[float | None]:
    return [result.usage.cost_usd if result.usage else None for result in results]


@pytest.mark.parametrize("route", ROUTES)
async def test_a_model_without_a_price_has_none_at_every_call(
    make_view: ViewFactory, route: str
) -> None:
    results = await _judge_twice(make_view(), model=route)
    assert _costs(results) == [None, None]
    assert all(result.usage and result.usage.prompt_tokens > 0 for result in results)


async def test_a_model_with_a_price_has_it_at_every_call(
    make_view: ViewFactory,
) -> None:
    results = await _judge_twice(make_view(), model="openai/gpt-4.1-mini")
    costs = _costs(results)
    assert costs[0] == costs[1]
    assert costs[0] is not None
    assert costs[0] > 0


async def test_a_price_that_is_registered_later_counts_from_then_on(
    make_view: ViewFactory,
    litellm: Any,
) -> None:
    model = "hosted_vllm/priced-later"
    assert _costs(await _judge_twice(make_view(), model=model)) == [None, None]
    litellm.register_model({model: {**PRICES, "litellm_provider": "hosted_vllm"}})
    results = await _judge_twice(make_view(), model=model)
    for result in results:
        usage = result.usage
        assert usage is not None
        expected = 0.001 * usage.prompt_tokens + 0.002 * usage.completion_tokens
        assert usage.cost_usd == pytest.approx(expected)


@pytest.mark.parametrize("route", ROUTES)
async def test_a_program_with_a_callback_is_told_of_every_call_and_of_no_other(
    make_view: ViewFactory,
    litellm: Any,
    route: str,
) -> None:
    told: list[str] = []
    told_twice = anyio.Event()

    class Listener(import_module("litellm.integrations.custom_logger").CustomLogger):
        async def async_log_success_event(self, **call: Any) -> None:
            told.append(call["kwargs"]["messages"][1]["content"])
            if len(told) == 2:
                told_twice.set()

    litellm.callbacks.append(Listener())
    await _judge_twice(make_view("Zyzzyva"), model=route)
    with anyio.fail_after(600):
        await told_twice.wait()
    assert all("Zyzzyva" in message for message in told)
    assert len(told) == 2


@pytest.mark.parametrize("route", ROUTES)
async def test_no_warning_quotes_an_answer_of_the_wrong_types(
    make_view: ViewFactory, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistyped(_text: str, **kwargs: Any) -> dict[str, object]:
        answer: dict[str, Any] = replies.completion("", **kwargs)
        answer["choices"][0]["message"]["content"] = {"text": "Zyzzyva"}
        return answer

    monkeypatch.setattr("rubric_judge.testing.endpoint.completion", mistyped)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with FakeEndpoint(0.5) as endpoint:
            config = JudgeConfig(
                model=route,
                transport="litellm",
                api_base=endpoint.url,
                max_transport_attempts=1,
            )
            async with LLMJudge(config) as judge:
                result = await judge.judge(make_view())
        warnings.warn("another", UserWarning, stacklevel=1)
    assert (result.outcome, result.reason) == (Outcome.UNAVAILABLE, Reason.JUDGE_ERROR)
    assert [str(warning.message) for warning in seen] == ["another"]


@pytest.mark.parametrize("route", ROUTES)
async def test_the_first_calls_load_nothing_of_litellm(route: str) -> None:
    command = [sys.executable, "-c", FIRST_CALLS, route]
    done = await anyio.run_process(command, stderr=subprocess.PIPE, check=False)
    assert done.stdout.decode().strip() == "[]", done.stderr.decode()[-2000:]


@pytest.mark.parametrize("route", ROUTES)
async def test_getting_ready_leaves_what_is_logged_to_the_event_loop_of_the_calls(
    route: str,
) -> None:
    worker = import_module(
        "litellm.litellm_core_utils.logging_worker"
    ).GLOBAL_LOGGING_WORKER
    worker.start()
    client = LiteLLMClient(JudgeConfig(model=route, api_base="http://127.0.0.1:1/v1"))
    await client.prepare()
    # Another loop would take the calls not yet logged along, and what it had begun would be lost.
    assert worker._bound_loop is asyncio.get_running_loop()
    await client.aclose()


async def test_a_hosted_model_without_the_extra_is_refused_and_an_own_server_is_not() -> (
    None
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "litellm", None)

        LLMJudge(JudgeConfig(model="openai/m", api_base="http://127.0.0.1:1/v1"))
        with pytest.raises(
            MissingExtraError, match=r"'m/n'.* needs litellm: .*\[litellm\]"
        ):
            LLMJudge(JudgeConfig(model="m/n"))
