"""The environment for NeMo-RL, on a base class with the interface of its snapshot 7ea279abf."""

import abc
import inspect
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from rubric_core import ConfigError, JudgeResult, MissingExtraError, Reason, Task
from rubric_judge.adapters import nemo_rl
from rubric_judge.testing import ScriptedJudge

torch: Any = pytest.importorskip("torch")


class EnvironmentReturn(NamedTuple):
    observations: list[dict[str, str]]
    metadata: list[Any]
    next_stop_strings: list[Any]
    rewards: Any
    terminateds: Any
    answers: list[str | None] | None


class EnvironmentInterface(abc.ABC):
    @abc.abstractmethod
    def step(
        self, message_log_batch: list[Any], metadata: list[Any]
    ) -> EnvironmentReturn: ...

    @abc.abstractmethod
    def global_post_process_and_metrics(
        self, batch: Any
    ) -> tuple[Any, dict[str, Any]]: ...


def modules(registries: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The modules of NeMo-RL that the adapter reads, with what it reads of them."""

    def register_env(env_name: str, actor_class_fqn: str) -> None:
        if env_name in registries["environments"]:
            raise ValueError(f"Env name {env_name} already registered")
        registries["environments"][env_name] = {"actor_class_fqn": actor_class_fqn}

    return {
        "nemo_rl": {},
        "nemo_rl.environments": {},
        "nemo_rl.environments.interfaces": {
            "EnvironmentInterface": EnvironmentInterface,
            "EnvironmentReturn": EnvironmentReturn,
        },
        "nemo_rl.environments.utils": {"register_env": register_env},
        "nemo_rl.distributed": {},
        "nemo_rl.distributed.virtual_cluster": {
            "PY_EXECUTABLES": SimpleNamespace(SYSTEM="/usr/bin/python")
        },
        "nemo_rl.distributed.ray_actor_environment_registry": {
            "ACTOR_ENVIRONMENT_REGISTRY": registries["actors"]
        },
    }


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The stack, and its two registries."""
    registries: dict[str, Any] = {"environments": {}, "actors": {}}
    for name, values in modules(registries).items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    nemo_rl.environment_class.cache_clear()
    yield registries
    nemo_rl.environment_class.cache_clear()


def log(response: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": "Which loss is minimised?"},
        {"role": "assistant", "content": response},
    ]


@pytest.mark.usefixtures("stack")
def test_a_step_rewards_each_log_and_ends_it(
    judge_file: str, tasks_file: str, task: Task, row: dict[str, Any]
) -> None:
    environment = nemo_rl.environment_class()(
        {"judge": judge_file, "tasks": tasks_file}
    )
    metadata = [{"task_id": task.task_id}, {"task_id": task.task_id}, row]

    found = environment.step(
        [
            log("It is the cross entropy."),
            log("No idea."),
            log("It is the cross entropy."),
        ],
        metadata,
    )

    assert isinstance(found, EnvironmentReturn)
    torch.testing.assert_close(found.rewards, torch.tensor([0.75, 0.0, 0.75]))
    assert found.terminateds.tolist() == [True] * 3
    assert found.metadata == metadata
    assert found.answers == [
        "It is the cross entropy.",
        "No idea.",
        "It is the cross entropy.",
    ]
    assert [one["role"] for one in found.observations] == ["environment"] * 3
    assert found.next_stop_strings == [None] * 3


@pytest.mark.usefixtures("stack")
def test_the_metrics_are_of_what_was_judged_since_the_last(
    tasks_file: str, task: Task
) -> None:
    answers = {"lost": JudgeResult.unavailable(Reason.TIMEOUT), "fine": 1.0}
    settings = {
        "judge": ScriptedJudge(lambda view: answers[view.response]),
        "tasks": tasks_file,
    }
    environment = nemo_rl.environment_class()(settings)
    metadata = [{"task_id": task.task_id}] * 2

    rewards = environment.step([log("lost"), log("fine")], metadata).rewards
    batch, metrics = environment.global_post_process_and_metrics({"a": 1})

    assert rewards.tolist() == [0.0, 1.0]
    assert batch == {"a": 1}
    shares = {"rubric/score": 0.5, "rubric/invalid": 0.0, "rubric/unavailable": 0.5}
    assert shares.items() <= metrics.items()
    assert metrics["rubric/thought"] == metrics["rubric/empty_answer"] == 0.0
    assert environment.global_post_process_and_metrics({})[1] == {}


@pytest.mark.usefixtures("stack")
def test_settings_that_cannot_work_fail_when_the_actor_starts(judge_file: str) -> None:
    make = nemo_rl.environment_class()

    with pytest.raises(ConfigError, match="'zero' or 'raise'"):
        make({"judge": judge_file, "on_unavailable": "mask"})
    with pytest.raises(ConfigError, match="judge: is missing"):
        make({})
    with pytest.raises(ConfigError, match="did you mean 'tasks'"):
        make({"judge": judge_file, "taks": "t.jsonl"})


def test_it_is_registered_by_the_name_that_its_actor_is_found_by(
    stack: dict[str, Any],
) -> None:
    nemo_rl.register()

    actor = "rubric_judge.adapters.nemo_rl.RubricEnvironment"
    assert stack["environments"] == {"rubric": {"actor_class_fqn": actor}}
    assert stack["actors"] == {actor: "/usr/bin/python"}
    with pytest.raises(ValueError, match="already registered"):
        nemo_rl.register()


@pytest.mark.usefixtures("stack")
def test_the_actor_is_a_ray_class_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remote: dict[str, Any] = {}

    def decorate(**options: Any) -> Any:
        return lambda cls: (remote.update(options, cls=cls), cls)[1]

    ray = ModuleType("ray")
    vars(ray)["remote"] = decorate
    monkeypatch.setitem(sys.modules, "ray", ray)
    nemo_rl._actor_class.cache_clear()

    actor = nemo_rl.RubricEnvironment
    nemo_rl._actor_class.cache_clear()

    assert actor is remote["cls"] is nemo_rl.environment_class()
    assert remote["max_concurrency"] > 100


def test_without_the_stack_it_says_what_to_install() -> None:
    nemo_rl.environment_class.cache_clear()

    with pytest.raises(MissingExtraError, match="nemo"):
        nemo_rl.environment_class()
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        nemo_rl.Other  # noqa: B018


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_actor_runs_on_ray(
    judge_file: str, tasks_file: str, task: Task, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    interfaces = tmp_path / "nemo_rl" / "environments" / "interfaces.py"
    interfaces.parent.mkdir(parents=True)
    interfaces.write_text(
        "import abc\nfrom typing import Any, NamedTuple\n\n\n"
        + inspect.getsource(EnvironmentReturn)
        + inspect.getsource(EnvironmentInterface)
    )
    script = textwrap.dedent("""
        import json, sys
        import ray
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        from rubric_judge.adapters import nemo_rl
        # As NeMo-RL finds an actor: the module, then the attribute.
        actor = getattr(nemo_rl, "RubricEnvironment")
        judge, tasks, task_id = sys.argv[1:]
        environment = actor.options(num_cpus=0).remote({"judge": judge, "tasks": tasks})
        log = [{"role": "assistant", "content": "It is the cross entropy."}]
        steps = [environment.step.remote([log] * 2, [{"task_id": task_id}] * 2) for _ in range(3)]
        rewards = [step.rewards.tolist() for step in ray.get(steps, timeout=600)]
        metrics = ray.get(environment.global_post_process_and_metrics.remote({}), timeout=600)[1]
        print(json.dumps([rewards, metrics["rubric/score"]]))
    """)

    done = subprocess.run(
        [sys.executable, "-c", script, judge_file, tasks_file, task.task_id],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},  # noqa: TID251  # Ray's workers read it
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[[0.75, 0.75]] * 3, 0.75]
