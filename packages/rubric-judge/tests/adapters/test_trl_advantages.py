"""The trainer for TRL whose advantages are by criterion: two real steps under ragged rubrics."""

import sys
import zlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    MissingExtraError,
    Reason,
    RewardShapeError,
    Rubric,
    Task,
)
from rubric_core.reward.advantage import group_advantages
from rubric_core.reward.attribution import decoupled_advantages
from rubric_core.reward.projection import criterion_scores_z
from rubric_judge.adapters import advantages, trl_advantages
from rubric_judge.adapters.trl import rubric_reward
from rubric_judge.testing import ScriptedJudge

WEIGHTS = ([3.0, 1.0], [1.0, 1.0, 4.0], [2.0], [5.0, 1.0, 1.0, 0.0])
GROUP = 4


def ragged() -> list[Task]:
    """Tasks of one to four criteria with names of their own; one has no weight."""
    return [
        Task(
            question=f"Question {number}?",
            grounding=Grounding(f"Passage {number}."),
            rubric=Rubric(
                criteria=[
                    Criterion(id=f"q{number}.c{j}", weight=weight)
                    for j, weight in enumerate(weights)
                ]
            ),
        )
        for number, weights in enumerate(WEIGHTS)
    ]


def scores(view: JudgeView) -> JudgeResult:
    """Scores that depend on the answer and the criterion; some answers are not judged."""
    draw = zlib.crc32(view.response.encode())
    if draw % 7 == 0:
        return JudgeResult.unavailable(Reason.TIMEOUT)
    if draw % 7 == 1:
        return JudgeResult.invalid(Reason.NOT_JSON)
    found = {
        one.id: one.weight * (zlib.crc32((view.response + one.id).encode()) % 3) / 2
        for one in view.rubric
    }
    return JudgeResult.scored(view.rubric, found, judge="scripted")


