"""Figures and tables of a step, with worked numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_core import Criterion, Grounding, JudgeResult, Rubric, Task
from rubric_core.judgement.call import Usage
from rubric_train_openrlhf.run.records import JudgementRow, RolloutRow, row_id
from rubric_train_openrlhf.tracking.figures import (
    Measuring,
    judge_figures,
    row_figures,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

RUBRIC = Rubric(
    criteria=(
        Criterion(id="named", weight=2, description="secret description"),
        Criterion(id="returns", weight=1, expected_keywords=("sum",)),
    )
)
TASK = Task(question="What?", grounding=Grounding("secret passage"), rubric=RUBRIC)
MEASURING = Measuring({TASK.task_id: TASK})


def judged(
    prompt: int,
    response: int,
    z: Mapping[str, float],
    *,
    usage: Usage | None = None,
    latency_s: float = 0.1,
) -> JudgementRow:
    return JudgementRow(
        id=row_id(step=1, prompt=prompt, response=response),
        step=1,
        task_id=TASK.task_id,
        result=JudgeResult.scored(
            RUBRIC,
            {"named": 2.0, "returns": 1.0},
            judge="j",
            reasoning="secret reasoning",
        ).with_call(usage=usage, latency_s=latency_s),
        z=dict(z),
        shares={},
        attribution={},
    )


def test_the_spread_is_the_mean_deviation_within_a_group() -> None:
    rows = [
        # The deviation of 0 and 1 is ½, and of two equal values 0.
        judged(0, 0, {"named": 0.0, "returns": 1.0}),
        judged(0, 1, {"named": 1.0, "returns": 1.0}),
        # The task was drawn twice: another group, whose level does not count.
        judged(1, 0, {"named": 1.0, "returns": 0.0}),
        judged(1, 1, {"named": 1.0, "returns": 0.0}),
    ]

    figures = dict(MEASURING.criteria({"named": 0.75, "returns": 0.5}, rows))

    assert figures == {
        "criterion/named/mean": 0.75,
        "criterion/returns/mean": 0.5,
        "criterion/named/spread": 0.25,
        "criterion/returns/spread": 0.0,
    }


def test_a_response_without_a_judgement_has_no_part_in_a_spread() -> None:
    rows = [judged(0, 0, {"named": 0.0}), judged(0, 1, {})]

    assert dict(MEASURING.criteria({}, rows)) == {}


def test_equal_answers_that_share_a_judgement_cost_its_tokens_once() -> None:
    usage = Usage(prompt_tokens=100, completion_tokens=10, cost_usd=0.25)
    rows = [
        judged(0, 0, {}, usage=usage),
        judged(0, 1, {}, usage=usage),
        judged(0, 2, {}, usage=usage, latency_s=0.2),
    ]

    assert dict(judge_figures(rows)) == {
        "judge/prompt_tokens": 200,
        "judge/completion_tokens": 20,
        "judge/cost_usd": 0.5,
    }


def test_a_judge_that_reports_no_tokens_has_no_figure_of_them() -> None:
    assert dict(judge_figures([judged(0, 0, {})])) == {}


def test_only_numbers_of_a_row_are_figures() -> None:
    row = {
        "step": 3,
        "best": True,
        "loss": 0.5,
        "entropy": None,
        "kind": "x",
        "criteria": {"named": 1.0},
    }

    assert row_figures("train", row) == {"train/loss": 0.5, "train/criteria/named": 1.0}


def test_what_watches_a_run_has_tags_of_its_own() -> None:
    row = {"step": 3, "loss": 0.5, "audit": {"gap": 0.25, "state": "quiet"}}

    assert row_figures("heldout", row | {"monitor": {"hedges": 0.125}}) == {
        "heldout/loss": 0.5,
        "alarm/heldout/audit/gap": 0.25,
        "alarm/heldout/monitor/hedges": 0.125,
    }


@pytest.mark.parametrize("judge_side", [False, True])
def test_a_table_has_the_judge_s_side_only_where_that_was_said(
    *, judge_side: bool
) -> None:
    rollout = RolloutRow(
        id=row_id(step=1, prompt=0, response=0),
        step=1,
        task_id=TASK.task_id,
        prompt="What?",
        response="<think>hm</think>Sum.",
        answer="Sum.",
        reward=1.0,
        advantage=0.5,
        tokens=3,
        ended=True,
        outcome="scored",
    )

    table = MEASURING.table(
        [rollout], [judged(0, 0, {"named": 1.0})], judge_side=judge_side
    )

    [row] = table.rows
    assert row[:5] == ("s000001-p000-g00", "What?", "Sum.", 1.0, "scored")
    assert len(row) == len(table.columns)
    secrets = ("secret passage", "secret description", "secret reasoning")
    assert [secret in str(row) for secret in secrets] == [judge_side] * 3
