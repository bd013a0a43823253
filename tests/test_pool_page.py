"""docs/judge/pool.md: what it shows, runs."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
import yaml

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge import JudgeConfig, judge_spec, load_replicas
from rubric_judge.cli import main

PAGE = "docs/judge/pool.md"


def _block(root: Path, language: str) -> str:
    text = (root / PAGE).read_text("utf-8")
    (block,) = re.findall(
        rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    return block


def test_the_example_prints_what_it_says(
    root: Path, printed: Callable[[str], str]
) -> None:
    code = _block(root, "python")
    promised = re.findall(r"^# prints (.*)$", code, re.MULTILINE)
    assert printed(code).splitlines()[-1:] == promised  # below the log of the calls


def test_the_command_scores_and_keeps(
    pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task = Task(
        question="Which loss is minimised?",
        grounding=Grounding("The model minimises the cross entropy of the labels."),
        rubric=Rubric(
            criteria=(
                Criterion(id="loss", weight=2, required_elements=("cross entropy",)),
            )
        ),
    )
    write_tasks(tmp_path / "tasks.jsonl", [task])
    answer = {"task_id": task.task_id, "response": "It minimises the cross entropy."}
    Path("answers.jsonl").write_text(json.dumps(answer), "utf-8")
    Path("lexical.yaml").write_text("type: lexical\n", "utf-8")
    monkeypatch.setattr("sys.argv", shlex.split(_block(pytestconfig.rootpath, "bash")))
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        structlog.reset_defaults()
    assert not ended.value.code
    assert json.loads(Path("judged.jsonl").read_text("utf-8"))["reward"] == 1.0
    assert Path("step.ledger").exists()


def test_the_configuration_makes_two_replicas(pytestconfig: pytest.Config) -> None:
    spec = judge_spec(yaml.safe_load(_block(pytestconfig.rootpath, "yaml")))
    assert isinstance(spec, JudgeConfig)
    assert spec.limits.tpm == 2_000_000
    assert len(load_replicas(spec)) == 2
