"""Which sentences have one answer that an expert knows without the page, and which have many."""

import pytest

from rubric_core import CriterionKind
from rubric_synth import Document
from rubric_synth.stages.extractive.claims import Passage
from rubric_synth.stages.extractive.facts import Fact, facts_of
from rubric_synth.stages.extractive.facts.opening import (
    in_setting,
    needs_opening,
    opening_of,
    product_of,
    question_of,
)
from rubric_synth.stages.extractive.facts.sound import is_title


def _fact(sentence: str) -> Fact | None:
    document = Document(title="Notes", text=f"# Notes\n\n{sentence}", source="a.md")
    return facts_of(document, [Passage("Notes", "", (sentence,))]).get(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        # an open verb: many things are right
        "A landslide in a valley produces a lake behind its dam.",
        "A warm current along a coast increases the growth of algae.",
        "Removal of the crust allows the acid to dissolve the ore.",
        "Heavy rain in the hills leads to floods in the plain.",
        "A tide gauge in a harbour requires a stable datum.",
        # "may" and "can" name one thing of many
        "Erosion of a bank may be caused by the wake of ships.",
        "A sluice can be used to lower the level of a canal.",
        # the answer, or what it is compared with, stands in another sentence
        "Cells in the gland produce a hormone with similar effects.",
        "Wave speeds are a more practical measure of the rock.",
        "Low counts are caused by drugs that harm the marrow.",
        "The former lake is a basin that holds a layer of salt.",
        "The two basins are troughs that the ice carved into granite.",
        # another part of the sentence than its question asks for
        "Power is associated by many people with electricity.",
        "The loss of soil is caused by 50 percent by rain.",
        "The lining of a kiln is made only of bricks of clay.",
        "A keel is protected from rot by a sheath of copper.",
        # no definition: what it is to others, how good or usual it is
        "Reversibility is a quality of reactions that exchange ions.",
        "The thalamus is a collection of several nuclei of the brain.",
        "Nitrogen and hydrogen are gases that react to ammonia.",
        "The cause of scurvy is a diet that lacks vitamin C.",
        "The lumen of a gut is the site of the digestion of fats.",
        "Diphtheria is typically an infection of the throat.",
        "A sonde is a powerful technique for the survey of wells.",
        "The barrier is the barrier where the sluice opens.",
        "A common structure in a log is a list of dates.",
        "Regulation of the flow is the job of a gate that floats.",
        "Chemical bonding in clay is a class of bonding.",
        # a count of something incidental
        "The report of a gauge has three columns of figures.",
        "The theory of tides contains two ideas of interest.",
        # it adds to what stood before
        "Eosinophils are also capable of the uptake of spores.",
        "In addition, a heron is responsible for the loss of many fish.",
        # an answer that says nothing
        "Electrical energy is converted into other forms of energy.",
        "The choice of a gauge depends on the problem.",
        "A delta is divided into two separate systems.",
        "Dirty water is responsible for transmission.",
        # a picture, a lost citation
        "In the figure, smoke from a stack is a plume that bends.",
        "Roughness lengths over land are calculated from the climate of.",
        # the subject has no name
        "Microorganisms depend on the water in their soil to grow.",
        "A group of moulds called tineas is caused by damp that lasts.",
        "The cycle consists of a flood and an ebb of the sea.",
        "Neither horses nor mules serve as a reservoir of the virus.",
        # a condition that is one of many, a deed that is a name
        "A fatal error appears if a block of the file has no end.",
        "Large scale variations are caused by storms on the sun.",
        # a reason of what the page singles out
        "Quartz is the most useful because it resists every acid.",
        # they differ, and it does not say in what
        "Alignments of a genome differ slightly from alignments of a protein.",
        # a reason of one case
        "Copies of a chart will fail because the press is out of ink.",
        # an answer of which nothing is left without its number
        "Mobile carriers in a crystal are divided into a number of different classes.",
        # an exception to what stands before
        "An exception is the gauge centred around the pier.",
        # half of a quotation
        "Tags with ’back are drawn behind maps, while tags with ’front are drawn on maps.",
        # no definition, but what somebody thinks of it
        "A non-functional address is a violation of Harbour Policy.",
        # pieces of a sentence
        "Typography of maps differs from place to place.",
        "The path of a pulse is a curve that narrows to a within the cone.",
    ],
)
def test_what_has_many_answers_or_needs_its_page_is_no_fact(sentence: str) -> None:
    assert _fact(sentence) is None


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        # what stands before the subject stands before the question
        ("In gangrenous ergotism, the loss of a limb is caused by a lack of blood.",
         "in gangrenous ergotism, what is the loss of a limb caused by"),
        ("Typically, coral reefs consist of the shells of polyps.",
         "what do coral reefs consist of"),
        # nothing is lost of a denial or a degree
        ("Pure metals never occur free in soil because they react with water.",
         "why do pure metals never occur free in soil"),
        ("A calendar year is not a fixed unit of time because leap years add a day.",
         "why is a calendar year not a fixed unit of time"),
        # how, where, which, in which range
        ("White cells protect the body by engulfing germs.",
         "how do white cells protect the body"),
        ("The hyoid bone is located in the upper neck.",
         "where is the hyoid bone located"),
        ("The hip bone consists of three regions: the ilium, ischium, and pubis.",
         "what does the hip bone consist of"),
        ("The side of the leg includes two muscles: the longus and the brevis.",
         "which two muscles does the side of the leg include"),
        ("The incubation time of Ebola ranges from 2 days to 21 days.",
         "in which range does the incubation time of Ebola lie"),
        ("The acronym SHARE stands for a scheme of access to rivers in Europe.",
         "what does the acronym SHARE stand for"),
        # a basis of comparison
        ("Juice has low viscosity, whereas syrup has high viscosity.",
         "how do juice and syrup differ in viscosity"),
        ("Sea charts can be drawn by colours, while tide charts can be drawn by arrows.",
         "how do sea charts and tide charts differ in how they are drawn"),
        # letters before a hyphen, species
        ("P-waves are waves that move rock to and fro along their path.",
         "what are P-waves"),
        ("Tactile gloves are gloves that report the pressure on each finger.",
         "what are tactile gloves"),
        # an example may give a definition
        ("For example, gigantism is a disorder that makes children grow too tall.",
         "what is gigantism"),
        ("The nail body is composed of dense layers of dead cells.",
         "what is the nail body composed of"),
    ],
)  # fmt: skip
def test_a_question_has_one_answer_and_all_that_it_needs(
    sentence: str, question: str
) -> None:
    fact = _fact(sentence)
    assert fact is not None
    assert fact.question == question


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("Hair is made of dead cells, and gets its colour from melanin.",
         "Hair is made of dead cells."),
        ("Leukemia is a cancer of the blood, whereas sarcomas grow in bone.",
         "Leukemia is a cancer of the blood."),
        # what a relative clause, or a noun, goes on with stays
        ("A weir is a low wall that raises a river and slows the water.",
         "A weir is a low wall that raises a river and slows the water."),
    ],
)  # fmt: skip
def test_a_criterion_ends_where_its_question_does(sentence: str, told: str) -> None:
    fact = _fact(sentence)
    assert fact is not None
    assert fact.sentence == told


