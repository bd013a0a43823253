"""The judge against a real vLLM with structured outputs, serving a tiny model of random weights.

What such a model says is noise within the schema, so every way in which a reply can be within the
schema and still out of contract turns up.
"""

from collections import Counter

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rubric_core import JudgeResult, JudgeView, Outcome, Reason, Task
from rubric_judge import JudgeConfig, JudgePool, LLMJudge
from rubric_judge.testing.vllm import VLLMServer

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]

TRANSPORTS = {"direct": "served", "litellm": "hosted_vllm/served"}
SCHEMA_ALLOWS = {Reason.TOTAL_MISMATCH, Reason.TRUNCATED}


def _views(count: int, *, weight: float) -> list[JudgeView]:
    row = {
        "question": "Which loss is minimised?",
        "passage": "The model minimises the cross entropy of the labels. " * 20,
        "criteria": [
            {
                "id": "names the loss",
                "weight": weight,
                "description": "Says which loss.",
            },
            {
                "id": "why",
                "weight": weight / 2,
                "description": "Says why it is minimised.",
            },
        ],
    }
    task = Task.from_json(row)
    return [
        task.judge_view(f"Answer {number}: the cross entropy.")
        for number in range(count)
    ]


def _judged(
    server: VLLMServer, views: list[JudgeView], **changes: object
) -> list[JudgeResult]:
    config = JudgeConfig.model_validate(
        {
            "model": TRANSPORTS["direct"],
            "transport": "direct",
            "api_base": server.url,
            "temperature": 1.0,
            "max_tokens": 1000,
            **changes,
        }
    )

    async def judge_all() -> list[JudgeResult]:
        async with LLMJudge(config) as judge:
            return await JudgePool(judge).judge_all(views)

    return anyio.run(judge_all)


def _answers(server: VLLMServer) -> float:
    """Count the replies that the server has ended itself, none of which was aborted."""
    return sum(
        sample.value
        for metric in text_string_to_metric_families(server.metrics())
        for sample in metric.samples
        if sample.name == "vllm:request_success_total"
        and sample.labels["finished_reason"] in {"stop", "length"}
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("layout", ["paper", "shared_prefix"])
def test_every_reply_of_a_model_that_knows_nothing_is_scored_or_explained(
    vllm: VLLMServer, transport: str, layout: str
) -> None:
    before = _answers(vllm)

    results = _judged(
        vllm,
        _views(32, weight=2.0),
        model=TRANSPORTS[transport],
        transport=transport,
        prompt=layout,
    )

    assert len(results) == 32
    reasons = Counter(result.reason for result in results)
    # The schema holds ids, bounds and types; that numbers add up, and that a text ends, it cannot.
    assert set(reasons) - {None} <= SCHEMA_ALLOWS
    assert reasons[Reason.TOTAL_MISMATCH] > 0
    # Attempts may be more: vLLM closes a connection that was idle under the next request's feet.
    assert _answers(vllm) - before == 32


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_replies_within_the_schema_are_scored_where_every_total_is_right(
    vllm: VLLMServer, transport: str
) -> None:
    # Below the tolerance of a total, so that only ids, bounds and types are left to get wrong.
    views = _views(16, weight=5e-7)

    results = _judged(vllm, views, model=TRANSPORTS[transport], transport=transport)

    outcomes = Counter(result.outcome for result in results)
    assert set(outcomes) <= {Outcome.SCORED, Outcome.INVALID}
    assert outcomes[Outcome.SCORED] >= 12
    assert {result.reason for result in results} <= {None, Reason.TRUNCATED}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_reply_that_is_cut_off_is_truncated(vllm: VLLMServer, transport: str) -> None:
    changes = {"model": TRANSPORTS[transport], "transport": transport, "max_tokens": 8}

    results = _judged(vllm, _views(4, weight=2.0), **changes)

    assert {result.reason for result in results} == {Reason.TRUNCATED}
    assert {result.usage.completion_tokens for result in results if result.usage} == {8}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_tokens_and_the_shared_prefix_are_reported(
    vllm: VLLMServer, transport: str
) -> None:
    changes = {"model": TRANSPORTS[transport], "transport": transport}
    vllm.forget_prefixes()

    (first,) = _judged(vllm, _views(1, weight=2.0), **changes)
    later = _judged(vllm, _views(4, weight=2.0), **changes)

    assert first.usage is not None
    assert first.usage.cached_tokens == 0
    assert first.usage.prompt_tokens > 500
    for result in later:
        assert result.usage is not None
        assert result.usage.completion_tokens > 0
        # All but the last blocks, where the responses are.
        assert result.usage.cached_tokens is not None
        assert result.usage.prompt_tokens * 0.6 < result.usage.cached_tokens
        assert result.usage.cached_tokens < result.usage.prompt_tokens


def test_an_unknown_model_is_unavailable_at_once(vllm: VLLMServer) -> None:
    (result,) = _judged(vllm, _views(1, weight=2.0), model="nobody")

    assert (result.outcome, result.attempts) == (Outcome.UNAVAILABLE, 1)
