import pytest

from rubric_core import PolicyView, SchemaError, Section, SftExample


def test_a_policy_view_has_no_field_for_anything_hidden() -> None:
    assert set(PolicyView.model_fields) == {
        "task_id",
        "question",
        "context",
        "conversation",
    }
    assert set(Section.model_fields) == {"doc_hash", "heading", "text"}


@pytest.mark.parametrize(
    "field", ["passage", "grounding", "rubric", "criteria", "response"]
)
def test_a_policy_view_refuses_every_other_field(field: str) -> None:
    with pytest.raises(SchemaError, match="not permitted"):
        PolicyView.model_validate({"task_id": "t", "question": "q", field: "x"})


def test_an_example_for_the_warm_start_is_a_question_and_an_answer() -> None:
    example = SftExample(task_id="t", question="q", answer="a")

    assert set(SftExample.model_fields) == {
        "task_id",
        "question",
        "answer",
        "context",
        "conversation",
    }
    assert example.answer == "a"
    assert repr(example) == "SftExample(task_id='t', question='q')"