@pytest.mark.parametrize(
    ("title", "is_sound"),
    [
        ("capillary exchange", True),
        ("the network model", True),
        ("and discard", False),
        ("to cite", False),
        ("using the wrapper", False),
        ("survey and data", False),
        ("basic principles", False),
        ("2. program structure", False),
        ("", False),
    ],
)
def test_a_title_stands_before_a_question_where_it_names_something(
    title: str, *, is_sound: bool
) -> None:
    assert is_title(title) is is_sound


def _asked(*questions: str) -> list[Fact]:
    return [
        Fact(CriterionKind.DEFINITION, "A fact.", question=one) for one in questions
    ]


def test_an_opening_names_the_program_once() -> None:
    facts = _asked("what is a tank", "what is a pump")
    passage = Passage("the network model", "", ())
    assert opening_of(facts, passage, "TideCalc") == "The network model in TideCalc"
    assert question_of(facts, opening_of(facts, passage, "")) == (
        "The network model: what is a tank? What is a pump?"
    )
    told = Passage("patient-level prediction", "", ())
    assert (
        opening_of(facts, told, "PatientLevelPrediction") == "Patient-level prediction"
    )
    short = Passage("extract transform load", "", ())
    assert opening_of(facts, short, "ETL") == "Extract transform load"
    wrapper = Passage("using the wrapper", "", ())
    assert question_of(facts, opening_of(facts, wrapper, "")) == (
        "What is a tank? What is a pump?"
    )


def test_a_name_of_two_words_is_no_program() -> None:
    text = (
        "# Rays\n\n" + "In it Monte Carlo runs `a`. " * 4 + "\n\n# B\n\nA.\n\n# C\n\nA."
    )
    assert product_of(Document(title="Rays", text=text, source="docs/rays.md")) == ""


def test_of_a_manual_without_its_name_what_has_a_name_is_asked() -> None:
    facts = {
        one.question: one
        for one in _asked("what is a page", "what is `set3d` used for")
    }
    manual = Document(title="Notes", text="Type `a`, `b`, `c` and `d`.", source="a.md")
    assert list(in_setting(facts, "", manual)) == ["what is `set3d` used for"]
    assert in_setting(facts, "TideCalc", manual) == facts
    book = Document(title="Notes", text="A page is a leaf of a book.", source="a.md")
    assert in_setting(facts, "", book) == facts


def test_the_thing_of_one_word_needs_an_opening() -> None:
    bare, whole = _asked("what does the speed depend on", "what is the speed of sound")
    assert needs_opening(bare)
    assert not needs_opening(whole)
