import pytest

from rubric_synth import CriterionDraft, Draft, StageRefusal
from rubric_synth.quality.draft import (
    CRITERION_POINTERS,
    QUESTION_POINTERS,
    check_self_contained,
    pointers_in,
)

_POINTING = {
    "source": [
        "What does the passage say about tides?",
        "Which claim does this excerpt support?",
        "Summarise the given passage.",
        "Why is the source text sceptical?",
    ],
    "according_to_source": [
        "According to the article, why do glaciers retreat?",
        "Based on the text, what limits the reaction?",
        "Explain the method described in the paper.",
        "What does the document state about safety?",
        "How does the present study measure drag?",
        "Which three causes does the report mention?",
    ],
    "this_source": [
        "What is the main argument of this paper?",
        "Which algorithms does this chapter compare?",
        "Why does this section leave out friction?",
    ],
    "this_work": [
        "How would you design this study?",
        "Why was a double blind used in this experiment?",
        "Which sensors were used in this work?",
    ],
    "author": [
        "Why do the authors prefer an implicit scheme?",
        "What is the author's view of inflation?",
        "How did the researchers measure the pressure?",
    ],
    "said_elsewhere": [
        "As mentioned above, yeast makes gas; why does that matter?",
        "Why is the method described earlier unstable?",
        "Compare the aforementioned reactors.",
        "How does the previous section define enthalpy?",
    ],
    "numbered_part": [
        "What does Figure 3 show about growth?",
        "How do the values of Table 2 compare?",
        "Derive Eq. (4) from the balance of momentum.",
        "Use Section 2.1 to explain mixing.",
        "Which terms of equation 5 vanish?",
        "Why is Fig. 2b not symmetric?",
    ],
    "citation": [
        "Why did earlier work [12] neglect friction?",
        "What did Smith et al. (2010) find?",
    ],
    "placeholder": [
        "How does [ref] define the flux?",
        r"Explain the law of \\ref{eq:law} in words.",
    ],
    "shown_elsewhere": [
        "What follows from the following excerpt?",
        "Which process is shown in the diagram?",
        "Name the parts depicted below.",
    ],
    "own_work": ["Why does our model need a closure?"],
    "dangling_opening": [
        "How does this method handle missing values?",
        "What are the main limitations of this approach?",
        "What is its purpose?",
        "Why is this parameter important?",
    ],
}

_STANDING = [
    "How does the passage of time change the sample?",
    "Why does the passage of air through the larynx make sound?",
    "You compare two fertilisers in twenty plots. How would you design this study?",
    "A study compares two diets. How would you analyse this study?",
    "Why is the text of a legal contract read literally?",
    "How does a parser split the text into tokens?",
    "What does a compiler do with the document that it reads?",
    "An author signs a contract. What may the author claim?",
    "How does the author of a package declare its licence?",
    "What does Table 1 show? Table 1: mass 2 kg, 3 kg, 5 kg.",
    "Integrate x over the interval [1, 2].",
    "What is the mean of the list [3, 4, 5]?",
    "Which element does `a[12]` select?",
    "A lot has 3 sections. There are 20 spaces in section 1 and 30 in section 2. How many?",
    "Solve the following equation: x + 1 = 2.",
    "Given f(x) = x, differentiate it. Then integrate the function given above.",
    "As shown by Galileo, bodies fall alike; how does drag change that?",
    "How does this rule, that heat flows downhill, follow from entropy?",
    "Explain how a catalyst lowers the barrier and how this process ends.",
    "What does the model of Menter et al. (1994) change near walls in shear flow?",
    "How does it rain in a desert, and why is it rare?",
    "How does this work?",
    "Explain `stat` from os with `path`: what it does, its parameters and what it returns.",
    "How does our atmosphere absorb infrared light?",
    "What is a figure of eight, and how does a pilot fly a figure 8?",
    "Under Clean Water Act Section 404, who issues permits?",
]


@pytest.mark.parametrize(
    ("name", "question"),
    [(name, text) for name, texts in _POINTING.items() for text in texts],
)
def test_a_question_that_points_away_is_named_after_its_pattern(
    name: str, question: str
) -> None:
    assert pointers_in(question, QUESTION_POINTERS) == name


@pytest.mark.parametrize("question", _STANDING)
def test_a_question_that_stands_alone_is_left_in_peace(question: str) -> None:
    assert pointers_in(question, QUESTION_POINTERS) == ""


@pytest.mark.parametrize("pointer", QUESTION_POINTERS, ids=lambda pointer: pointer.name)
def test_every_pattern_has_examples(pointer: object) -> None:
    assert getattr(pointer, "name") in _POINTING  # noqa: B009 - parametrised over tuples


def _draft(**changes: object) -> Draft:
    values: dict[str, object] = {
        "id": "c",
        "weight": 1.0,
        "description": "Says that salt is the cause.",
        "scoring_guide": "1 for the cause.",
        "verification_method": "Compare with the passage.",
    }
    criterion = CriterionDraft.model_validate({**values, **changes})
    return Draft(question="Why do tides arise?", passage="Text.", criteria=(criterion,))


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"name": "As in Figure 3"}, "numbered_part in criterion c: name"),
        (
            {"description": "It agrees with the passage."},
            "source in criterion c: description",
        ),
        (
            {"description": "It says what the authors did."},
            "author in criterion c: description",
        ),
        (
            {"scoring_guide": "1 for Table 2."},
            "numbered_part in criterion c: scoring_guide",
        ),
        (
            {"required_elements": ["x", "Eq. 4"]},
            "numbered_part in criterion c: required_elements",
        ),
        (
            {"expected_concepts": ["our results"]},
            "own_work in criterion c: expected_concepts",
        ),
    ],
)
def test_a_criterion_that_points_away_is_refused(
    changes: dict[str, object], detail: str
) -> None:
    with pytest.raises(StageRefusal) as caught:
        check_self_contained(_draft(**changes))
    assert (caught.value.reason, caught.value.detail) == ("not_self_contained", detail)


def test_what_only_the_judge_reads_may_name_the_passage() -> None:
    check_self_contained(_draft(scoring_guide="1 if it agrees with the passage."))
    check_self_contained(
        _draft(verification_method="Compare with Table 2 of the passage.")
    )


def test_a_study_set_up_in_the_criterion_is_no_pointer() -> None:
    assert pointers_in("It says how this study is blinded.", CRITERION_POINTERS) == ""
