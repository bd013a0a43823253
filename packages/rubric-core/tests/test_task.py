import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import DocumentAnalysis, Grounding, Rubric, SchemaError, Task

# The paper's appendix, with a value of each field.
PAPER_JSON: dict[str, Any] = {
    "question": "Why does the activity fall exponentially?",
    "passage": "The number of nuclei obeys dN/dt = −λN.\nHence N = N₀ exp(−λt).",
    "criteria": [
        {
            "id": "c_1",
            "weight": 3.0,
            "name": "Derivation",
            "description": "Derives the law.",
            "required_elements": ["rate equation", "integration"],
            "scoring_guide": "3 full, 1 partial",
            "verification_method": "contains_any: integrate | integration",
            "expected_keywords": ["half-life"],
            "expected_concepts": ["memorylessness"],
        },
        {
            "id": "c_2",
            "weight": 0.5,
            "name": "",
            "description": "",
            "required_elements": [],
            "scoring_guide": "",
            "verification_method": "",
            "expected_keywords": [],
            "expected_concepts": [],
        },
    ],
    "question_rationale": "Mechanism before formula.",
    "document_analysis": {
        "genre": "textbook",
        "contribution": "derives the decay law",
        "concepts": ["decay constant"],
        "depth": "undergraduate",
        "reasoning_mode": "derivation",
    },
    "doc_hash": "5f3a",
}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in PAPER_JSON.items() if name != key}


def with_criterion(**changes: object) -> dict[str, Any]:
    first = {**PAPER_JSON["criteria"][0], **changes}
    return {**PAPER_JSON, "criteria": [first, *PAPER_JSON["criteria"][1:]]}


def test_the_papers_json_makes_an_exact_round_trip() -> None:
    row = Task.from_json(PAPER_JSON).to_json(reveal_grounding=True)

    assert row == PAPER_JSON
    assert json.dumps(row) == json.dumps(PAPER_JSON)  # the order of the keys too


def test_a_reference_answer_is_an_additional_key() -> None:
    row = {**PAPER_JSON, "reference_answer": "Because the rate is constant."}

    assert Task.from_json(row).to_json(reveal_grounding=True) == row


def test_question_passage_and_criteria_are_enough() -> None:
    task = Task.from_json(
        {"question": "q", "passage": "p", "criteria": [{"id": "a", "weight": 1}]}
    )

    assert task.doc_hash == Grounding("p").sha256
    assert task.document_analysis is None
    assert task.reference_answer is None
    assert Task.from_json(task.to_json(reveal_grounding=True)) == task


def test_the_constructor_takes_the_passages_hash_where_none_is_given(
    rubric: Rubric,
) -> None:
    grounding = Grounding("p")

    assert (
        Task(question="q", grounding=grounding, rubric=rubric).doc_hash
        == grounding.sha256
    )


@pytest.mark.parametrize(
    "form",
    [list, json.dumps, lambda criteria: {"criteria": criteria}, tuple],
    ids=["list", "json", "mapping", "tuple"],
)
def test_the_criteria_may_be_in_a_column_rubric(
    form: Callable[[object], object],
) -> None:
    row = {name: value for name, value in PAPER_JSON.items() if name != "criteria"}

    task = Task.from_json(
        {**row, "rubric": form(PAPER_JSON["criteria"]), "criteria": None}
    )

    assert task == Task.from_json(PAPER_JSON)


def test_two_columns_of_criteria_or_none_are_refused() -> None:
    with pytest.raises(SchemaError, match="'rubric': is not permitted"):
        Task.from_json({**PAPER_JSON, "rubric": PAPER_JSON["criteria"]})
    with pytest.raises(SchemaError, match="'rubric' is a text that is not JSON"):
        Task.from_json({"question": "q", "passage": "p", "rubric": "1. Be good."})
    with pytest.raises(SchemaError, match="'criteria'"):
        Task.from_json({"question": "q", "passage": "p", "rubric": None})


text = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
texts = st.lists(text, max_size=3)
rows = st.fixed_dictionaries(
    {
        "question": text.filter(str.strip),
        "passage": text.filter(str.strip),
        "criteria": st.lists(
            st.fixed_dictionaries(
                {
                    "id": text.filter(bool),
                    "weight": st.floats(0.001, 1e6),
                    "name": text,
                    "description": text,
                    "required_elements": texts,
                    "scoring_guide": text,
                    "verification_method": text,
                    "expected_keywords": texts,
                    "expected_concepts": texts,
                }
            ),
            min_size=1,
            max_size=4,
            unique_by=lambda criterion: criterion["id"],
        ),
        "question_rationale": text,
        "document_analysis": st.none()
        | st.fixed_dictionaries(
            {
                "genre": text,
                "contribution": text,
                "concepts": texts,
                "depth": text,
                "reasoning_mode": text,
            }
        ),
        "doc_hash": text.filter(bool),
    },
    optional={"reference_answer": text},
)


@given(rows)
def test_any_full_row_makes_an_exact_round_trip_through_text(
    row: dict[str, Any],
) -> None:
    task = Task.from_json(json.loads(json.dumps(row)))

    assert task.to_json(reveal_grounding=True) == row
    assert Task.from_json(task.to_json(reveal_grounding=True)).task_id == task.task_id


