"""One exported folder, as it is, in the stacks that it was written for."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rubric_core import Task, read_tasks

ROOT = Path(__file__).resolve().parents[1]
TASK_ROWS = ROOT / "packages/rubric-synth/tests/export/conftest.py"
FALSE = "I do not know."

pytestmark = [pytest.mark.stacks, pytest.mark.filterwarnings("ignore")]


def loaded(path: Path, name: str) -> ModuleType:
    """Run a file as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def with_exit(call: Callable[[], object]) -> None:
    with pytest.raises(SystemExit) as ended:
        call()
    assert not ended.value.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The environment `my-docs`, for all targets; its module can be imported."""
    pytest.importorskip("rubric_synth")
    from rubric_synth.cli import main
    from rubric_synth.export.run import TARGETS

    made = loaded(TASK_ROWS, "rows_of_export")
    home = tmp_path_factory.mktemp("exported")
    dataset = made.written_dataset(home / "dataset")
    out = home / "my-docs"
    words = ["--to", *TARGETS, "--out", str(out)]
    with_exit(lambda: main(["export", str(dataset), *words]))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(out)
        yield out
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.fixture
def tasks(folder: Path) -> dict[str, Task]:
    """The exported tasks by id."""
    path = folder / "my_docs/judge/tasks.jsonl"
    return {task.task_id: task for task in read_tasks(path)}


@pytest.fixture
def script(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str], ModuleType]:
    """Load a file of the folder, in a working folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda name: loaded(folder / f"with_{name}.py", f"exported_with_{name}")


def test_trl_trains_two_steps(
    folder: Path, make_chat_model: Callable[..., Path], tmp_path: Path
) -> None:
    pytest.importorskip("trl")
    settings = {
        "model_name_or_path": make_chat_model(512),
        "output_dir": "out",
        "max_steps": 2,
        "num_generations": 2,
        "per_device_train_batch_size": 2,
        "max_completion_length": 8,
        "logging_steps": 1,
        "report_to": "none",
        "bf16": False,
        "use_cpu": True,
        "save_strategy": "steps",
        "save_steps": 2,
    }
    words = [word for key, value in settings.items() for word in (f"--{key}", value)]
    alone = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(folder / "with_trl.py"), *map(str, words)],
        cwd=tmp_path,
        env={**os.environ, **alone},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    (state,) = (tmp_path / "out").glob("checkpoint-2/trainer_state.json")
    steps = json.loads(state.read_text("utf-8"))["log_history"]
    assert [step["step"] for step in steps] == [1, 2]
    assert {step["rubric/unavailable"] for step in steps} == {0.0}


def test_verl_judges_the_rows(
    script: Callable[[str], ModuleType], tasks: dict[str, Task]
) -> None:
    pytest.importorskip("verl")
    from datasets import load_dataset
    from verl.trainer.ppo.reward import get_custom_reward_fn

    module = script("verl")
    count = module.write_rows()
    settings = dict(word.lstrip("+").split("=", 1) for word in module.settings(count))
    prefix = f"{module.REWARD}."
    named = {
        key.removeprefix(prefix): value.strip('"')
        for key, value in settings.items()
        if key.startswith(prefix)
    }
    kwargs = {
        key.removeprefix("reward_kwargs."): value
        for key, value in named.items()
        if key.startswith("reward_kwargs.")
    }
    from omegaconf import OmegaConf

    config = OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": {
                    "path": named["path"],
                    "name": named["name"],
                    "reward_kwargs": kwargs,
                }
            }
        }
    )
    score = get_custom_reward_fn(config)
    assert score is not None
    files = str(module.ROWS / "train.parquet")
    for row in load_dataset("parquet", data_files=files, split="train"):
        task = tasks[row["reward_model"]["ground_truth"]]
        for answer, reward in ((task.reference_answer, 1.0), (FALSE, 0.0)):
            found = score(
                data_source=row["data_source"],
                solution_str=answer,
                ground_truth=row["reward_model"]["ground_truth"],
                extra_info=row["extra_info"],
            )
            if asyncio.iscoroutine(found):
                found = asyncio.run(found)
            assert found["score"] == pytest.approx(reward)


def test_skyrl_steps_the_environment_of_each_row(
    script: Callable[[str], ModuleType], tasks: dict[str, Task]
) -> None:
    gym = pytest.importorskip("skyrl_gym")
    from datasets import load_dataset

    module = script("skyrl")
    module.write_rows()
    module.register()
    rows = load_dataset("parquet", data_files=str(module.ROWS), split="train")
    for row in rows:
        task = tasks[row["reward_spec"]["ground_truth"]]
        for answer, reward in ((task.reference_answer, 1.0), (FALSE, 0.0)):
            extras = {"reward_spec": row["reward_spec"]}
            made = gym.make(row["env_class"], env_config={}, extras=extras)
            made.init(row["prompt"])
            assert made.step(answer)["reward"] == pytest.approx(reward)


