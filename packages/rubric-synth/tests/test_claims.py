"""Sentences and phrases of the stages without a model say what the page says."""

import pytest

from rubric_synth import Document
from rubric_synth.config import ExtractiveConfig
from rubric_synth.stages.extractive.claims import passages
from rubric_synth.stages.extractive.phrases import is_phrase


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("NA NA NA NA", False), ("1 0 90 0 0.9", False), ("x = y + z", False),
        ("Changes in the presence of", False), ("R2 D2 X1", False),
        ("Cooling of the reactor", True), ("DNA replication", True), ("Tides", True),
    ],
)  # fmt: skip
def test_a_row_of_a_table_is_no_phrase(text: str, is_one: bool) -> None:  # noqa: FBT001 - a table
    assert is_phrase(text) is is_one


def test_a_heading_that_is_no_phrase_is_no_subject() -> None:
    prose = "The gauge records the level of the water at the pier of the harbour. " * 8
    text = f"# Gauges of a harbour\n\n## NA NA NA NA\n\n{prose}"
    document = Document(title="Gauges of a harbour", text=text, source="a.md")
    (passage,) = passages(document, ExtractiveConfig(min_passage_words=60))
    assert passage.subject == "gauges of a harbour"
