import pickle
from collections.abc import Callable

import pytest
from pydantic import BaseModel, ValidationError

from rubric_core import (
    Criterion,
    Grounding,
    JudgeView,
    PolicyView,
    Rubric,
    SchemaError,
    Task,
)

HIDDEN = "Zyzzyva"
VIEW = {"task_id": "a", "question": "q"}
ROW = {
    "question": "What holds?",
    "passage": f"The {HIDDEN} holds.",
    "criteria": [{"id": "a", "weight": 1.0, "description": HIDDEN}],
}


@pytest.mark.parametrize(
    ("model", "fields", "field"),
    [
        (Criterion, {"id": "a", "weight": -1, "description": HIDDEN}, "weight"),
        (
            Criterion,
            {"id": "a", "weight": 1, "expected_keywords": HIDDEN},
            "expected_keywords",
        ),
        (Criterion, {"id": "a", "weight": 1, "name": f"{HIDDEN}\ud800"}, "name"),
        (
            Rubric,
            {"criteria": [{"id": "a", "weight": 1, "name": [HIDDEN]}]},
            "criteria.0.name",
        ),
        (Task, {"question": "q", "grounding": HIDDEN, "rubric": None}, "grounding"),
        (
            PolicyView,
            {"task_id": "a", "question": "q", "grounding": Grounding(HIDDEN)},
            "grounding",
        ),
        (JudgeView, {"response": [HIDDEN]}, "task_id"),
    ],
)
def test_a_refusal_names_the_field_and_carries_no_text_along(
    model: type[BaseModel], fields: dict[str, object], field: str
) -> None:
    for make in (lambda: model(**fields), lambda: model.model_validate(fields)):
        _check_silent(make, field)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (
            lambda: JudgeView.model_validate_json(f'{{"task_id": ["{HIDDEN}"]}}'),
            "task_id",
        ),
        (lambda: PolicyView.model_validate_strings({"question": HIDDEN}), "task_id"),
        (
            lambda: Task.from_json({**ROW, "document_analysis": HIDDEN}),
            "document_analysis",
        ),
    ],
    ids=["json", "strings", "row"],
)
def test_every_way_of_reading_is_as_silent(
    make: Callable[[], object], field: str
) -> None:
    _check_silent(make, field)


def _check_silent(make: Callable[[], object], field: str) -> None:
    with pytest.raises(SchemaError) as caught:
        make()
    error = caught.value
    assert error.field == field
    assert field in str(error)
    assert HIDDEN not in f"{error}{error!r}{error.args}{vars(error)}"
    assert HIDDEN.encode() not in pickle.dumps(error)
    assert error.__context__ is error.__cause__ is None


@pytest.mark.parametrize("row", [None, "Zyzzyva", [("question", "q")], 3])
def test_what_is_no_mapping_is_no_task(row: object) -> None:
    with pytest.raises(SchemaError, match=f"from a mapping, not {type(row).__name__}"):
        Task.from_json(row)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("field", ["question", "passage"])
@pytest.mark.parametrize("text", ["", " \n\t", "\u2003"])
def test_a_task_asks_something_of_some_passage(field: str, text: str) -> None:
    with pytest.raises(SchemaError, match="white space") as caught:
        Task.from_json({**ROW, field: text})
    assert caught.value.field == field


def test_a_grounding_without_text_makes_no_task() -> None:
    rubric = Rubric(criteria=(Criterion(id="a", weight=1),))
    with pytest.raises(SchemaError, match="white space") as caught:
        Task(question="q", grounding=Grounding(" "), rubric=rubric)
    assert caught.value.field == "grounding"


def test_nested_models_are_checked_in_one_pass() -> None:
    rubric = Rubric.model_validate({"criteria": [{"id": "a", "weight": 1}]})
    assert rubric == Rubric(criteria=(Criterion(id="a", weight=1),))

    class Holder(BaseModel):
        rubric: Rubric

    with pytest.raises(ValidationError) as caught:
        Holder.model_validate({"rubric": {"criteria": [{"id": "a", "weight": "1"}]}})
    assert caught.value.errors()[0]["loc"] == ("rubric", "criteria", 0, "weight")
