"""Judging over a real socket, in time and in bounds, and what is seen of it."""

import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest
from structlog.testing import capture_logs

from rubric_core import (
    Answerer,
    CascadeTrace,
    JudgeResult,
    JudgeView,
    Reason,
    Task,
    Usage,
)
from rubric_judge.testing import FailingJudge, ScriptedJudge

RESPONSE = "The response that is not echoed, marked QUAGGA."

Serving = Callable[..., Any]
Items = Callable[..., dict[str, Any]]
NoText = Callable[[object], None]
Row = dict[str, Any]


# --- judging --------------------------------------------------------------------------------------


def test_a_batch_is_judged_in_its_order_and_shows_no_text(
    serving: Serving, task: Task, items: Items, says_no_text: NoText, task_row: Row
) -> None:
    def by_length(view: JudgeView) -> JudgeResult:
        scores = {"a": 0.125 * len(view.response), "b": 0.0}
        return JudgeResult.scored(
            view.rubric, scores, judge="x", reasoning=task_row["passage"]
        )

    with serving(ScriptedJudge(by_length)) as client:
        answer = client.post(
            "/v1/judge", json=items(task, *("y" * n for n in range(20)))
        )

    rows = answer.json()["results"]
    assert answer.status_code == 200
    assert [row["scores"]["a"] for row in rows] == [0.125 * n for n in range(20)]
    assert [row["reward"] for row in rows] == [0.125 * n / 4 for n in range(20)]
    assert {row["task_id"] for row in rows} == {task.task_id}
    says_no_text(answer)


def test_a_request_may_bring_its_task(
    client: httpx.Client, task: Task, says_no_text: NoText, task_row: Row
) -> None:
    body = {"items": [{"task": task_row, "response": "An answer."}]}
    answer = client.post("/v1/judge", json=body)
    (row,) = answer.json()["results"]
    assert (row["reward"], row["task_id"]) == (0.5, task.task_id)
    says_no_text(answer)


@pytest.mark.parametrize(
    ("reason", "reward"), [(Reason.TRUNCATED, 0.0), (Reason.RATE_LIMITED, None)]
)
def test_a_judgement_without_scores_keeps_its_reason(
    serving: Serving, task: Task, reason: Reason, reward: float | None, items: Items
) -> None:
    with serving(FailingJudge(reason)) as client:
        (row,) = client.post("/v1/judge", json=items(task, "An answer.")).json()[
            "results"
        ]
    assert (row["reward"], row["reason"]) == (reward, reason.value)
    assert row["outcome"] == reason.outcome.value


def test_what_is_not_judged_by_the_deadline_is_unavailable(
    serving: Serving, task: Task, items: Items
) -> None:
    async def slowly(view: JudgeView) -> None:
        await anyio.sleep(30 if view.response == "slow" else 0)

    with serving(ScriptedJudge(before=slowly), deadline_s=0.4) as client:
        rows = client.post("/v1/judge", json=items(task, "quick", "slow")).json()[
            "results"
        ]
    assert [row["outcome"] for row in rows] == ["scored", "unavailable"]


# --- the queue ------------------------------------------------------------------------------------


def test_a_full_queue_turns_requests_away_and_says_for_how_long(
    serving: Serving, task: Task, items: Items
) -> None:
    release = threading.Event()

    async def wait(view: JudgeView) -> None:
        del view
        await anyio.to_thread.run_sync(release.wait, abandon_on_cancel=True)

    answers: list[httpx.Response] = []
    with serving(ScriptedJudge(before=wait), workers=1, max_queued=3) as client:
        address = str(client.base_url)

        def ask() -> None:
            answers.append(
                httpx.post(
                    f"{address}/v1/judge", json=items(task, "1", "2"), timeout=600
                )
            )

        waiting = threading.Thread(target=ask)
        waiting.start()
        while client.get("/healthz").json()["queued"] < 2:
            time.sleep(0.01)
        refused = client.post("/v1/judge", json=items(task, "3", "4"))
        fits = threading.Thread(
            target=lambda: client.post("/v1/judge", json=items(task, "5"))
        )
        fits.start()
        release.set()
        waiting.join()
        fits.join()
        assert client.get("/healthz").json()["queued"] == 0
    assert (refused.status_code, refused.json()["error"]["kind"]) == (429, "busy")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert [answer.status_code for answer in answers] == [200]


