import pytest
from pydantic import ValidationError

from rubric_core import Criterion, Rubric
from rubric_judge.judges.llm.replies import reply_model


def test_ids_and_bounds_are_in_the_schema(rubric: Rubric) -> None:
    schema = reply_model(rubric, "paper").model_json_schema()
    scores = schema["$defs"]["Scores"]
    assert scores["required"] == ["names the loss", "gives_limit"]
    assert scores["additionalProperties"] is schema["additionalProperties"] is False
    bounds = {
        name: (p["minimum"], p["maximum"]) for name, p in scores["properties"].items()
    }
    assert bounds == {"names the loss": (0, 2.0), "gives_limit": (0, 1.0)}
    limits = schema["properties"]["max_total"]
    assert (limits["minimum"], limits["maximum"]) == (3.0, 3.0)
    assert schema["properties"]["total"]["maximum"] == 3.0


def test_reasoning_comes_before_the_scores_only_in_the_shared_layout(
    rubric: Rubric,
) -> None:
    order = {
        layout: list(reply_model(rubric, layout).model_json_schema()["properties"])
        for layout in ("paper", "shared_prefix")
    }
    assert order == {
        "paper": ["scores", "total", "max_total", "reasoning"],
        "shared_prefix": ["reasoning", "scores", "total", "max_total"],
    }


def test_one_class_is_built_for_the_same_ids_and_weights(rubric: Rubric) -> None:
    twin = Rubric(criteria=tuple(c.model_copy() for c in rubric))
    assert reply_model(twin, "paper") is reply_model(rubric, "paper")
    other = Rubric(criteria=(Criterion(id="names the loss", weight=2.5),))
    assert reply_model(other, "paper") is not reply_model(rubric, "paper")


@pytest.mark.parametrize(
    "name", ["class", "model_config", "a.b", "ünïcode", "_private"]
)
def test_any_id_can_be_asked_for(name: str) -> None:
    model = reply_model(Rubric(criteria=(Criterion(id=name, weight=1.0),)), "paper")
    reply = {"scores": {name: 0.5}, "total": 0.5, "max_total": 1, "reasoning": ""}
    assert model.model_validate(reply).model_dump(by_alias=True)["scores"] == {
        name: 0.5
    }


def test_a_validation_error_does_not_show_the_reply(rubric: Rubric) -> None:
    with pytest.raises(ValidationError) as caught:
        reply_model(rubric, "paper").model_validate_json('{"scores": "quoted passage"}')
    assert "quoted passage" not in str(caught.value)
