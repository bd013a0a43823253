"""docs/eval/heldout.md: its commands run, and the folder holds what it says."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import structlog

from rubric_core import read_tasks
from rubric_eval.cli import main
from rubric_eval.heldout.table import HeldoutTable
from rubric_judge.cli import main as judge_main
from rubric_synth import collect, synthesise
from rubric_train_openrlhf.policy import TinyConfig, build_tiny_policy

PAGE = "docs/eval/heldout.md"


def _run(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    if command.startswith("cat "):
        return subprocess.run(["sh", "-c", command], check=True).returncode
    words = shlex.split(command)
    monkeypatch.setattr("sys.argv", words)
    try:
        with pytest.raises(SystemExit) as ended:
            {"rubric-eval": main, "rubric-judge": judge_main}[words[0]]()
    finally:
        structlog.reset_defaults()
    return int(ended.value.code or 0)


def _commands(page: str) -> list[str]:
    """Return the two of the evaluation, and the first two of those that label its answers."""
    made, labelled = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [*made.replace("\\\n", " ").splitlines(), *labelled.splitlines()[:2]]


@pytest.fixture
def workplace(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as a reader of the page has it."""
    monkeypatch.chdir(tmp_path)
    collected = collect(["python:numpy.linalg"], tmp_path / "documents")
    run = tmp_path / "runs" / "q"
    synthesise(collected.out, run / "tasks")
    policy = build_tiny_policy(
        [task.question for task in read_tasks(run / "tasks" / "train.jsonl")],
        TinyConfig(hidden_size=32, intermediate_size=32, layers=1, heads=2, kv_heads=2),
        seed=0,
    )
    for folder in (run / "base", run / "sft", run / "checkpoints" / "best"):
        policy.save(folder)
    shutil.copytree(root / "configs" / "judge", tmp_path / "configs" / "judge")
    second, _ = re.findall(
        r"^```yaml\n(.*?)^```$",
        (root / PAGE).read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    Path("second.yaml").write_text(second, "utf-8")
    return tmp_path


def test_the_commands_of_the_page_run_and_leave_the_folder_that_it_describes(
    root: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (root / PAGE).read_text("utf-8")

    assert [_run(command, monkeypatch) for command in _commands(page)] == [0] * 4

    folder = workplace / "evals" / "heldout"
    table = HeldoutTable.model_validate_json((folder / "heldout.json").read_bytes())
    assert [(row.model, row.judge) for row in table.rows] == [
        (model, judge)
        for model in ("base", "sft", "grpo")
        for judge in ("claims", "second")
    ]
    described = re.findall(r"^\| `([a-zA-Z_/]+(?:\.\w+|/))` \|", page, re.MULTILINE)
    names = {"MODEL": "base", "JUDGE": "second", "seed_S": "seed_1"}
    paths = [
        re.sub("|".join(names), lambda name: names[name[0]], path) for path in described
    ]
    assert len(paths) == 7
    assert [path for path in paths if not (folder / path).exists()] == []
    kept = {
        path.parts[0] for path in (p.relative_to(folder) for p in folder.rglob("*"))
    }
    assert kept - {path.split("/")[0] for path in paths} <= {".lock"}
    passages = [
        task.grounding.reveal()
        for task in read_tasks(workplace / "runs" / "q" / "tasks" / "test.jsonl")
    ]
    for path in folder.rglob("*"):
        if (
            path.is_file()
            and path.name != "ledger.sqlite"
            and "judgements" not in path.parts
        ):
            content = path.read_text("utf-8")
            assert not any(passage in content for passage in passages)