def test_the_functions_for_slime_judge_the_rows(
    script: Callable[[str], ModuleType], tasks: dict[str, Task]
) -> None:
    """By the interface that the adapter's own test has from snapshots: there is no wheel."""
    interface = ROOT / "packages/rubric-judge/tests/adapters/test_slime.py"
    stack = loaded(interface, "interface_of_slime")
    module = script("slime")
    module.write_rows()
    rows = map(json.loads, module.ROWS.read_text("utf-8").splitlines())
    for number, row in enumerate(rows):
        for answer, reward in ((tasks[row["label"]].reference_answer, 1.0), (FALSE, 0)):
            sample = stack.Sample(group_index=number, response=answer, **row)
            found = asyncio.run(module.reward(stack.arguments(), sample))
            assert found == pytest.approx(reward)


def test_inspect_ai_scores_an_evaluation(
    folder: Path, script: Callable[[str], ModuleType], tasks: dict[str, Task]
) -> None:
    pytest.importorskip("inspect_ai")
    from inspect_ai import eval as evaluate
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    answers = {task.question: task.reference_answer for task in tasks.values()}

    def answer(messages: Any, *_: object) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", answers[messages[-1].text])
        output.usage = ModelUsage()  # else it counts tokens by a table of the network
        return output

    model = get_model("mockllm/model", custom_outputs=answer)
    (log,) = evaluate(script("inspect_ai").rubric_eval(), model=model, display="none")

    assert log.status == "success", log.error
    assert [score.metrics["mean"].value for score in log.results.scores] == [1.0]
    assert folder.is_dir()


def test_verifiers_serves_and_scores_as_prime_rl_asks(
    folder: Path, tasks: dict[str, Task]
) -> None:
    """prime-rl 559b447 narrows the configuration, loads the taskset, and sends a task's data."""
    vf = pytest.importorskip("verifiers.v1")
    from verifiers.v1 import graph, trace, types
    from verifiers.v1.configs.cli.env import narrowed_env_annotation, resolve_env_field

    class Source(vf.BaseConfig):
        env: vf.EnvConfig = vf.SingleAgentEnvConfig()

    text = (folder / "with_prime_rl_evals.toml").read_text("utf-8")
    (source,) = tomllib.loads(text)["eval"]["source"]
    config = resolve_env_field(source, narrowed_env_annotation(Source))["env"]
    assert (config.agent.harness.id, config.agent.runtime.type) == (
        "null",
        "subprocess",
    )
    loaded_tasks = list(vf.load_taskset(config.taskset))
    env = vf.load_environment(config)
    kind = type(env.taskset).task_type()
    for one in loaded_tasks:
        wire = one.data.model_dump(mode="json")
        again = kind(kind.data_type().model_validate(wire), env.taskset.config.task)
        for answer, reward in (
            (tasks[one.data.id].reference_answer, 1.0),
            (FALSE, 0.0),
        ):
            reply = types.AssistantMessage(content=answer)
            rollout = vf.Trace(
                task=trace.TraceTask(type=kind.__name__, data=again.data),
                agent=trace.AgentInfo(config=vf.AgentConfig()),
                nodes=[graph.MessageNode(message=reply, sampled=True)],
            )
            asyncio.run(again.score(rollout))
            assert rollout.rewards["rubric"].score == pytest.approx(reward)
        assert "zq" not in json.dumps(wire)
    assert folder.is_dir()


def test_falsepass_finds_no_false_pass(folder: Path, tmp_path: Path) -> None:
    """By its adapter, which takes right and wrong answers from the fixtures."""
    pytest.importorskip("falsepass")
    pytest.importorskip("verifiers.v1")
    audit = tmp_path / "my-docs"
    audit.mkdir()
    adapter = (folder / "my_docs/judge/falsepass_adapter.py").read_text("utf-8")
    (audit / "adapter.py").write_text(adapter, encoding="utf-8")
    (audit / "env.toml").write_text(
        '[env]\nid = "local/my-docs"\npackage = "my-docs"\nversion = "0.1.0"\n'
        f'module = "my_docs"\nindex = ""\nverifiers = "0.4.0"\nsource = "{folder}"\n',
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "falsepass.runner", str(audit), "--package", "my-docs"],
        env={**os.environ, "PYTHONPATH": str(folder)},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    summary = (audit / "summary.md").read_text("utf-8")
    failed = [
        line
        for line in summary.splitlines()
        if line.startswith("| P") and line.split("|")[5].strip() not in ("0", "Failed")
    ]
    assert failed == []
