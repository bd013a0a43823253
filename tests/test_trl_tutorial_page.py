"""What the tutorial on TRL's reward shows, run as TRL calls it."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rubric_core import read_tasks
from rubric_synth import collect, synthesise

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/tutorials/trl.md"


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    collected = collect(["python:scipy.interpolate"], tmp_path / "collected")
    synthesise(collected.out, tmp_path / "dataset")
    (tmp_path / "judge.yaml").write_text("type: claims\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "dataset"


def test_the_reward_before_and_after(dataset: Path) -> None:
    before, after, *blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    old: dict[str, Any] = {}
    new: dict[str, Any] = {}
    exec(before, old)  # noqa: S102 - the page's own code is the thing under test
    exec(after, new)  # noqa: S102
    task = next(iter(read_tasks(dataset / "train.jsonl")))
    row = new["rows"][0]

    rewards = asyncio.run(
        new["reward"](
            prompts=[row["prompt"]] * 2,
            completions=[task.reference_answer, "array"],
            completion_ids=[[0]] * 2,
            task_id=[row["task_id"]] * 2,
            trainer_state=None,
        )
    )

    exec(blocks[-1], new)  # noqa: S102
    combined = new["reward"](
        prompts=[row["prompt"]] * 2,
        completions=[task.reference_answer, "array"],
        completion_ids=[[0]] * 2,
        task_id=[row["task_id"]] * 2,
    )

    brief = 0.2 if len(task.reference_answer) < 400 else 0.0
    assert combined == pytest.approx([rewards[0] + brief, 0.2], abs=1e-4)
    assert old["reward"](["array", "none"]) == [1.0, 0.0]
    assert row == {"prompt": task.question, "task_id": task.task_id}
    assert rewards[0] >= 0.7
    assert rewards[1] == 0.0


@pytest.mark.stacks
@pytest.mark.timeout(600)  # whole steps of a trainer
def test_the_page_trains_with_trl(dataset: Path) -> None:
    folder = dataset.parent
    shutil.copy(dataset / "train.jsonl", dataset / "validation.jsonl")
    made = [ROOT / "examples/small_policy.py", "--tasks", "dataset/train.jsonl"]
    made += ["--out", "models/small", "--steps", "2"]
    (_, *training, watched, books, _) = BLOCK.findall(PAGE.read_text("utf-8"))
    watched = watched.replace("tasks=tasks", 'tasks=tasks, ledger="run.ledger"')
    keep = "import json\nstep = trainer.state.log_history[-2]"
    shown = (
        "trainer.evaluate()\nprint(json.dumps([step, trainer.state.log_history[-1]]))"
    )
    page = [*training, keep, watched, shown, books]
    (folder / "page.py").write_text("\n".join(page), encoding="utf-8")

    subprocess.run([sys.executable, *map(str, made)], cwd=folder, check=True)
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    step, unseen = json.loads(done.stdout.splitlines()[-2])
    assert step["step"] == 4
    assert step["rubric/unavailable"] == 0
    assert 0 <= step["rubric/score"] <= 1
    assert unseen["eval_rubric/unavailable"] == 0
    assert done.stdout.splitlines()[-1].startswith("Counter({(<Outcome.SCORED: ")
