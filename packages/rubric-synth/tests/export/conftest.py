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
_CLAIMS = {
    "tide": (
        "exponent of the flood distribution of the zqdescription harbour",
        "fraction of inner channels that lead to each mooring",
        "tolerance when comparing the average heights of two gauges",
    ),
    "yeast": (
        "sugar content of the dough before the first zqdescription rise",
        "share of living cells among all counted cells",
        "temperature at which the culture stops growing",
    ),
    "rust": (
        "depth of the corroded layer below the zqdescription paint",
        "salt concentration of the spray in the chamber",
        "number of cycles between two weighings of the plate",
    ),
    "orbit": (
        "semi-major axis of the zqdescription ellipse",
        "angle between the plane of the satellite and the equator",
        "time that passes until the next closest approach",
    ),
    "canopy": (
        "ratio of leaf area to ground area below the zqdescription crown",
        "extinction coefficient of light for one species",
        "height of the lowest branch above the forest floor",
    ),
    "sonar": (
        "frequency of the pulse that the zqdescription transducer emits",
        "speed of sound in water of the given salinity",
        "width of the beam where half of its power is left",
    ),
}
"""Meanings of three parameters, by the subject of a task."""


def _task_row(subject: str, **fields: object) -> dict[str, Any]:
    """A task whose hidden parts hold canaries; its reference answer meets all criteria."""
    claims = list(zip(("tau", "mu", "tol"), _CLAIMS[subject], strict=True))
    answer = " ".join(f"`{name}` is the {text}." for name, text in claims)
    row: dict[str, Any] = {
        "question": f"In a call to `{subject}_graph`, what do `tau`, `mu` and `tol` mean?",
        "passage": f"# zqpassage\n\n{answer}",
        "criteria": [
            {
                "id": f"definition_{number}",
                "weight": 2.0,
                "name": "zqname",
                "description": f"Says that `{name}` is the {text}.",
                "required_elements": [],
                "scoring_guide": "zqguide",
                "verification_method": "zqmethod",
                "expected_keywords": [name, "zqkeyword"],
                "expected_concepts": ["zqconcept"],
                "kind": "definition",
            }
            for number, (name, text) in enumerate(claims, start=1)
        ],
        "question_rationale": "zqrationale",
        "document_analysis": {"genre": "note", "contribution": "zqanalysis"},
        "doc_hash": text_sha256(subject),
        "reference_answer": f"{answer} See zqreference.",
    }
    return {**row, **fields}


def written_dataset(folder: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    """Write a dataset folder of rows, dealt out to the splits, with a manifest."""
    folder.mkdir()
    tasks = [_task_row(subject) for subject in SUBJECTS] if rows is None else rows
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


@pytest.fixture
def write_dataset(tmp_path: Path) -> Write:
    """Write a dataset folder of this test."""

    def write(rows: list[dict[str, Any]] | None = None) -> Path:
        return written_dataset(tmp_path / "dataset", rows)

    return write


@pytest.fixture
def task_row() -> Callable[..., dict[str, Any]]:
    """Make the row of a task."""
    return _task_row


@pytest.fixture
def tasks() -> list[Task]:
    """The tasks of the dataset."""
    return [Task.from_json(_task_row(subject)) for subject in SUBJECTS]
