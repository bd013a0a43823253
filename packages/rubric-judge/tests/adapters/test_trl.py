"""The reward for TRL: called as `GRPOTrainer` calls it, and by `GRPOTrainer`."""

import asyncio
import inspect
import json
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from rubric_core import (
    ConfigError,
    JudgeResult,
    JudgeView,
    Reason,
    RewardShapeError,
    Task,
)
from rubric_judge import LexicalJudge
from rubric_judge.adapters.trl import RewardFunction, rubric_reward
from rubric_judge.testing import FailingJudge, ScriptedJudge

THOUGHTLESS = dict.fromkeys(
    ("rubric/thought", "rubric/unclosed_thought", "rubric/empty_answer"), 0.0
)


def called(
    reward: RewardFunction, completions: list[Any], **columns: Any
) -> list[float | None]:
    """Call a reward as TRL does, with all that it passes."""
    return asyncio.run(
        reward(
            prompts=["Which loss is minimised?"] * len(completions),
            completions=completions,
            completion_ids=[[0]] * len(completions),
            trainer_state=None,
            **{"log_extra": lambda *_: None, "log_metric": lambda *_: None, **columns},
        )
    )


def test_texts_and_messages_are_judged_alike(
    tasks: dict[str, Task], task: Task
) -> None:
    reward = rubric_reward(judge=LexicalJudge(), tasks=tasks)
    text = "The model minimises the cross entropy."
    ids = [task.task_id] * 2

    texts = called(reward, [text, ""], task_id=ids)
    chats = called(
        reward, [[{"role": "assistant", "content": t}] for t in (text, "")], task_id=ids
    )

    assert texts == chats == [0.75, 0.0]


def test_columns_may_hold_the_rubric(row: dict[str, Any]) -> None:
    reward = rubric_reward(judge=LexicalJudge())
    columns = {name: [value] * 2 for name, value in row.items()}

    assert called(reward, ["It is the cross entropy here.", "No."], **columns) == [
        0.75,
        0.0,
    ]


def test_columns_may_be_those_of_a_task_file(task: Task) -> None:
    reward = rubric_reward(judge=LexicalJudge())
    line = task.to_json(reveal_grounding=True)
    columns: dict[str, Any] = {name: [value] * 2 for name, value in line.items()}

    assert called(reward, ["It is the cross entropy here.", "No."], **columns) == [
        0.75,
        0.0,
    ]


def test_an_unavailable_judgement_is_none_and_an_invalid_one_0(
    tasks: dict[str, Task], task: Task
) -> None:
    def script(view: JudgeView) -> JudgeResult | float:
        match view.response:
            case "lost":
                return JudgeResult.unavailable(Reason.RATE_LIMITED)
            case "prose":
                return JudgeResult.invalid(Reason.NOT_JSON)
            case _:
                return 0.5

    logged: dict[str, float] = {}
    reward = rubric_reward(judge=ScriptedJudge(script), tasks=tasks)

    rewards = called(
        reward,
        ["fine", "lost", "prose", "fine"],
        task_id=[task.task_id] * 4,
        log_metric=logged.__setitem__,
    )

    assert rewards == [0.5, None, 0.0, 0.5]
    assert logged == {
        **THOUGHTLESS,
        "rubric/invalid": 0.25,
        "rubric/unavailable": 0.25,
        "rubric/score": pytest.approx(1 / 3),
        "rubric/loss": 0.5,
        "rubric/target": 0.5,
    }


def test_the_log_gets_one_record_a_response_where_asked_for(
    tasks: dict[str, Task], task: Task
) -> None:
    columns: dict[str, list[str]] = {}
    judge = ScriptedJudge(
        lambda view: (
            0.5 if view.response == "fine" else JudgeResult.invalid(Reason.NOT_JSON)
        )
    )
    given = {"task_id": [task.task_id] * 2, "log_extra": columns.__setitem__}

    called(rubric_reward(judge=judge, tasks=tasks), ["fine", "prose"], **given)
    assert columns == {}
    reward = rubric_reward(judge=judge, tasks=tasks, name="style", log_judgements=True)
    called(reward, ["fine", "prose"], **given)

    shares = {"loss": 0.75, "target": 0.25}
    known = {"task_id": task.task_id, "shares": shares}
    assert list(columns) == ["style/judgement"]
    assert [json.loads(text) for text in columns["style/judgement"]] == [
        {**known, "outcome": "scored", "z": {"loss": 0.5, "target": 0.5}},
        {**known, "outcome": "invalid"},
    ]


def test_a_batch_that_was_not_judged_at_all_logs_no_score(
    tasks: dict[str, Task], task: Task
) -> None:
    logged: dict[str, float] = {}
    reward = rubric_reward(judge=FailingJudge(), tasks=tasks)

    called(
        reward, ["a", "b"], task_id=[task.task_id] * 2, log_metric=logged.__setitem__
    )

    assert logged == {**THOUGHTLESS, "rubric/invalid": 0.0, "rubric/unavailable": 1.0}
    assert called(reward, [], task_id=[], log_metric=logged.__setitem__) == []


