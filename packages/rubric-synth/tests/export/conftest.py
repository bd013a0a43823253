"""A dataset folder whose hidden parts hold canaries: words that no file of the policy may hold."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Task
from rubric_core.files import text_sha256
from rubric_synth.run.dataset.folder import LINES_FILES

Write = Callable[..., Path]

SUBJECTS = ("tide", "yeast", "rust", "orbit", "canopy", "sonar")
CANARIES = (
    "zqpassage",
    "zqdescription",
    "zqelement",
    "zqguide",
    "zqkeyword",
    "zqname",
    "zqrationale",
    "zqreference",
    "zqanalysis",
)


def task_row(subject: str, **fields: object) -> dict[str, Any]:
    """A task whose parts each hold a canary, and whose reference answer meets all criteria."""
    row: dict[str, Any] = {
        "question": f"What does the {subject} of the bay do to the level?",
        "passage": f"The {subject} lowers the level by zqelement metres. It is zqpassage.",
        "criteria": [
            {
                "id": "effect",
                "weight": 2.0,
                "name": f"{subject} zqname",
                "description": f"Says that the {subject} lowers the level. zqdescription",
                "required_elements": [subject, "lowers", "zqelement"],
                "scoring_guide": "All for saying it. zqguide",
                "verification_method": "",
                "expected_keywords": ["lowers", "zqkeyword"],
                "expected_concepts": [],
            }
        ],
        "question_rationale": "zqrationale",
        "document_analysis": {"genre": "note", "contribution": "zqanalysis"},
        "doc_hash": text_sha256(subject),
        "reference_answer": (
            f"The {subject} lowers the level by zqelement metres, zqkeyword zqreference."
        ),
    }
    return {**row, **fields}


@pytest.fixture
def write_dataset(tmp_path: Path) -> Write:
    """Write a dataset folder of rows, two to each split, with a manifest."""

    def write(rows: list[dict[str, Any]] | None = None, name: str = "dataset") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        tasks = [task_row(subject) for subject in SUBJECTS] if rows is None else rows
        for number, file in enumerate(LINES_FILES):
            lines = "".join(f"{json.dumps(row)}\n" for row in tasks[number::3])
            (folder / file).write_text(lines, encoding="utf-8")
        manifest = {
            "collected_sha256": "0" * 64,
            "prompts": {},
            "model": None,
            "judge": "claims",
            "documents": len(tasks),
            "accepted_documents": len(tasks),
            "pending_documents": 0,
            "tasks": {"train": 2, "validation": 2, "test": 2},
            "rejected": {},
            "versions": {},
            "rejected_documents": 0,
            "rejected_by_stage": {},
            "usage": {},
            "config": {},
            "sha256": {},
        }
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return folder

    return write


@pytest.fixture
def tasks() -> list[Task]:
    """The tasks of the dataset."""
    return [Task.from_json(task_row(subject)) for subject in SUBJECTS]
