"""What the sentences about a fact of prose make of it, and what its criterion leaves out."""

import pytest

from rubric_core import CriterionKind
from rubric_synth import Document
from rubric_synth.stages.extractive.claims import Passage
from rubric_synth.stages.extractive.facts import Fact, facts_of
from rubric_synth.stages.extractive.facts.prose import of_home
from rubric_synth.stages.extractive.facts.shortened import long_form

_GASTRITIS = (
    "Gastritis is an inflammation of the stomach lining that results in swelling and "
    "enteritis refers to inflammation of the intestinal mucosa."
)
_SHOCK = (
    "Shock is caused by the toxin of a germ, a superantigen associated with skin, and "
    "improper tampon use is a common cause of infections."
)


def _facts(*told: str, title: str = "Notes") -> dict[str, Fact]:
    text = " ".join(told)
    document = Document(title=title, text=f"# {title}\n\n{text}", source="a.md")
    return facts_of(document, [Passage(title, "", (text,))])


def _last(*told: str) -> Fact | None:
    return _facts(*told).get(told[-1])


@pytest.mark.parametrize(
    "told",
    [
        # set against the sentence before it
        ("Plague comes from rats.", "However, scurvy is caused by a lack of fresh fruit."),
        # "the ring" is one that was spoken of
        ("The machine has a ring of 27 km.",
         "Strong magnets are used to steer protons around the ring."),
        # "the ganglion" is of one sort, or the text says what any is
        ("The dorsal ganglion lies beside the cord.",
         "The ganglion is an enlargement of a nerve root."),
        ("The ganglion is an enlargement of a nerve root.",
         "A ganglion is a group of nerve cells that lie outside the brain.",
         "The ganglion is an enlargement of a nerve root."),
        # it has its definition before
        ("We call the sense of such mixtures a chord, or a tone colour.",
         "A tone colour is the shape of a wave that arises from many echoes."),
        # it has other uses
        ("Acetyl resin can enter the second stage.",
         "Acetyl resin is used to coat the hulls of ships."),
        # nobody knows the letters
        ("Filtration of sap is driven by the BQOP.",),
    ],
)  # fmt: skip
def test_what_a_sentence_says_with_others_is_no_fact(told: tuple[str, ...]) -> None:
    assert _last(*told) is None


@pytest.mark.parametrize(
    ("told", "question"),
    [
        # as above, with nothing before it
        (("Strong magnets are used to steer protons around the ring.",),
         "what are strong magnets used for"),
        (("The ganglion is an enlargement of a nerve root.",), "what is the ganglion"),
        (("A tone colour is the shape of a wave that arises from many echoes.",),
         "what is a tone colour"),
        (("Acetyl resin is used to coat the hulls of ships.",), "what is acetyl resin used for"),
        # there is one of it
        (("Every body has a heart.", "Coronary vessels are used to carry oxygen to the heart."),
         "what are coronary vessels used for"),
        # a comparison says both sides
        (("Milk is thin.", "However, juice has low viscosity, whereas syrup has high viscosity."),
         "how do juice and syrup differ in viscosity"),
        # a long form
        (("In it the capillary hydrostatic pressure (CHP) grows.",
          "CHP is the force that drives fluid out of a vessel."),
         "what is capillary hydrostatic pressure"),
        (("The peripheral nervous system is wide.",
          "Bundles of axons in the PNS are referred to as nerves."), "what are nerves"),
        (("Some ill people carry C. difficile in their bowels.",
          "Clostridioides difficile is a rod that can live in the gut."),
         "what is Clostridioides difficile"),
        (("AIDS is caused by a virus that kills white cells.",), "what is AIDS caused by"),
    ],
)  # fmt: skip
def test_what_a_sentence_says_alone_is_a_fact(
    told: tuple[str, ...], question: str | None
) -> None:
    fact = _last(*told)
    assert (fact.question if fact is not None else None) == question


def test_a_short_form_is_written_out_in_question_criterion_and_reference() -> None:
    fact = _last(
        "In it the capillary hydrostatic pressure (CHP) grows.",
        "Filtration of blood plasma is driven by the CHP.",
    )
    assert fact is not None
    said = "iltration of blood plasma is driven by the capillary hydrostatic pressure"
    assert fact.claim == f"f{said}"
    assert fact.sentence == f"F{said}."
    named = _last(
        "Duchenne muscular dystrophy (DMD) grows.",
        "DMD is a disorder that weakens the muscles.",
    )
    assert named is not None
    assert named.question == "what is Duchenne muscular dystrophy"
    assert (
        named.claim
        == "Duchenne muscular dystrophy is a disorder that weakens the muscles"
    )


def test_a_short_form_before_the_number_of_an_accession_stays_as_it_is() -> None:
    fact = _last(
        "In it the noise cutoff (NC) grows.",
        "The lake genome is a file that holds the record NC 013790 of a bank.",
    )
    assert fact is not None
    assert "the record NC 013790 of a bank" in fact.sentence


def test_a_short_form_that_everybody_knows_stays_short() -> None:
    fact = _last(
        "A receiver listens to the global positioning system (GPS) all day.",
        "Navigation of ships at sea is driven by the GPS.",
    )
    assert fact is not None
    assert fact.claim == "navigation of ships at sea is driven by the GPS"


