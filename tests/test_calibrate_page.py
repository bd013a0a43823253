"""docs/judge/calibrate.md: its commands, in the order of the page."""

import json
import re
from pathlib import Path

import pytest
import structlog

from rubric_core import write_tasks
from rubric_judge.cli import main
from rubric_judge.quality.attack import default_tasks
from rubric_judge.quality.calibration.record import Verdict, read_calibration
from rubric_judge.quality.labels.written import WRITTEN_FILE, Truth, WrittenAnswers

PAGE = "docs/judge/calibrate.md"


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_page_can_be_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (root / PAGE).read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    tasks = default_tasks()
    write_tasks("tasks.jsonl", tasks)
    answers = [
        (task, text) for task in tasks for text in (task.reference_answer or "", "No.")
    ]
    rows = [{"task_id": task.task_id, "response": text} for task, text in answers]
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    known = WrittenAnswers().to(tasks)
    written = [
        {
            "task_id": task.task_id, "question": task.question, "author": "anna",
            "truth": truth, "response": known.text(truth, task),
        }
        for task in tasks
        for truth in Truth
    ]  # fmt: skip
    Path(WRITTEN_FILE).write_text("\n".join(map(json.dumps, written)), "utf-8")
    (judge,) = _blocks(page, "yaml")
    Path("judge.yaml").write_text(judge, "utf-8")
    (form,) = _blocks(page, "json")
    for rater in ("anna", "ben"):
        labels = [
            {
                **json.loads(form), "line": line, "task_id": task.task_id,
                "criterion": one.id, "score": one.weight * (line % 2), "rater": rater,
            }
            for line, (task, _) in enumerate(answers, 1)
            for one in task.rubric
        ]  # fmt: skip
        Path(f"{rater}.jsonl").write_text("\n".join(map(json.dumps, labels)), "utf-8")

    for line in "".join(_blocks(page, "bash")).splitlines():
        program, *words = line.split()
        if program == "rubric-judge":
            monkeypatch.setattr("sys.argv", [program, *words, "--resamples", "30"])
            with pytest.raises(SystemExit) as ended:
                main()
            assert ended.value.code == 0
    structlog.reset_defaults()

    first, again = (
        read_calibration(Path(f"{name}/calibration.json"))
        for name in ("calibrated", "again")
    )
    assert first.raters == ("anna", "ben")
    assert first.judge_fingerprint == again.judge_fingerprint
    assert (first.reward.youden_j.value or 0) > 0.5
    assert read_calibration(Path("calibration/calibration.json")).raters == ("anna",)


def test_every_verdict_is_on_the_page(root: Path) -> None:
    page = (root / PAGE).read_text("utf-8")

    assert [one for one in Verdict if f"| {one.words} |" not in page] == []
