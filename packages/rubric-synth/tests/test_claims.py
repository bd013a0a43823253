"""Sentences and phrases of the stages without a model say what the page says."""

import pytest

from rubric_synth import Document
from rubric_synth.config import ExtractiveConfig
from rubric_synth.stages.extractive.claims import passages
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.stages.extractive.phrases import (
    best_phrase,
    is_phrase,
    without_opening,
)
from rubric_synth.tables import read_table

_TERMS = CorpusTerms(
    [Document(title="a", text="The stations are cold. Old.", source="a.md")]
)


@pytest.mark.parametrize(
    "sentence",
    [
        "Instead of water, the loop carries sodium.",
        "Second derivatives vanish at both ends.",
        "First order kinetics describe the decay.",
        "Third generation reactors burn their waste.",
        "In addition to argon, the cover gas holds helium.",
        "In contrast to steel, copper does not rust.",
        "In general relativity, mass bends space.",
        "In particular cases the bound is sharp.",
        "In fact checking, sources matter.",
        "Also known as rime, it covers the mast.",
        "Similarly to water, sodium flows.",
        "As a result of rain, the river rises.",
        "Finally tuned filters pass the tone.",
        "Thus the river rises.",
        "Note that rises in the third bar.",
        "However small the leak, the pressure falls.",
        "Therefore the pump must stop.",
        "Hence its name.",
        "For example gases that do not mix stay apart.",
        "For instance valves of brass wear out.",
        "Additionally cooled rods last longer.",
        "Moreover the gas is dry.",
        "Furthermore removed ions do not return.",
        "Consequently formed salts sink.",
        "Indeed no bubble forms.",
        "Nevertheless stable orbits exist.",
        "On the other hand of the scale stands neon.",
        "Also the valve is closed.",
        "First the tank is filled, then it is sealed.",
        "Second and third stages are alike.",
        "Third stages need steel.",
    ],
)
def test_a_sentence_keeps_an_opening_that_no_comma_parts_from_it(sentence: str) -> None:
    assert without_opening(sentence) == sentence


@pytest.mark.parametrize(
    ("sentence", "rest"),
    [
        ("However, the river rises.", "the river rises."),
        ("In addition, the gas holds helium.", "the gas holds helium."),
        ("First, the tank is filled.", "the tank is filled."),
        ("Note that the tank is filled.", "the tank is filled."),
        ("Note that, the tank is filled.", "the tank is filled."),
        ("Note that salt is added.", "salt is added."),
    ],
)
def test_an_opening_goes_with_its_comma(sentence: str, rest: str) -> None:
    assert without_opening(sentence) == rest


@pytest.mark.parametrize(
    ("sentence", "wrong"),
    [
        ("Sodium conducts heat far better than water.", "conducts"),
        ("Heaters melt the rime on the cups.", "melt"),
        ("Rime shields the sensor from snow.", "shields"),
        ("Batteries supply the heater at night.", "supply"),
        ("Solar panels tilt steeply in winter.", "tilt"),
        ("A radio link sends the record to the valley.", "sends"),
        ("Argon covers the surface of the sodium.", "covers"),
        ("Water flows through the pipe at night.", "flows"),
        ("Steel of the jacket loses carbon to it and becomes softer.", "loses"),
        ("Wind warms the thermometer beside them as well.", "beside"),
        ("Yeast cells bubble quietly in the dark.", "bubble"),
    ],
)
def test_a_point_is_no_noun_with_its_verb(sentence: str, wrong: str) -> None:
    assert wrong not in best_phrase(sentence, _TERMS, without=frozenset())


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


def test_every_opening_of_the_table_needs_its_comma() -> None:
    for opening in read_table("words")["connective"]["any"]:
        word = opening.capitalize()
        assert without_opening(f"{word}, the river rises.") == "the river rises."
        if opening != "note that":
            assert (
                without_opening(f"{word} the river rises.")
                == f"{word} the river rises."
            )
