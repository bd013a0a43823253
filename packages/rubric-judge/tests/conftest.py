"""Views, rubrics and judgements that many tests start from."""

from collections.abc import Callable

import pytest

from rubric_core import Criterion, Grounding, JudgeView, Rubric

ViewFactory = Callable[..., JudgeView]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def rubric() -> Rubric:
    """Two criteria; one id is no Python name."""
    return Rubric(
        criteria=(
            Criterion(
                id="names the loss",
                weight=2.0,
                name="Loss",
                description="States which loss is minimised.",
                required_elements=("cross entropy",),
                scoring_guide="2 for the loss, 1 for its purpose alone.",
                expected_keywords=("loss", "likelihood"),
            ),
            Criterion(
                id="gives_limit", weight=1.0, verification_method="sentences: last"
            ),
        )
    )


@pytest.fixture
def make_view(rubric: Rubric) -> ViewFactory:
    """Return a function that makes a view, with anything replaced."""

    def make(
        response: str = "It minimises the cross entropy.", **changes: object
    ) -> JudgeView:
        fields: dict[str, object] = {
            "task_id": "0123456789abcdef",
            "question": "Which loss is minimised?",
            "grounding": Grounding(
                "The model minimises the cross entropy of the labels."
            ),
            "response": response,
            "rubric": rubric,
        }
        return JudgeView(**{**fields, **changes})

    return make