def test_the_title_names_a_short_form() -> None:
    told = "The TXQP grid is a file that holds the depths of a harbour."
    assert _facts(told).get(told) is None
    fact = _facts(told, title="TXQP").get(told)
    assert fact is not None
    assert fact.question == "what is the TXQP grid"


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("Weak defences, which number more than 250, are caused by inherited faults of cells.",
         "Weak defences are caused by inherited faults of cells."),
        ("The quadriceps femoris is made of four muscles, which together extend the knee.",
         "The quadriceps femoris is made of four muscles."),
        ("A ford is a crossing that carts use, so named because one fares there.",
         "A ford is a crossing that carts use."),
        ("Tendons are made of dense tissue, but in ligaments not all fibers are parallel.",
         "Tendons are made of dense tissue."),
        ("Hyaline cartilage, the most common type of cartilage, consists of short fibers.",
         "Hyaline cartilage consists of short fibers."),
        ("The quadriceps femoris is made of four muscles, some of which extend the knee.",
         "The quadriceps femoris is made of four muscles."),
        ("Ketones serve as fuel in times of long hunger or when patients cannot use glucose.",
         "Ketones serve as fuel."),
        # a second verb that the question asks for too
        ("Friction depends on the materials in contact and is proportional to the normal force.",
         "Friction depends on the materials in contact and is proportional to the normal force."),
        ("Hyaline cartilage consists of short fibers and contains large sugars.",
         "Hyaline cartilage consists of short fibers and contains large sugars."),
        # a list stays whole
        ("The quadriceps femoris is made of two muscles: the rectus, and the vastus.",
         "The quadriceps femoris is made of two muscles: the rectus, and the vastus."),
    ],
)  # fmt: skip
def test_a_criterion_holds_what_its_question_asks_for(sentence: str, told: str) -> None:
    fact = _last(sentence)
    assert fact is not None
    assert fact.sentence == told


@pytest.mark.parametrize(
    "sentence",
    [
        _GASTRITIS,
        "Eczema is an allergic reaction that manifests as a rash, and acne results from glands.",
        _SHOCK,
    ],
)
def test_a_second_sentence_without_a_sure_end_is_no_tail(sentence: str) -> None:
    fact = _last(sentence)
    assert fact is None or " and " not in fact.sentence


def test_where_an_aside_ends_must_be_sure() -> None:
    fact = _last(
        "Urine is responsible for keeping the tract, which has a valve, free of germs."
    )
    assert fact is None or "free of germs" in fact.sentence


@pytest.mark.parametrize(
    "sentence",
    [
        # no definition: what it counts for, a figure, one sort of it, what it is a part of
        "The oral cavity is a secondary opening for the air of the lungs.",
        "Influenza is a widespread illness that weakens the lungs.",
        "Rabies is a deadly disease that has been known since antiquity.",
        "Sulfuric acid is a colorless liquid that freezes at 10.5 °C.",
        "Pure sulfuric acid is a liquid that draws water from air.",
        "A lung segment is a division of a lobe.",
        "A lung lobule is a subdivision formed as the airways branch into twigs.",
        "Chargeability is a property related to conductivity.",
        # its own name, one way of many, a part of what it depends on
        "Horse encephalitis is caused by the horse encephalitis virus.",
        "Jejuni fever is an illness that is caused by the jejuni bacterium.",
        "Metal oxides result from reactions created by heating nitrates.",
        "Diuretics are used to treat hypertension, heart failure, and swelling of the legs.",
        "A healthy body maintains its heat, by employing several mechanisms that open vessels.",
        "The loudness of a bell is proportional to its mass and inversely proportional to its age.",
        "Algae are made up of protists that live in water.",
        # a year's figure, a risk of nothing, a definition that is no thing
        "Vanadium oxide is used to produce 230,000,000 tons of acid.",
        "Children in care centers are at risk because they share their toys.",
        "Early disease is defined as occurring in infants of a week.",
        # nothing that both sides share
        "Red cells carry oxygen, whereas white cells fight infections.",
        "Unlike early faults, which have a genetic basis, late faults are often reversible.",
    ],
)
def test_what_tells_little_of_its_subject_is_no_fact(sentence: str) -> None:
    assert _last(sentence) is None


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("Species in the genus Clostridium are rods that form spores.",
         "what characterizes species in the genus Clostridium"),
        ("The term tissue is used to describe a group of cells that work together.",
         "what does the term tissue describe"),
        ("The adductor longus flexes the thigh, whereas the adductor magnus extends it.",
         "how do the adductor longus and the adductor magnus differ in what they do to the thigh"),
        ("Body waves travel through rock, whereas surface waves travel along its face.",
         "how do body waves and surface waves differ in how they travel"),
        ("A lung lobe is a division of the lung that holds airways.", "what is a lung lobe"),
        ("Malaria is caused by a parasite of mosquitoes.", "what is malaria caused by"),
    ],
)  # fmt: skip
def test_a_question_names_what_it_asks_for(sentence: str, question: str) -> None:
    fact = _last(sentence)
    assert fact is not None
    assert fact.question == question


def test_facts_of_other_sections_are_not_asked_under_one_heading() -> None:
    own = [Fact(CriterionKind.DEFINITION, f"Fact {at}.") for at in range(4)]
    told = ["A a.", "B b.", "C c.", "D d."]
    facts = dict(zip(told, own, strict=True))
    passage = Passage(
        "Tides", "Sea", ("A a.", "B b.", "C c.", "D d."), ("Tides",) * 3 + ("Salt",)
    )
    assert of_home(own, facts, passage) == own[:3]
    assert of_home(own, facts, passage._replace(subject="Sea")) == own


def test_a_long_form_is_small_where_the_text_has_it_so() -> None:
    text = "Peripheral Nervous System. In it the peripheral nervous system is wide."
    assert long_form("PNS", text) == "peripheral nervous system"
    assert long_form("WFO", "The World Food Office (WFO) grew.") == "World Food Office"
    assert not long_form("BQOP", text)
