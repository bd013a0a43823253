"""What several test files of the package share: a rubric, a task, and a file of rows."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_core import Criterion, DocumentAnalysis, Grounding, Rubric, Task


@pytest.fixture
def rubric() -> Rubric:
    """Weights (3, 1, 1): W = 5, M_eff = 25/11."""
    return Rubric(
        criteria=(
            Criterion(
                id="derivation",
                weight=3,
                name="Derivation",
                description="Derives the decay law from the rate equation.",
                required_elements=("rate equation", "exponential"),
                scoring_guide="3: full derivation; 1: the law alone.",
                verification_method="contains_all: rate equation | exponential",
                expected_keywords=("half-life",),
                expected_concepts=("memorylessness",),
            ),
            Criterion(id="units", weight=1, description="Keeps the units."),
            Criterion(
                id="limits", weight=1, description="Names the limits of the law."
            ),
        )
    )


@pytest.fixture
def task(rubric: Rubric) -> Task:
    return Task(
        question="Why does the activity of a sample fall exponentially?",
        grounding=Grounding(
            "The number of nuclei obeys dN/dt = −λN, hence N = N₀ exp(−λt)."
        ),
        rubric=rubric,
        question_rationale="Asks for the mechanism, not for the formula.",
        document_analysis=DocumentAnalysis(
            genre="textbook section",
            contribution="derives the decay law",
            concepts=("decay constant", "half-life"),
            depth="undergraduate",
            reasoning_mode="derivation",
        ),
        doc_hash="a1b2",
        reference_answer="Each nucleus decays at a constant rate per unit time.",
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes rows to a file of lines of JSON."""

    def to_file(*rows: object, name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return to_file
