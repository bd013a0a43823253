"""Task folders for Harbor: each judges itself, and hides what an agent must not see."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Task, read_tasks
from rubric_core.formats import import_tasks
from rubric_synth.cli import main

Write = Callable[..., Path]

ASKS_MODELS = """\
type: panel
judges:
- type: llm
  model: openai/small
  api_key_env: SMALL_KEY
- type: llm
  model: openai/large
  api_key_env: LARGE_KEY
"""


def exported(dataset: Path, out: Path, *words: str) -> Path:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(dataset), "--to", "harbor", "--out", str(out), *words])
    assert not ended.value.code
    return out / "harbor"


@pytest.fixture
def folder(write_dataset: Write, tmp_path: Path) -> Path:
    return exported(write_dataset(), tmp_path / "my-docs", "--fixtures", "0")


def config_of(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "task.toml").read_text("utf-8"))


def verified(
    task: Path, logs: Path, answer: str | None
) -> subprocess.CompletedProcess[str]:
    """Run the verifier as its container does, on paths of this machine."""
    logs.mkdir()
    file = logs / "answer.md"
    if answer is not None:
        file.write_text(answer, encoding="utf-8")
    verify = [sys.executable, str(task / "tests/verify.py"), str(file), str(logs)]
    return subprocess.run(verify, capture_output=True, text=True, check=False)


def test_the_tasks_come_back_as_they_were(folder: Path, tasks: list[Task]) -> None:
    found = [one.task for one in import_tasks("harbor", folder)]

    assert set(found) == set(tasks)
    assert {path.name for path in folder.iterdir()} == {"train", "validation", "test"}


def test_the_answer_alone_passes_to_a_verifier_of_its_own(folder: Path) -> None:
    for task in folder.glob("*/*"):
        config = config_of(task)
        assert config["artifacts"] == ["/app/answer.md"]
        assert config["task"]["name"] == f"my-docs/{task.name}"
        assert config["verifier"]["environment_mode"] == "separate"
        assert config["verifier"]["environment"] == {"network_mode": "no-network"}
        assert "env" not in config["verifier"]
        # With a Dockerfile among them, the tests are never copied to the agent's container.
        assert "COPY . /tests/" in (task / "tests/Dockerfile").read_text("utf-8")
        assert [path.name for path in (task / "environment").iterdir()] == [
            "Dockerfile"
        ]
        (row,) = read_tasks(task / "tests/rubric_task.jsonl")
        instruction = (task / "instruction.md").read_text("utf-8")
        assert instruction.startswith(row.policy_view().message)
        assert "`/app/answer.md`" in instruction


def test_the_oracle_earns_all_and_silence_nothing(folder: Path, tmp_path: Path) -> None:
    task = next(folder.glob("test/*"))
    oracle = (task / "solution/answer.md").read_text("utf-8")
    rewards: list[dict[str, float]] = []
    for name, answer in (("oracle", oracle), ("nop", None)):
        done = verified(task, tmp_path / name, answer)
        assert done.returncode == 0, done.stderr
        rewards.append(json.loads((tmp_path / name / "reward.json").read_text()))

    keys = {"reward", *(f"rubric/definition_{number}" for number in (1, 2, 3))}
    assert [set(reward) for reward in rewards] == [keys, keys]
    assert [set(reward.values()) for reward in rewards] == [{1.0}, {0.0}]


def test_a_judge_that_is_not_there_leaves_no_reward(
    folder: Path, tmp_path: Path
) -> None:
    """Harbor then records a RewardFileNotFoundError, whose trials have no valid reward."""
    task = next(folder.glob("test/*"))
    (task / "tests/judge.yaml").write_text(
        "type: llm\nmodel: hosted_vllm/m\napi_base: http://127.0.0.1:9/v1\ntimeout_s: 1\n"
    )

    done = verified(task, tmp_path / "logs", "An answer.")

    assert done.returncode != 0
    assert "does not answer" in done.stderr
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["answer.md"]


def test_the_scripts_name_the_paths_of_the_containers(folder: Path) -> None:
    task = next(folder.glob("test/*"))

    test = (task / "tests/test.sh").read_text("utf-8")
    solve = (task / "solution/solve.sh").read_text("utf-8")

    assert (
        'exec python3 "$(dirname "$0")/verify.py" /app/answer.md /logs/verifier' in test
    )
    assert 'cp "$(dirname "$0")/answer.md" /app/answer.md' in solve


def test_a_model_as_a_judge_gets_its_keys_and_the_network(
    write_dataset: Write, tmp_path: Path
) -> None:
    judge = tmp_path / "models.yaml"
    judge.write_text(ASKS_MODELS)

    folder = exported(
        write_dataset(), tmp_path / "my-docs", "--judge", str(judge), "--fixtures", "0"
    )

    verifier = config_of(next(folder.glob("test/*")))["verifier"]
    assert verifier["environment"] == {"network_mode": "public"}
    assert verifier["env"] == {"LARGE_KEY": "${LARGE_KEY}", "SMALL_KEY": "${SMALL_KEY}"}
    dockerfile = next(folder.glob("test/*/tests/Dockerfile")).read_text("utf-8")
    assert "rubric-judge[litellm]==" in dockerfile


def test_more_files_than_may_be_open_are_written(
    write_dataset: Write, tasks: list[Task], tmp_path: Path
) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(list(Path("/proc/self/fd").iterdir())) + 40
    dataset = write_dataset()
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        folder = exported(dataset, tmp_path / "my-docs", "--fixtures", "0")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 10 * len(tasks) > 40


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_harbor_itself_takes_the_tasks(folder: Path) -> None:
    """By harbor 0.26.0, where it is installed: it asks for Python 3.12."""
    harbor = pytest.importorskip("harbor.models.task.task")
    lint = pytest.importorskip("harbor.lint.task")
    rules = pytest.importorskip("harbor.lint.models").DEFAULT_RULES

    for path in folder.glob("*/*"):
        assert harbor.Task.is_valid_dir(path)
        assert harbor.Task(path).name == f"my-docs/{path.name}"
        assert [one for one in lint.lint_task(path) if one.rule in rules] == []