@pytest.mark.parametrize(
    ("row", "field", "problem"),
    [
        (without("question"), "question", "is missing: add it"),
        (without("passage"), "passage", "is missing: add it"),
        (without("criteria"), "criteria", "is missing: add it"),
        ({**PAPER_JSON, "question": ""}, "question", "white space"),
        ({**PAPER_JSON, "question": 3}, "question", "needs a text"),
        ({**PAPER_JSON, "passage": None}, "passage", "needs a text"),
        ({**PAPER_JSON, "passage": "\ud800"}, "passage", "a text that UTF-8 can hold"),
        ({**PAPER_JSON, "doc_hash": ""}, "doc_hash", "must have 1 or more characters"),
        ({**PAPER_JSON, "criteria": []}, "criteria", "at least one criterion"),
        ({**PAPER_JSON, "criteria": {"id": "a"}}, "criteria", "needs a list"),
        ({**PAPER_JSON, "criteria": ["a"]}, "criteria.0", "needs a mapping"),
        (
            {**PAPER_JSON, "document_analysis": "x"},
            "document_analysis",
            "needs a mapping",
        ),
        (
            {**PAPER_JSON, "document_analysis": {"depht": "x"}},
            "document_analysis.depht",
            "not permitted",
        ),
        ({**PAPER_JSON, "answer": "x"}, "answer", "not permitted"),
        (with_criterion(id="c_2"), "criteria", "'c_2' occurs more than once"),
        (
            with_criterion(weight=-1.0),
            "criteria.0.weight",
            "0 or more, not -1.0: a penalty is .*import",
        ),
        (
            with_criterion(weight=float("nan")),
            "criteria.0.weight",
            "finite number, not nan",
        ),
        (
            with_criterion(weight=float("inf")),
            "criteria.0.weight",
            "finite number, not inf",
        ),
        (with_criterion(weight="3"), "criteria.0.weight", "needs a number"),
        (with_criterion(weight=True), "criteria.0.weight", "needs a number"),
        (with_criterion(weight=10**5000), "criteria.0.weight", "needs a number"),
        (
            with_criterion(required_elements=[1]),
            "criteria.0.required_elements.0",
            "needs a text",
        ),
        (with_criterion(points=1), "criteria.0.points", "not permitted"),
        (
            {**PAPER_JSON, "criteria": [{"id": "a", "wieght": 1}]},
            "criteria.0.wieght",
            r"there is no such field \(and 1 more\)",
        ),
    ],
)
def test_a_wrong_row_is_refused_with_the_field(
    row: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem) as caught:
        Task.from_json(row)

    assert caught.value.field == field
    assert repr(field) in str(caught.value)


def test_all_zero_weights_are_refused() -> None:
    criteria = [{"id": "a", "weight": 0}, {"id": "b", "weight": 0.0}]

    with pytest.raises(SchemaError, match=r"positive and finite, not 0\.0"):
        Task.from_json({**PAPER_JSON, "criteria": criteria})


def test_several_wrong_fields_are_counted() -> None:
    with pytest.raises(SchemaError, match=r"\(and 2 more\)"):
        Task.from_json({"question": "q", "extra": 1})


def test_without_reveal_the_json_holds_ids_and_weights_alone(task: Task) -> None:
    assert task.to_json() == {
        "task_id": task.task_id,
        "question": task.question,
        "doc_hash": "a1b2",
        "criteria": [
            {"id": "derivation", "weight": 3.0},
            {"id": "units", "weight": 1.0},
            {"id": "limits", "weight": 1.0},
        ],
    }


def test_the_id_is_pinned_so_that_stored_rollouts_stay_joined() -> None:
    task = Task.from_json(PAPER_JSON)

    assert task.task_id == "dda378a6d37550cd"


@pytest.mark.parametrize(
    "row",
    [
        {**PAPER_JSON, "question": "Why?"},
        {**PAPER_JSON, "doc_hash": "5f3b"},
        with_criterion(weight=2.0),
        with_criterion(description="Derives the law at length."),
    ],
)
def test_the_id_changes_with_document_question_and_rubric(row: dict[str, Any]) -> None:
    assert Task.from_json(row).task_id != Task.from_json(PAPER_JSON).task_id


def test_the_id_does_not_change_with_what_the_judge_never_reads() -> None:
    row = {**without("question_rationale"), "reference_answer": "x"}

    assert Task.from_json(row).task_id == Task.from_json(PAPER_JSON).task_id


def test_the_policys_view_is_the_question(task: Task) -> None:
    view = task.policy_view()

    assert view.model_dump() == {"task_id": task.task_id, "question": task.question}


def test_the_judges_view_is_all_four_inputs(task: Task) -> None:
    view = task.judge_view("Because.")

    assert view.task_id == task.task_id
    assert view.question == task.question
    assert view.grounding == task.grounding
    assert view.response == "Because."
    assert view.rubric == task.rubric


def test_a_judges_view_crosses_processes(task: Task) -> None:
    view = task.judge_view("Because.")
    returned = pickle.loads(pickle.dumps(view))  # our own bytes

    assert returned == view
    assert returned.grounding.reveal() == task.grounding.reveal()


def test_a_task_takes_a_grounding_and_not_its_text(rubric: Rubric) -> None:
    with pytest.raises(SchemaError, match="instance of Grounding"):
        Task(question="q", grounding="p", rubric=rubric)  # pyright: ignore[reportArgumentType]


def test_a_task_does_not_change(task: Task) -> None:
    with pytest.raises(AttributeError, match="Task is frozen, 'question'"):
        task.question = "Another?"  # pyright: ignore[reportAttributeAccessIssue]


def test_an_analysis_is_empty_by_default() -> None:
    assert DocumentAnalysis().concepts == ()