@pytest.mark.parametrize(
    "column", [["x"], ["x"] * 3, "xy"], ids=["short", "long", "text"]
)
def test_a_column_of_another_length_is_refused(
    column: Any, tasks: dict[str, Task]
) -> None:
    reward = rubric_reward(judge=LexicalJudge(), tasks=tasks)

    with pytest.raises(RewardShapeError, match="2 completions, but 'task_id'"):
        called(reward, ["a", "b"], task_id=column)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            {"id": ["x"], "level": [1]},
            "only 'id', 'level': did you mean 'task_id' by 'id'",
        ),
        ({}, "nor any other: .*TRL drops the columns under remove_unused_columns=True"),
    ],
)
def test_rows_without_a_column_for_the_task_are_told_which_there_are(
    columns: dict[str, Any], told: str, tasks: dict[str, Task]
) -> None:
    with pytest.raises(ConfigError, match=f"'rubric' or 'criteria', {told}"):
        called(rubric_reward(judge=LexicalJudge(), tasks=tasks), ["a"], **columns)


@pytest.mark.parametrize(
    ("installed", "policy"),
    [
        ("0.29.1", "zero"),
        ("1.5.1", "raise"),
        ("1.6.0.dev0", "mask"),
        ("1.16.0", "mask"),
    ],
)
def test_a_trl_that_counts_a_missing_reward_as_0_does_not_mask(
    installed: str, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rubric_judge.adapters.trl.version", lambda _: installed)

    rubric_reward(judge=LexicalJudge(), on_unavailable=policy)
    told = pytest.raises(
        ConfigError, match=rf"TRL {installed} counts .* install trl>=1\.6"
    )
    with nullcontext() if policy == "mask" else told:
        rubric_reward(judge=LexicalJudge())


def test_help_shows_the_options_with_their_defaults() -> None:
    shown = str(inspect.signature(rubric_reward))

    assert shown.startswith(
        "(*, judge, tasks=None, workers=32, on_unavailable='mask', ledger=None"
    )


def test_a_reward_that_was_not_made_says_how_to_make_it() -> None:
    with pytest.raises(
        ConfigError, match=r"^`rubric_reward.*makes the reward.*: call it"
    ):
        rubric_reward(prompts=["a"], completions=["b"], task_id=["c"])  # pyright: ignore[reportCallIssue]
    with pytest.raises(ConfigError, match=r'such as `judge="judge\.yaml"`$'):
        rubric_reward()  # pyright: ignore[reportCallIssue]


def test_every_release_of_trl_sees_a_coroutine_function_with_a_name() -> None:
    reward = rubric_reward(judge=LexicalJudge())

    assert inspect.iscoroutinefunction(reward)
    assert reward.__name__ == "rubric_reward"


def test_the_reward_can_be_sent_to_another_process_and_keeps_its_name(
    judge_file: str, tasks_file: str, task: Task
) -> None:
    reward = rubric_reward(judge=judge_file, tasks=[tasks_file], name="style")
    logged: dict[str, float] = {}

    copy = pickle.loads(pickle.dumps(reward))
    columns = {"task_id": [task.task_id], "log_metric": logged.__setitem__}

    assert called(copy, ["It is the cross entropy."], **columns) == [0.75]
    assert inspect.ismethod(copy)  # TRL looks into a partial for its name
    assert inspect.iscoroutinefunction(copy)
    assert copy.__name__ == "style"
    criteria = {"style/loss", "style/target"}
    shares = {"style/score", "style/invalid", "style/unavailable"}
    assert logged.keys() == {
        *shares,
        *criteria,
        *(n.replace("rubric", "style") for n in THOUGHTLESS),
    }


def test_a_wrong_judge_file_fails_when_the_reward_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"judge\.yaml"):
        rubric_reward(judge=tmp_path / "judge.yaml")


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_trl_trains_on_and_leaves_out_what_was_not_judged(
    trainer: Callable[..., Any], tasks: dict[str, Task], task: Task
) -> None:
    calls = 0

    def flaky(view: JudgeView) -> JudgeResult | float:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            return JudgeResult.unavailable(Reason.TIMEOUT)
        return view.response.count("a") / (len(view.response) + 1)

    reward = rubric_reward(judge=ScriptedJudge(flaky), tasks=tasks)
    rows = [{"prompt": task.question, "task_id": task.task_id}] * 8
    trained = trainer(reward, rows)

    trained.train()

    steps = [entry for entry in trained.state.log_history if "reward" in entry]
    assert len(steps) == trained.state.global_step == 8
    assert calls == 8 * 8
    assert sum(step["rubric/unavailable"] for step in steps) == pytest.approx(
        (64 // 3) / 8
    )
    assert {step["rubric/invalid"] for step in steps} == {0.0}
    assert all(
        step["rewards/rubric_reward/mean"] == step["reward"] >= 0 for step in steps
    )
    assert steps[0]["rubric/score"] == pytest.approx(steps[0]["reward"], abs=1e-6)
    assert steps[0]["rubric/loss"] == pytest.approx(steps[0]["reward"], abs=1e-6)


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_trl_trains_on_when_no_judgement_happens_at_all(
    trainer: Callable[..., Any], row: dict[str, Any]
) -> None:
    rows = [
        {"prompt": row["question"], "rubric": row["rubric"], "passage": row["passage"]}
    ] * 8
    judge = FailingJudge(RuntimeError("down"))
    trained = trainer(rubric_reward(judge=judge, name="style"), rows)

    trained.train()

    steps = [entry for entry in trained.state.log_history if "loss" in entry]
    assert len(steps) == 8
    assert judge.calls == 8 * 8
    assert {step["loss"] for step in steps} == {0.0}
    assert {step["style/unavailable"] for step in steps} == {1.0}
    assert all("rewards/style/mean" in step for step in steps)