def expected(views: list[JudgeView], kind: str) -> list[float]:
    """Advantages of groups that follow each other, by the core's own functions."""
    prompts = len(views) // GROUP
    z_PGM = np.full((prompts, GROUP, 4), np.nan)
    weights_PM = np.zeros((prompts, 4))
    valid_PG = np.zeros((prompts, GROUP), dtype=bool)
    for row, view in enumerate(views):
        p, g = divmod(row, GROUP)
        weights = view.rubric.weights_M
        weights_PM[p, : len(weights)] = weights
        result = scores(view)
        if result.outcome != "unavailable":
            z_PGM[p, g, : len(weights)] = criterion_scores_z(result, view.rubric)
            valid_PG[p, g] = True
    if kind == "decoupled":
        return (
            decoupled_advantages(z_PGM, weights_PM, valid_PG=valid_PG).ravel().tolist()
        )
    alpha_PM = weights_PM / weights_PM.sum(axis=1, keepdims=True)
    rewards_PG = (np.nan_to_num(z_PGM) * alpha_PM[:, None, :]).sum(axis=2)
    std = "none" if kind == "undivided" else "sample"
    return (
        group_advantages(rewards_PG, std=std, valid_PG=valid_PG).ravel().tolist()  # pyright: ignore[reportArgumentType]
    )


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["decoupled", "group", "undivided"])
def test_two_steps_train_on_our_advantages_under_rubrics_of_unlike_length(
    kind: str, trainer: Callable[..., Any]
) -> None:
    pytest.importorskip("trl")
    from rubric_judge.adapters.trl_advantages import RubricGRPOTrainer

    tasks = ragged()
    by_id = {task.task_id: task for task in tasks}
    judge = ScriptedJudge(scores)
    made: list[tuple[list[float], list[float]]] = []
    used: list[float] = []

    class Watched(RubricGRPOTrainer):
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            texts = self.processing_class.batch_decode(
                output["completion_ids"], skip_special_tokens=True
            )
            views = [
                JudgeView(
                    task_id=row["task_id"],
                    question=by_id[row["task_id"]].question,
                    grounding=Grounding("g"),
                    response=text,
                    rubric=by_id[row["task_id"]].rubric,
                )
                for row, text in zip(inputs, texts, strict=True)
            ]
            made.append(
                (
                    output["advantages"].tolist(),
                    expected(views, "group" if kind == "group" else kind),
                )
            )
            return output

        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            used.extend(inputs["advantages"].tolist())
            return super()._compute_loss(model, inputs)

    rows = [{"prompt": task.question, "task_id": task.task_id} for task in tasks]
    trained = trainer(
        rubric_reward(judge=judge, tasks=tasks),
        rows,
        partial(Watched, advantage="decoupled" if kind == "decoupled" else "group"),
        per_device_train_batch_size=len(tasks) * GROUP,
        max_steps=2,
        scale_rewards="none" if kind == "undivided" else "group",
    )
    before = [one.detach().clone() for one in trained.model.parameters()]

    trained.train()

    assert trained.state.global_step == len(made) == 2
    for found, wanted in made:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
        assert any(found)
    # TRL shuffles what it trains on; the table of completions shows the same.
    assert sorted(used) == sorted(value for found, _ in made for value in found)
    assert list(trained._logs["advantages"]) == pytest.approx(made[-1][0], abs=1e-6)
    assert any(
        (one.detach() != old).any()
        for one, old in zip(trained.model.parameters(), before, strict=True)
    )
    outcomes = [scores(view).outcome for view in judge.calls]
    assert {"unavailable", "invalid", "scored"} == {str(one) for one in outcomes}


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_an_evaluation_of_one_answer_each_has_nothing_to_compare(
    trainer: Callable[..., Any],
) -> None:
    datasets = pytest.importorskip("datasets")
    tasks = ragged()
    rows = [{"prompt": task.question, "task_id": task.task_id} for task in tasks]
    trained = trainer(
        rubric_reward(judge=ScriptedJudge(0.5), tasks=tasks),
        rows,
        trl_advantages.trainer_class(),
        num_generations_eval=1,
        per_device_eval_batch_size=4,
    )

    metrics = trained.evaluate(datasets.Dataset.from_list(rows))

    assert metrics["eval_reward"] == 0.5


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_rewards_and_settings_without_effect_are_refused(
    trainer: Callable[..., Any],
) -> None:
    tasks = ragged()
    rows = [{"prompt": task.question, "task_id": task.task_id} for task in tasks]
    kind = trl_advantages.trainer_class()

    def other(completions: list[str], **_: Any) -> list[float]:
        return [0.0] * len(completions)

    judge = ScriptedJudge(0.5)
    for reward in (
        other,
        [rubric_reward(judge=judge, tasks=tasks), other],
        rubric_reward(judge=judge, tasks=tasks, beside=[(other, 1.0)]),
    ):
        with pytest.raises(
            ConfigError, match=r"without `beside`.*criteria of the rubr"
        ):
            trainer(reward, rows, kind)
    with pytest.raises(ConfigError, match=r"scale_rewards='batch' is TRL's own"):
        trainer(
            rubric_reward(judge=judge, tasks=tasks),
            rows,
            partial(kind, advantage="group"),
            scale_rewards="batch",
        )
    with pytest.raises(ConfigError, match="decoupled"):
        trainer(
            rubric_reward(judge=judge, tasks=tasks),
            rows,
            partial(kind, advantage="decouple"),
        )


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_judgements_of_other_rows_are_refused(trainer: Callable[..., Any]) -> None:
    tasks = ragged()
    rows = [{"prompt": task.question, "task_id": task.task_id} for task in tasks]

    class Forgetful(trl_advantages.trainer_class()):
        def take_judgements(self, records: Any) -> None:
            super().take_judgements(records[:-1])

    reward = rubric_reward(judge=ScriptedJudge(0.5), tasks=tasks)
    trained = trainer(reward, rows, Forgetful)

    with pytest.raises(RewardShapeError, match="8 completions and the judgements of 7"):
        trained.train()


@pytest.mark.stacks
def test_another_release_of_trl_is_refused_by_both_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("trl")
    trl_advantages.trainer_class.cache_clear()
    monkeypatch.setattr(advantages, "version", lambda _: "1.17.0")

    with pytest.raises(ConfigError, match=r"trl 1\.17\.0: .* trl 1\.16"):
        trl_advantages.trainer_class()


def test_without_trl_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)
    trl_advantages.trainer_class.cache_clear()

    with pytest.raises(MissingExtraError, match=r"pip install 'trl==1\.16"):
        trl_advantages.RubricGRPOTrainer  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        trl_advantages.Other  # noqa: B018


def test_a_log_that_holds_fewer_values_keeps_the_last() -> None:
    log = deque([0.0, 0.0, 0.0], maxlen=3)

    trl_advantages._replace_last(log, [1.0, 2.0])
    assert list(log) == [0.0, 1.0, 2.0]
    trl_advantages._replace_last(log, [1.0, 2.0, 3.0, 4.0])
    assert list(log) == [2.0, 3.0, 4.0]
