"""What the page on cascades shows, runs and is read."""

import re
from collections.abc import Callable
from pathlib import Path

import yaml

from rubric_judge import CascadeConfig, judge_spec
from rubric_judge.judges.cascade.queue import LabelRequest

PAGE = Path(__file__).resolve().parents[1] / "docs/judge/cascade.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _code(language: str) -> str:
    (code,) = (
        text
        for name, text in BLOCK.findall(PAGE.read_text("utf-8"))
        if name == language
    )
    return code


def test_the_example_calibrates_judges_and_saves_calls(
    printed: Callable[[str], str],
) -> None:
    *_, saved, risk = printed(_code("python")).splitlines()

    assert re.fullmatch(r"\d\d% without the strong judge", saved)
    assert int(saved[:2]) > 50
    assert risk.startswith("risk at most 0.049; audits: 0 of ")


def test_the_configuration_and_the_request_of_the_page_are_what_they_say() -> None:
    spec = judge_spec(yaml.safe_load(_code("yaml")))

    assert isinstance(spec, CascadeConfig)
    assert spec.k == 5
    assert LabelRequest.model_validate_json(_code("json")).criterion == "limit"
