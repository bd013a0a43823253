import json
from pathlib import Path

from rubric_train_openrlhf.step.tasks import read_task_set

CRITERIA = [
    {"id": "cause", "weight": 2, "description": "Names the motion of the atoms."}
]
TEXTS = {
    "question": "Why does a rod expand when it is heated?",
    "passage": "Heat makes the atoms of a rod swing further apart, so that it grows longer.",
}


def test_tasks_may_be_rows_with_a_column_rubric(tmp_path: Path) -> None:
    for name, row in {
        "tasks": {**TEXTS, "criteria": CRITERIA},
        "rows": {**TEXTS, "rubric": CRITERIA},
        "texts": {**TEXTS, "rubric": json.dumps(CRITERIA)},
    }.items():
        (tmp_path / f"{name}.jsonl").write_text(
            json.dumps(row) + "\n", encoding="utf-8"
        )

    books = [
        read_task_set(path, leak_ngram=6) for path in sorted(tmp_path.glob("*.jsonl"))
    ]

    assert len(books) == 3
    assert len({tuple(view.task_id for view in book.views) for book in books}) == 1
    assert len({book.sha256["rubrics"] for book in books}) == 1
