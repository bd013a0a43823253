from dataclasses import replace

import numpy as np
import pytest

from rubric_core import Answer, Reason
from rubric_train_openrlhf.cluster.sampling.samples import (
    Draw,
    Group,
    JudgementId,
    Prompt,
    Sample,
)
from rubric_train_openrlhf.cluster.training.trained import (
    TrainedSample,
    check_update,
    step_record,
)
from rubric_train_openrlhf.errors import NonFiniteUpdateError
from rubric_train_openrlhf.policy.completion import Completion
from rubric_train_openrlhf.run.records import JudgingFigures, Timing
from rubric_train_openrlhf.step.credit import StepCredit
from rubric_train_openrlhf.step.rows import StepRecord, metrics_row, rollout_rows

FIGURES = {
    "loss": 0.5,
    "kl": 0.01,
    "clip_frac": 0.2,
    "ratio_mean": 1.01,
    "dual_clip_frac": 0.05,
    "is_weight_mean": 0.9,
    "is_weight_bounded_frac": 0.1,
    "grad_norm": 0.9,
    "lr": 3e-7,
    "updates": 4.0,
    "sampler_gap": 0.01,
    "engine_restarts": 1,
}


def group(number: int, *, tokens: tuple[int, int]) -> Group:
    return Group(
        Prompt(f"<user>Q{number}</user>", f"t{number}", f"Q{number}"),
        tuple(
            Sample(
                experience=None,
                judgement=JudgementId(f"t{number}", key=str(member)),
                completion=Completion(said, Answer(said)),
                tokens=length,
                ended=length < 8,
            )
            for member, length in enumerate(tokens)
            for said in [f"answer {number}.{member}"]
        ),
    )


def credit() -> StepCredit:
    return StepCredit(
        rewards_PG=np.array([[0.5, 1.0], [0.0, np.nan]]),
        shaped_PG=np.array([[0.5, 1.0], [0.0, np.nan]]),
        advantages_PG=np.array([[-0.7, 0.7], [0.0, 0.0]]),
        valid_PG=np.array([[True, True], [True, False]]),
        outcomes_PG=(("scored", "scored"), ("invalid", "unavailable")),
        figures=JudgingFigures(
            criteria={"a": 0.5},
            zero_reward_by_reason={"not_json": 0.25},
            m_eff_mean=2.5,
            invalid_frac=0.25,
            unavailable_frac=0.25,
            degenerate_group_frac=0.5,
        ),
        attribution_abs={"a": 0.3},
        judge_restarts=3,
    )


def drawn() -> Draw:
    return Draw(
        groups=[group(0, tokens=(2, 4)), group(1, tokens=(6, 8))],
        generated_tokens=30,
        timing=Timing(generate_s=1.0, judge_s=4.0, judge_wait_s=0.25),
        resent=2,
        prompts=3,
    )


def record(draw: Draw | None = None, **figures: float) -> StepRecord:
    return step_record(
        3,
        draw or drawn(),
        credit(),
        [TrainedSample(b"", 1, a) for a in (-0.75, 0.75, 0.0, 0.0)],
        figures={**FIGURES, **figures},
        ended_at={
            "start": 0.0,
            "draw": 2.375,
            "experience": 2.875,
            "update": 4.875,
            "sync": 5.0,
        },
    )


def test_masked_responses_are_in_no_mean_of_rewards_and_zeroed_ones_are() -> None:
    row = metrics_row(record())
    assert row.reward_mean == pytest.approx(0.5)
    assert row.zero_reward_frac == pytest.approx(0.25)
    assert (row.invalid_frac, row.unavailable_frac) == (0.25, 0.25)


def test_a_step_says_where_its_time_and_its_tokens_went() -> None:
    row = metrics_row(record())
    assert row.tokens_per_s == pytest.approx(6.0)
    assert (row.response_tokens_mean, row.response_tokens_max, row.truncated_frac) == (
        5.0,
        8,
        0.25,
    )
    assert (row.generate_s, row.judge_s, row.judge_wait_s) == (1.0, 4.0, 0.25)
    assert row.resampled_prompts == 1
    assert row.cluster is not None
    assert (row.cluster.sync_s, row.cluster.experience_s) == (0.125, 0.5)
    assert (row.cluster.engine_restarts, row.cluster.resent_responses) == (1, 2)
    assert row.cluster.judge_restarts == 3
    assert row.cluster.attribution == {"a": 0.3}


def test_what_an_engine_left_unfinished_is_no_truncated_answer() -> None:
    draw = drawn()
    first, *others = draw.groups[1].samples
    judgement = JudgementId.failed("t1", Reason.NO_RESPONSE)
    unfinished = replace(first, judgement=judgement, tokens=0, ended=False)
    group_1 = replace(draw.groups[1], samples=(unfinished, *others))

    row = metrics_row(record(replace(draw, groups=[draw.groups[0], group_1])))

    assert row.truncated_frac == pytest.approx(1 / 3)
    assert row.response_tokens_mean == pytest.approx((2 + 4 + 8) / 3)


def test_dropped_shares_are_absent_where_nobody_computed_them() -> None:
    row = metrics_row(record())
    assert row.cluster is not None
    assert row.cluster.dropped_frac is None
    corrected = metrics_row(record(dropped_frac=0.1))
    assert corrected.cluster is not None
    assert corrected.cluster.dropped_frac == 0.1


def test_rollouts_show_the_question_and_no_reward_where_there_is_none() -> None:
    rows = list(rollout_rows(record()))
    assert [row.id for row in rows] == [
        "s000003-p000-g00",
        "s000003-p000-g01",
        "s000003-p001-g00",
        "s000003-p001-g01",
    ]
    assert [row.reward for row in rows] == [0.5, 1.0, 0.0, None]
    assert [row.prompt for row in rows] == ["Q0", "Q0", "Q1", "Q1"]
    assert [row.outcome for row in rows] == [
        "scored",
        "scored",
        "invalid",
        "unavailable",
    ]
    assert rows[0].advantage == -0.75  # what the learner had, not what it was to have
    assert not rows[3].ended


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_update_that_is_not_a_number_stops_the_run(name: str, value: float) -> None:
    with pytest.raises(NonFiniteUpdateError, match=f"step 3: {name} "):
        check_update({**FIGURES, name: value}, step=3)
