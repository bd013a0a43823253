"""What docs/data.md shows, runs."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rubric_core import Criterion, Task

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "data.md").read_text("utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_makes_tasks_and_answers_that_the_commands_read(
    tmp_path: Path, printed: Callable[[str], str]
) -> None:
    (code,) = _blocks("python")
    (judge,) = _blocks("yaml")
    (tmp_path / "lexical.yaml").write_text(judge)

    printed(code)
    program = Path(sys.executable).with_name("rubric-judge")
    for command in "".join(_blocks("bash")).splitlines():
        subprocess.run(
            [program, *command.split()[1:]],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    row = json.loads((tmp_path / "judged.jsonl").read_text("utf-8"))
    prompt = json.loads((tmp_path / "prompts.jsonl").read_text("utf-8"))
    assert row["task_id"] == prompt["task_id"]
    assert row["result"]["scores"]["effect"] == 1.0


def test_the_page_names_every_field() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))

    assert set(Criterion.model_fields) <= named
    assert (set(Task.model_fields) - {"grounding", "rubric"}) | {
        "passage",
        "criteria",
    } <= named
