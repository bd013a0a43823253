"""docs/judge/reliability.md: its commands, in the order of the page."""

import json
import re
from pathlib import Path

import pytest
import structlog

from rubric_core import write_tasks
from rubric_judge.cli import main
from rubric_judge.quality.attack import default_tasks

PAGE = "docs/judge/reliability.md"


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def _answers(reference: str) -> tuple[str, ...]:
    sentences = reference.split(". ")
    return (reference, f"{'. '.join(sentences[:2])}.", "It depends on many things.")


def test_the_page_can_be_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (root / PAGE).read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    tasks = default_tasks()
    write_tasks("tasks.jsonl", tasks)
    answers = [
        (task, text) for task in tasks for text in _answers(task.reference_answer or "")
    ]
    rows = [{"task_id": task.task_id, "response": text} for task, text in answers]
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (judge,) = _blocks(page, "yaml")
    Path("judge.yaml").write_text(judge, "utf-8")
    given = [
        f"{line},{criterion.id},{criterion.weight * (0.9, 0.4, 0.1)[line % 3 - 1]:.6f}"
        for line, (task, _) in enumerate(answers, 1)
        for criterion in task.rubric
    ]
    Path("scores.csv").write_text("\n".join(["line,criterion,score", *given]), "utf-8")

    for line in "".join(_blocks(page, "bash")).splitlines():
        program, *words = line.split()
        if program == "rubric-judge":
            monkeypatch.setattr("sys.argv", [program, *words, *_quick(words)])
            with pytest.raises(SystemExit) as ended:
                main()
            assert ended.value.code == 0
    structlog.reset_defaults()

    alone = json.loads(Path("reliability/reliability.json").read_text("utf-8"))
    assert [judge["replicates"] for judge in alone["judges"]] == [4]
    assert alone["judges"][0]["tau2"]["value"] == 0.0
    both = json.loads(Path("agreement/reliability.json").read_text("utf-8"))
    assert [judge["judge"] for judge in both["judges"]] == ["lexical_v3", "Anna"]
    assert both["pairs"][0]["kendall_within"]["value"] > 0.9


def _quick(words: list[str]) -> list[str]:
    return ["--resamples", "30"] if words[0] == "reliability" else []
