"""The judge coordinator, called as a class; `test_coordinator_calls` calls it through Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest

from rubric_core import (
    Answer,
    JudgeResult,
    Outcome,
    Reason,
    Thought,
    UnavailableRewardError,
    group_advantages,
)
from rubric_judge import (
    JudgePool,
    JudgeSetupError,
    LexicalJudge,
    ListwiseConfig,
    load_judge,
)
from rubric_train_openrlhf.cluster.judging import (
    JudgeCoordinator,
    JudgeSide,
    refuse_groups,
)
from rubric_train_openrlhf.cluster.sampling.samples import JudgementId
from rubric_train_openrlhf.errors import ClusterError, JudgeAbortError, TrainConfigError
from rubric_train_openrlhf.run.records import JudgementRow
from rubric_train_openrlhf.step import probe
from rubric_train_openrlhf.step.credit import Crediting
from rubric_train_openrlhf.step.rewards import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_core import JudgeView, Task
    from rubric_train_openrlhf.cluster.sampling.samples import Verdict
    from rubric_train_openrlhf.config.train import TrainConfig

    MakeConfig = Callable[..., TrainConfig]

pytestmark = pytest.mark.anyio
LENGTHS = [[4, 16, 8, 8], [8, 8, 8, 8]]
ENDED = [[True, False, True, True], [True, True, True, True]]
SIZES, SIZES_OF_ONE = Sizes.of(LENGTHS, ENDED), Sizes.of(LENGTHS[:1], ENDED[:1])


def answers(number: int) -> list[str]:
    """Worth 1, 1/3, 5/6 and 0."""
    return [
        f"The function fn_{number} takes left_{number} and it returns something.",
        named(number),
        f"The function fn_{number} takes left_{number} and no more.",
        "Nobody knows.",
    ]


def named(number: int) -> str:
    """Worth 1/3."""
    return f"The function fn_{number} adds."


async def judged(
    coordinator: JudgeCoordinator, tasks: Sequence[Task], numbers: Sequence[int]
) -> list[list[str]]:
    verdicts = [
        [
            await coordinator.judge(tasks[number].task_id, response)
            for response in answers(number)
        ]
        for number in numbers
    ]
    return [[verdict.judgement for verdict in group] for group in verdicts]


async def test_credit_is_what_rubric_core_says_and_its_rows_are_on_disk(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    config = make_config()
    coordinator = JudgeCoordinator(config)
    judgements = await judged(coordinator, tasks, [2, 4])

    credit = await coordinator.credit(1, judgements, SIZES)

    rewards = np.array([[1, 1 / 3, 5 / 6, 0]] * 2)
    np.testing.assert_allclose(credit.rewards_PG, rewards, rtol=1e-12)
    np.testing.assert_array_equal(
        credit.advantages_PG, group_advantages(credit.rewards_PG)
    )
    assert credit.advantages_PG.dtype == np.float64
    assert credit.valid_PG.all()
    assert credit.shaped_PG is not None
    assert credit.outcomes_PG == (("scored",) * 4,) * 2
    assert credit.figures.criteria == {
        "named": 0.75,
        "parameters": 0.5,
        "returns": 0.25,
    }
    assert credit.figures.zero_reward_by_reason == {"scored": 0.25}
    assert credit.figures.m_eff_mean == pytest.approx(36 / 14)
    shares = {"invalid_frac", "unavailable_frac", "degenerate_group_frac"}
    assert set(credit.figures.model_dump(include=shares).values()) == {0}
    assert credit.rewards_PG.mean() == pytest.approx(13 / 24)
    lines = (config.out / "judgements" / "step_000001.jsonl").read_text().splitlines()
    rows = [JudgementRow.model_validate_json(line) for line in lines]
    assert [row.id for row in rows][:2] == ["s000001-p000-g00", "s000001-p000-g01"]
    for row, advantage in zip(rows, credit.advantages_PG.reshape(-1), strict=True):
        assert sum(row.attribution.values()) == pytest.approx(advantage, abs=1e-9)
    mean_abs = np.mean([abs(row.attribution["named"]) for row in rows])
    assert credit.attribution_abs["named"] == pytest.approx(mean_abs)
    await coordinator.aclose()


async def test_penalties_are_the_desks(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    coordinator = JudgeCoordinator(make_config(shaping={"alpha_stop": 0.5}))
    judgements = await judged(coordinator, tasks, [0, 1])

    credit = await coordinator.credit(1, judgements, SIZES)

    assert credit.shaped_PG[0].tolist() == pytest.approx([1, 1 / 6, 5 / 6, 0])
    np.testing.assert_array_equal(
        credit.advantages_PG, group_advantages(credit.shaped_PG)
    )
    await coordinator.aclose()


async def test_weights_by_contrast_and_dropout_are_those_of_a_local_run(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    weighting = {"by": "contrast", "dropout": 0.4}
    config = make_config(rubric_weights=weighting)
    coordinator = JudgeCoordinator(config)
    judgements = await judged(coordinator, tasks, [2, 4])

    credit = await coordinator.credit(3, judgements, SIZES)

    judge = LexicalJudge()
    taken = [tasks[2], tasks[4]]
    results = [
        [await judge.judge(tasks[n].judge_view(text)) for text in answers(n)]
        for n in (2, 4)
    ]
    local, _ = Crediting(config).of_step(3, results, taken, SIZES)
    np.testing.assert_array_equal(credit.advantages_PG, local.advantages_PG)
    assert credit.figures.moved_weight_frac == local.figures.moved_weight_frac
    assert local.figures.moved_weight_frac
    await coordinator.aclose()


async def test_a_judge_of_groups_is_refused_with_the_reason() -> None:
    spec = ListwiseConfig(model="m", api_base="http://127.0.0.1:9/v1")
    pool = JudgePool(load_judge(spec))

    with pytest.raises(JudgeSetupError, match=r"hand over each .* `backend: local`"):
        refuse_groups(pool)

    refuse_groups(JudgePool(LexicalJudge()))
    await pool.aclose()


async def test_a_verdict_is_a_reward_and_a_name(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    coordinator = JudgeCoordinator(make_config())

    verdict = await coordinator.judge(tasks[0].task_id, named(0))

    assert verdict.reward == 1 / 3
    judgement = JudgementId.read(verdict.judgement)
    assert (judgement.task_id, judgement.reason) == (tasks[0].task_id, None)
    assert "quokka" not in repr(verdict)
    with pytest.raises(ClusterError, match="no task 'feedfeedfeedfeed'"):
        await coordinator.judge("feedfeedfeedfeed", named(0))
    await coordinator.aclose()


async def test_a_response_without_an_answer_earns_nothing_and_keeps_its_reason(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    unanswered = [Answer("", Thought.UNCLOSED), Answer(" ", Thought.CLOSED, "</think>")]
    coordinator = JudgeCoordinator(make_config())
    verdicts = [await coordinator.judge(tasks[2].task_id, one) for one in unanswered]
    named_too = [
        await coordinator.judge(tasks[2].task_id, one) for one in answers(2)[:2]
    ]
    names = [verdict.judgement for verdict in (*verdicts, *named_too)]
    await coordinator.aclose()
    again = JudgeCoordinator(make_config())

    credit = await again.credit(1, [names], SIZES_OF_ONE)

    assert [verdict.reward for verdict in verdicts] == [0, 0]
    assert credit.rewards_PG.tolist() == [[0, 0, 1, 1 / 3]]
    assert credit.valid_PG.all()
    assert credit.figures.zero_reward_by_reason == {
        "empty_answer": 0.25,
        "unclosed_thought": 0.25,
    }
    assert (credit.figures.invalid_frac, credit.figures.unavailable_frac) == (0, 0)
    await again.aclose()


async def test_a_coordinator_that_starts_again_loses_nothing(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    config = make_config()
    first = JudgeCoordinator(config)
    judgements = await judged(first, tasks, [0, 3])
    await first.aclose()
    judgements[1][2] = JudgementId.failed(tasks[3].task_id, Reason.TIMEOUT).text

    credit = await JudgeCoordinator(config).credit(1, judgements, SIZES)

    assert credit.rewards_PG[0].tolist() == pytest.approx([1, 1 / 3, 5 / 6, 0])
    assert credit.valid_PG.tolist() == [[True] * 4, [True, True, False, True]]
    assert credit.advantages_PG[1, 2] == 0
    assert credit.figures.unavailable_frac == 1 / 8


async def test_what_the_ledger_did_not_keep_is_masked(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    coordinator = JudgeCoordinator(make_config())
    lost = JudgementId(tasks[0].task_id, key="0" * 64).text
    judgements = [[*(await judged(coordinator, tasks, [0]))[0][:3], lost]]

    credit = await coordinator.credit(1, judgements, SIZES_OF_ONE)

    assert credit.outcomes_PG[0][3] == "unavailable"
    assert not credit.valid_PG[0, 3]
    await coordinator.aclose()


async def test_spread_follows_the_shaped_rewards(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    coordinator = JudgeCoordinator(make_config(shaping={"alpha_stop": 0.5}))
    same = [(await coordinator.judge(tasks[5].task_id, named(5))).judgement] * 4
    different = (await judged(coordinator, tasks, [0]))[0]
    both = Sizes.of([[8] * 4] * 2, [[True] * 4] * 2)
    ended = Sizes.of([[8] * 4], [[True] * 4])
    cut = Sizes.of([[8] * 4], [[True, True, True, False]])

    assert await coordinator.spread(1, [same, different], both) == [False, True]
    assert await coordinator.spread(1, [same], cut) == [True]
    assert await coordinator.spread(1, [same], ended) == [False]
    await coordinator.aclose()


async def test_rates_are_of_all_that_was_judged_for_a_step_however_often_they_are_asked_for(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    config = make_config()
    coordinator = JudgeCoordinator(config)
    [kept] = await judged(coordinator, tasks, [0])
    failed = [JudgementId.failed(tasks[5].task_id, Reason.TIMEOUT).text] * 2
    dropped = [
        (await coordinator.judge(tasks[5].task_id, named(5))).judgement
    ] * 2 + failed
    asked = (1, [kept], SIZES_OF_ONE, [dropped])

    first = await coordinator.credit(*asked)
    again = await coordinator.credit(*asked)
    await coordinator.aclose()
    restarted = JudgeCoordinator(config)
    after_its_death = await restarted.credit(*asked)
    await restarted.aclose()

    for credit in (first, again, after_its_death):
        assert (
            credit.figures.unavailable_frac,
            credit.figures.degenerate_group_frac,
        ) == (
            2 / 8,
            0.5,
        )
        np.testing.assert_array_equal(credit.advantages_PG, first.advantages_PG)


async def test_a_credit_that_was_lost_on_its_way_is_given_again_as_it_was(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    config = make_config()
    coordinator = JudgeCoordinator(config)
    side = opened(coordinator, config, FailingPool(None))
    side._ledger.close()  # keeps nothing from here on, as on a full disk
    [group] = await judged(coordinator, tasks, [0])

    first = await coordinator.credit(1, [group], SIZES_OF_ONE)
    again = await coordinator.credit(1, [group], SIZES_OF_ONE)

    assert again.outcomes_PG == first.outcomes_PG == (("scored",) * 4,)


async def test_the_limits_are_of_a_step_so_far_and_not_of_its_last_round(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    coordinator = JudgeCoordinator(make_config(judge={"max_unavailable_frac": 0.2}))
    before = await judged(coordinator, tasks, [0, 1])
    failed = [JudgementId.failed(tasks[2].task_id, Reason.TIMEOUT).text] * 2
    last = [*(await judged(coordinator, tasks, [2]))[0][:2], *failed]

    assert await coordinator.spread(3, [last], SIZES_OF_ONE, before) == [True]
    with pytest.raises(JudgeAbortError, match=r"step 3: unavailable .* of 4 responses"):
        await coordinator.spread(3, [last], SIZES_OF_ONE)
    await coordinator.aclose()


async def test_a_judge_that_fails_too_often_stops_the_run(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    coordinator = JudgeCoordinator(make_config(judge={"max_unavailable_frac": 0.2}))
    failed = [JudgementId.failed(tasks[0].task_id, Reason.TIMEOUT).text] * 2
    group = [[*(await judged(coordinator, tasks, [0]))[0][:2], *failed]]

    for call in (
        coordinator.credit(3, group, SIZES_OF_ONE),
        coordinator.spread(3, group, SIZES_OF_ONE),
        coordinator.heldout(3, group),
    ):
        with pytest.raises(JudgeAbortError, match=r"step 3: unavailable .* timeout 2"):
            await call
    await coordinator.aclose()


async def test_a_judge_that_does_not_answer_is_found_before_the_run(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_AGAIN_S", 0.0)
    config = make_config()
    coordinator = JudgeCoordinator(config)
    opened(coordinator, config, pool := FailingPool(None))

    pool.checks = [True, True, False]
    await coordinator.open()
    assert pool.checks == []
    pool.checks = [True] * 4
    with pytest.raises(JudgeSetupError, match="nobody there"):
        await coordinator.open()


@pytest.mark.parametrize(
    ("policy", "reward"), [("mask", None), ("zero", 0.0), ("raise", None)]
)
async def test_what_an_unreachable_judge_means_is_configured(
    make_config: MakeConfig, tasks: Sequence[Task], policy: str, reward: float | None
) -> None:
    config = make_config(judge={"on_unavailable": policy, "max_unavailable_frac": 0.9})
    coordinator = JudgeCoordinator(config)
    side = opened(coordinator, config, FailingPool(Reason.SERVER_ERROR))
    verdicts = [
        await coordinator.judge(tasks[0].task_id, text) for text in ("a", "b", "c")
    ]
    side.pool = FailingPool(None)
    verdicts.append(await coordinator.judge(tasks[0].task_id, "d"))
    assert [one.reward for one in verdicts] == [*[reward] * 3, 1.0]
    judgements = [[one.judgement for one in verdicts]]

    if policy == "raise":
        with pytest.raises(UnavailableRewardError):
            await coordinator.credit(1, judgements, SIZES_OF_ONE)
        return
    credit = await coordinator.credit(1, judgements, SIZES_OF_ONE)
    assert credit.valid_PG.tolist() == [[policy == "zero"] * 3 + [True]]
    assert (credit.advantages_PG != 0).any() == (policy == "zero")


async def test_the_held_out_pass_is_averaged_over_questions(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    coordinator = JudgeCoordinator(make_config())
    judgements = await judged(coordinator, tasks, [6, 7])

    reward = await coordinator.heldout(0, judgements)

    assert reward.reward_mean == pytest.approx(13 / 24)
    assert (reward.n, reward.reward_std) == (2, pytest.approx(0))
    assert reward.criteria["returns"] == 0.25
    await coordinator.aclose()


async def test_the_same_response_is_judged_once_and_a_group_waits_for_its_first_where_asked(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    config = make_config()
    coordinator = JudgeCoordinator(config)
    pool = FailingPool(None, warm_call=True)
    opened(coordinator, config, pool)
    verdicts: list[Verdict] = []

    async def ask(task: Task, response: str) -> None:
        verdicts.append(await coordinator.judge(task.task_id, response))

    async with anyio.create_task_group() as group:
        for response in ("one", "one", "two", "three"):
            group.start_soon(ask, tasks[0], response)
        group.start_soon(ask, tasks[1], "one")
        await anyio.wait_all_tasks_blocked()
        assert sorted(pool.asked) == sorted(
            [(tasks[0].task_id, "one"), (tasks[1].task_id, "one")]
        )
        pool.gate.set()
    assert len(pool.asked) == 4
    assert len({verdict.judgement for verdict in verdicts}) == 4


async def test_a_coordinator_without_tasks_says_so_when_it_opens(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    coordinator = JudgeCoordinator(make_config(data={"train": tmp_path / "no.jsonl"}))

    with pytest.raises(TrainConfigError, match="no task file"):
        await coordinator.open()


async def test_the_coordinator_remembers_little(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    coordinator = JudgeCoordinator(make_config())
    await coordinator.open()
    side = coordinator._opened
    assert side is not None
    for step in range(1, 4):
        judgements = await judged(coordinator, tasks, [0])
        await coordinator.judge(
            tasks[1].task_id, f"fn_1 of an engine that died in step {step}"
        )
        await coordinator.credit(step, judgements, SIZES_OF_ONE)
    assert len(side._recent) + len(side._previous) <= 2
    statistics = side.pool.statistics()
    assert statistics.by_outcome == {Outcome.SCORED: 15}
    assert statistics.from_ledger == 8
    assert (side.take_restarts(), side._ledger.unwritten) == (0, 0)
    await coordinator.aclose()


class FailingPool:
    """Answers with one reason, or full marks without one, once the gate is open."""

    def __init__(self, reason: Reason | None, *, warm_call: bool = False) -> None:
        self._reason = reason
        self.fingerprint = "stand-in"
        self.warm_call = warm_call
        self.gate = anyio.Event()
        if not warm_call:
            self.gate.set()
        self.asked: list[tuple[str, str]] = []
        self.checks: list[bool] = []
        """Whether each check in turn fails."""

    async def judge_all(
        self, views: Sequence[JudgeView], *, deadline_s: float | None = None
    ) -> list[JudgeResult]:
        del deadline_s
        (view,) = views
        self.asked.append((view.task_id, view.response))
        await self.gate.wait()
        if self._reason is not None:
            return [JudgeResult.unavailable(self._reason)]
        scores = {criterion.id: criterion.weight for criterion in view.rubric}
        return [JudgeResult.scored(view.rubric, scores, judge="stand-in")]

    async def check(self) -> list[JudgeSetupError]:
        if self.checks.pop(0):
            raise JudgeSetupError("nobody there")
        return []

    def statistics(self) -> Any:
        raise NotImplementedError

    async def aclose(self) -> None:
        return


def opened(
    coordinator: JudgeCoordinator, config: TrainConfig, pool: FailingPool
) -> JudgeSide:
    """Give a coordinator a judge that can be told to fail."""
    coordinator._opened = side = JudgeSide(config)
    side.pool = pool
    return side