def test_a_client_that_goes_away_has_its_judgements_cancelled(
    serving: Serving, task: Task, items: Items
) -> None:
    cancelled = threading.Event()

    async def wait(view: JudgeView) -> None:
        del view
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with serving(ScriptedJudge(before=wait)) as client:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(
                f"{client.base_url}/v1/judge", json=items(task, "1"), timeout=0.5
            )
        assert cancelled.wait(600)
        while client.get("/healthz").json()["queued"]:
            time.sleep(0.01)


# --- what is seen of it ---------------------------------------------------------------------------


def test_the_metrics_count_outcomes_times_and_tokens(
    serving: Serving, task: Task, items: Items, says_no_text: NoText
) -> None:
    def script(view: JudgeView) -> JudgeResult:
        if view.response == "bad":
            return JudgeResult.invalid(Reason.NOT_JSON)
        result = JudgeResult.scored(view.rubric, {"a": 1.0, "b": 0.0}, judge="x")
        usage = Usage(
            prompt_tokens=100, completion_tokens=7, cached_tokens=60, cost_usd=0.5
        )
        by = Answerer(model="large", fallback="spare")
        return result.with_call(usage=usage, latency_s=0.2, answered_by=by)

    with serving(ScriptedJudge(script)) as client:
        before = client.get("/metrics").text
        client.post("/v1/judge", json=items(task, "good", "bad", "good"))
        after = client.get("/metrics").text
    assert "cached_token_share" not in before  # unknown is not 0
    for line in (
        'rubric_judge_judgements_total{outcome="scored",reason=""} 2.0',
        'rubric_judge_judgements_total{outcome="invalid",reason="not_json"} 1.0',
        'rubric_judge_fallback_judgements_total{fallback="spare"} 2.0',
        "rubric_judge_prompt_tokens_total 200.0",
        "rubric_judge_completion_tokens_total 14.0",
        "rubric_judge_cached_tokens_total 120.0",
        "rubric_judge_cost_usd_total 1.0",
        "rubric_judge_attempts_total 3.0",
        "rubric_judge_from_ledger_total 0.0",
        "rubric_judge_cached_token_share 0.6",
        "rubric_judge_in_flight 0.0",
        "rubric_judge_waiting 0.0",
        "rubric_judge_judgement_seconds_count 2.0",
        'rubric_judge_request_seconds_count{path="/v1/judge",status="200"} 1.0',
    ):
        assert line in after.splitlines()
    says_no_text(after)


def test_the_metrics_say_who_decided_in_a_cascade_and_what_audits_found(
    serving: Serving, task: Task, items: Items
) -> None:
    trace = CascadeTrace(
        judges=["cheap", "strong"],
        decided_by={"a": "cheap", "b": "strong"},
        audits={"b": False},
        bound=0.0625,
    )
    scored = JudgeResult.scored(task.rubric, {"a": 1.0, "b": 0.0}, judge="x")
    judge = ScriptedJudge(
        JudgeResult.model_validate({**dict(scored), "cascade": trace})
    )

    with serving(judge) as client:
        client.post("/v1/judge", json=items(task, "good", "better"))
        lines = client.get("/metrics").text.splitlines()

    for line in (
        'rubric_judge_cascade_criteria_total{judge="cheap"} 2.0',
        'rubric_judge_cascade_criteria_total{judge="strong"} 2.0',
        'rubric_judge_cascade_audits_total{verdict="same"} 0.0',
        'rubric_judge_cascade_audits_total{verdict="other"} 2.0',
        "rubric_judge_cascade_risk_bound 0.0625",
    ):
        assert line in lines


def test_a_request_is_one_event_without_texts(
    serving: Serving, task: Task, items: Items, says_no_text: NoText
) -> None:
    with capture_logs() as events, serving() as client:
        client.post("/v1/judge", json=items(task, RESPONSE))
        client.get("/QUAGGA")
    requests = [one for one in events if one["event"] == "serve.request.finished"]
    assert [(one["path"], one["status"]) for one in requests] == [
        ("/v1/judge", 200),
        ("other", 404),
    ]
    says_no_text(str(events))


def test_the_description_has_examples_that_are_answered(client: httpx.Client) -> None:
    description = client.get("/openapi.json").json()
    examples = description["components"]["schemas"]["JudgeRequest"]["examples"]
    inline = client.post("/v1/judge", json=examples[1])
    by_id = client.post("/v1/judge", json=examples[0])
    assert inline.status_code == 200
    assert (
        by_id.json()["error"]["kind"] == "unknown_task"
    )  # the example's id is nobody's
    post = description["paths"]["/v1/judge"]["post"]
    assert {"200", "400", "404", "408", "413", "422", "429", "500", "503"} <= set(
        post["responses"]
    )
