"""The commands of an evaluation on a real model, from the folder that `rubric-train` names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rubric_core import Criterion, Finish, Grounding, Rubric, Task, write_tasks
from rubric_eval.answers.store import read_answers
from rubric_eval.records.files import ItemRow, read_rows
from rubric_eval.records.inputs import EvalFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

NAMED = {
    "What is the capital of France?": "Paris",
    "What is the largest planet of the solar system?": "Jupiter",
}
SUMS = {
    "What is 2 + 3?": "5",
    "What is 10 + 10?": "20",
    "A pen costs $2. What do 5 pens cost?": "10",
    "What is the half of 8?": "4",
}


@pytest.fixture
def model(smollm2_folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """SmolLM2, as a shell would fill in `$(rubric-train model smollm2)`."""
    from rubric_train_openrlhf.cli import app

    app(["model", "smollm2"], result_action="return_value")
    folder = capsys.readouterr().out.strip()
    assert folder == str(smollm2_folder)
    return f"smollm=policy:{folder}"


def test_held_out_questions(
    model: str, command: Callable[..., None], tmp_path: Path
) -> None:
    tasks = [
        Task(
            question=question,
            grounding=Grounding(f"{name} is what this passage is about."),
            rubric=Rubric(
                criteria=(
                    Criterion(id="named", weight=3, required_elements=(name,)),
                    Criterion(
                        id="absent", weight=1, required_elements=("photosynthesis",)
                    ),
                )
            ),
        )
        for question, name in NAMED.items()
    ]
    write_tasks(tmp_path / "test.jsonl", tasks)
    (tmp_path / "lexical.yaml").write_text("type: lexical\n", encoding="utf-8")
    asked = ("--tasks", tmp_path / "test.jsonl", "--judge", tmp_path / "lexical.yaml")
    held = EvalFolder(tmp_path / "held")
    command("heldout", model, *asked, "--max-tokens", 24, "--out", held.root)

    answers = {row.task_id: row for row in read_answers(held.answers("smollm", 0))}
    for task in tasks:
        assert NAMED[task.question] in (answers[task.task_id].text or "")
    assert answers[tasks[0].task_id].finish is Finish.COMPLETE
    (row,) = json.loads(held.heldout.read_text("utf-8"))["rows"]
    assert row["n"] == 2
    assert row["mean"] > 0.5


def test_benchmark_items(
    model: str, command: Callable[..., None], tmp_path: Path
) -> None:
    data, moved = tmp_path / "data", EvalFolder(tmp_path / "moved")
    data.mkdir()
    rows = [
        {"question": asked, "answer": f"#### {target}"}
        for asked, target in SUMS.items()
    ]
    (data / "gsm8k_test.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in rows)
    )
    some = ("--data", data, "--benchmarks", "gsm8k", "--max-tokens", 80)
    command("transfer", model, *some, "--out", moved.root)

    items = {
        row.question: row
        for row in read_rows(moved.items("rubric_gsm8k", "smollm", 0), ItemRow)
    }
    assert items.keys() == SUMS.keys()
    assert items["What is 10 + 10?"].stated == "20"
    for asked, target in SUMS.items():
        item = items[asked]
        assert item.correct == (item.stated == target)
        assert item.is_truncated == (item.tokens == 80)
    # Cut off in the middle of its sums, which are no answer.
    assert (items["What is 2 + 3?"].is_truncated, items["What is 2 + 3?"].stated) == (
        True,
        None,
    )
    (table,) = json.loads(moved.transfer.read_text("utf-8"))["rows"]
    assert table["cells"][0]["mean"] == sum(item.correct for item in items.values()) / 4
