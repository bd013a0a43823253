"""The environment for SkyRL: on its own base class where that is installed."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

from rubric_core import ConfigError, JudgeResult, MissingExtraError, Reason, Task
from rubric_judge.adapters import skyrl
from rubric_judge.testing import ScriptedJudge

CHAT = [{"role": "user", "content": "Which loss is minimised?"}]


class BaseTextEnv:
    """What the adapter uses of `skyrl_gym.envs.base_text_env.BaseTextEnv`."""

    def __init__(self) -> None:
        self.turns = 0
        self.max_turns = 1

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        return prompt, {}


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("skyrl_gym", "skyrl_gym.envs", "skyrl_gym.envs.base_text_env"):
        module = ModuleType(name)
        vars(module)["BaseTextEnv"] = BaseTextEnv
        monkeypatch.setitem(sys.modules, name, module)
    skyrl.env_class.cache_clear()
    yield
    skyrl.env_class.cache_clear()


@pytest.mark.usefixtures("stack")
def test_one_turn_is_judged_and_ends_the_episode(
    judge_file: str, tasks_file: str, task: Task, row: dict[str, Any]
) -> None:
    files = {"judge": judge_file, "tasks": tasks_file}
    for extras in (
        {"task_id": task.task_id},
        {"reward_spec": {"method": "rubric", "ground_truth": task.task_id}},
        {"extra_info": row, "reward_spec": None},
        row,
    ):
        environment = skyrl.RubricEnv(env_config={"workers": 2}, extras=extras, **files)

        assert environment.init(CHAT) == (CHAT, {})
        step = environment.step("It is the cross entropy.")

        assert (step["observations"], step["reward"], step["done"]) == ([], 0.75, True)
        assert environment.get_metrics() == step["metadata"]
        assert step["metadata"]["rubric/loss"] == 1.0


@pytest.mark.usefixtures("stack")
def test_the_prompt_is_the_question_of_a_row_without_one(row: dict[str, Any]) -> None:
    judge = ScriptedJudge()
    environment = skyrl.RubricEnv(extras={"rubric": row["rubric"]}, judge=judge)

    environment.init(CHAT)
    environment.step("y")

    assert judge.calls[0].question == "Which loss is minimised?"


@pytest.mark.usefixtures("stack")
def test_environments_of_a_process_share_one_pool(tasks_file: str, task: Task) -> None:
    judge = ScriptedJudge(JudgeResult.unavailable(Reason.TIMEOUT))
    settings = {"judge": judge, "tasks": tasks_file, "workers": 1}
    extras = {"task_id": task.task_id}
    environments = [skyrl.RubricEnv(extras=extras, **settings) for _ in range(16)]

    with ThreadPoolExecutor(16) as threads:
        steps = list(threads.map(lambda one: one.step("y"), environments))

    assert {step["reward"] for step in steps} == {0.0}
    assert {step["metadata"]["rubric/unavailable"] for step in steps} == {1.0}
    assert judge.peak_in_flight <= 4


class _Hooked:
    """A trainer with the hooks of `skyrl_advantages.register`."""

    def hooked(self) -> None:
        """Stand for a method of the trainer."""

    vars()["hooked"].rubric_hook = True
    convert_to_training_input = hooked
    compute_advantages_and_returns = hooked


@pytest.mark.usefixtures("stack")
def test_an_episode_without_a_judgement_is_told_where_the_trainer_leaves_it_out(
    tasks_file: str, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = ScriptedJudge(JudgeResult.unavailable(Reason.TIMEOUT))
    files = {"judge": judge, "tasks": tasks_file, "extras": {"task_id": task.task_id}}
    with pytest.raises(ConfigError, match=r"skyrl_advantages\.register\(\)"):
        skyrl.RubricEnv(on_unavailable="mask", **files)
    plain = skyrl.RubricEnv(**files).step("y")
    module = ModuleType(skyrl.TRAINER)
    vars(module)["RayPPOTrainer"] = _Hooked
    monkeypatch.setitem(sys.modules, skyrl.TRAINER, module)
    monkeypatch.setattr(skyrl, "leaves_out", threading.Event())

    zero = skyrl.RubricEnv(on_unavailable="zero", **files).step("y")
    assert not skyrl.leaves_out.is_set()
    masked = skyrl.RubricEnv(**files).step("y")

    assert skyrl.leaves_out.is_set()
    assert [step["reward"] for step in (plain, zero, masked)] == [0.0] * 3
    assert plain["metadata"] == zero["metadata"]
    assert masked["metadata"] == {**plain["metadata"], skyrl.LEFT_OUT: 1.0}


@pytest.mark.usefixtures("stack")
def test_a_misspelt_setting_fails_when_the_environment_is_made(judge_file: str) -> None:
    with pytest.raises(ConfigError, match="did you mean 'workers'"):
        skyrl.RubricEnv(env_config={"worker": 2}, judge=judge_file)


def test_without_the_stack_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "skyrl_gym", None)
    skyrl.env_class.cache_clear()

    with pytest.raises(MissingExtraError, match="pip install skyrl-gym"):
        skyrl.RubricEnv  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        skyrl.Other  # noqa: B018


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_skyrl_makes_the_environment_by_name(
    judge_file: str, tasks_file: str, task: Task
) -> None:
    gym = pytest.importorskip("skyrl_gym")
    metrics = pytest.importorskip("skyrl_gym.metrics")
    registration = pytest.importorskip("skyrl_gym.envs.registration")
    skyrl.env_class.cache_clear()
    gym.register(
        id="rubric",
        entry_point="rubric_judge.adapters.skyrl:RubricEnv",
        kwargs={"judge": judge_file, "tasks": tasks_file},
    )
    try:
        episodes = []
        for text in ("It is the cross entropy.", "No idea."):
            made = gym.make("rubric", env_config={}, extras={"task_id": task.task_id})
            made.init(CHAT)
            episodes.append((made.step(text)["reward"], made.get_metrics()))
            made.close()
        averaged = metrics.aggregate_for_environment(
            "rubric", [one for _, one in episodes]
        )
    finally:
        registration.deregister("rubric")

    assert [reward for reward, _ in episodes] == [0.75, 0.0]
    assert averaged["rubric/score"] == 0.375
