"""docs/judge/granularity.md: its program, its files and its command."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
import yaml

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge import JudgeConfig, judge_spec
from rubric_judge.cli import main
from rubric_judge.testing import FakeEndpoint

PAGE = "docs/judge/granularity.md"


def _blocks(root: Path, language: str) -> list[str]:
    text = (root / PAGE).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_program_prints_what_the_page_says(
    root: Path, printed: Callable[[str], str]
) -> None:
    (code,) = _blocks(root, "python")
    (promised,) = re.findall(r"# prints: (.*)$", code, re.MULTILINE)
    assert printed(code).splitlines()[-1] == promised  # below the log of the calls


def test_the_command_compares_the_files_of_the_page(
    pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = pytestconfig.rootpath
    monkeypatch.chdir(tmp_path)
    rubric = Rubric(criteria=tuple(Criterion(id=f"c{m}", weight=1.0) for m in range(3)))
    task = Task(question="Which?", grounding=Grounding("A passage."), rubric=rubric)
    write_tasks("tasks.jsonl", [task])
    rows = [{"task_id": task.task_id, "response": f"Text {n}."} for n in range(4)]
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (line,) = _blocks(root, "bash")
    with FakeEndpoint(lambda call: call.number % 5 / 4) as endpoint:
        by_criterion, by_eight, listwise = (
            text.replace("http://127.0.0.1:8000/v1", endpoint.url)
            for text in _blocks(root, "yaml")
        )
        Path("criterion.yaml").write_text(by_criterion)
        Path("rubric.yaml").write_text(
            by_criterion.replace("granularity: criterion\n", "")
        )
        Path("listwise.yaml").write_text(listwise)
        eight = judge_spec(yaml.safe_load(by_eight))
        assert isinstance(eight, JudgeConfig)
        assert eight.calls(40) == 5
        monkeypatch.setattr("sys.argv", [*shlex.split(line), "--replicates", "2"])
        with pytest.raises(SystemExit) as ended:
            main()
        structlog.reset_defaults()
        counts = [
            len(call.weights) * max(1, len(call.responses)) for call in endpoint.calls
        ]
    assert ended.value.code == 0
    assert sorted(counts) == [0] * 3 + [1] * 24 + [3] * 8 + [12] * 2
    report = json.loads(Path("ways/reliability.json").read_text())
    assert [one["cost"]["calls"] for one in report["judges"]] == [1.0, 3.0, 0.25]
