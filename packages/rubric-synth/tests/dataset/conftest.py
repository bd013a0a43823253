"""Outcomes of small documents, written by hand, and the datasets made of them."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rubric_synth import SynthConfig, SynthReport
from rubric_synth.calls import CallTotals
from rubric_synth.document import DocumentOutcome, Rejection, RejectionReason
from rubric_synth.run.dataset.folder import Provenance
from rubric_synth.run.dataset.writing import write_dataset

NAMES = (
    "tide",
    "yeast",
    "rust",
    "orbit",
    "canopy",
    "sonar",
    "grain",
    "dough",
    "moss",
    "quartz",
)


def doc_hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def task_row(
    name: str, *, question: str | None = None, **fields: object
) -> dict[str, Any]:
    """A task as `Task.to_json` writes it."""
    criteria = [
        {
            "id": f"point_{number}",
            "weight": float(number),
            "name": f"Point {number}",
            "description": f"Says that {name} lowers the level.",
            "required_elements": [name],
            "scoring_guide": "All for saying it.",
            "verification_method": "sentences: any",
            "expected_keywords": [name, "measured"],
            "expected_concepts": [],
        }
        for number in (1, 2, 3, 4, 5)
    ]
    return {
        "question": question
        or f"What does the {name} of {name}land do to {name}s in {name} time?",
        "passage": f"The {name} is measured every day. It never stays the same.",
        "criteria": criteria,
        "question_rationale": "It has to be understood.",
        "document_analysis": {
            "genre": "note",
            "contribution": "It measures.",
            "concepts": [name],
            "depth": "advanced",
            "reasoning_mode": "causal",
        },
        "doc_hash": doc_hash(name),
        "reference_answer": f"The {name} is measured.",
        **fields,
    }


def outcome(name: str, *tasks: dict[str, Any], **fields: Any) -> DocumentOutcome:
    return DocumentOutcome(
        source=f"notes/{name}.md", doc_hash=doc_hash(name), tasks=tasks, **fields
    )


def refused(
    name: str, reason: RejectionReason, draft: dict[str, Any] | None = None
) -> DocumentOutcome:
    rejection = Rejection(
        source=f"notes/{name}.md",
        stage="quality" if draft else "synthesise",
        reason=reason,
        detail="3 criteria",
        doc_hash=doc_hash(name),
        draft=draft,
    )
    return outcome(name, rejections=(rejection,))


@pytest.fixture
def outcomes() -> list[DocumentOutcome]:
    """Ten documents with a task each, and two without."""
    totals = CallTotals(
        calls=2, attempts=3, prompt_tokens=50, completion_tokens=7, cost_usd=0.25
    )
    found = [
        outcome(name, task_row(name), totals={"analyse": totals}) for name in NAMES
    ]
    return [
        *found,
        refused("short", RejectionReason.NO_PASSAGE),
        refused("thin", RejectionReason.TOO_FEW_CRITERIA, task_row("thin")),
    ]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., SynthReport]:
    """Write outcomes into a folder of the test's."""

    def call(
        outcomes: list[DocumentOutcome], *, name: str = "data", config: SynthConfig | None = None,
        pending: int = 0, **fields: Any,
    ) -> SynthReport:  # fmt: skip
        provenance = Provenance(
            collected_sha256="0" * 64,
            documents=len(outcomes) + pending,
            pending=pending,
            **{"prompts": {}, "model": None, "judge": "", **fields},
        )
        return write_dataset(
            tmp_path / name,
            outcomes,
            config=config or SynthConfig(),
            provenance=provenance,
        )

    return call
