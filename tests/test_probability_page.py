"""docs/judge/probability.md: its program prints what it says, its file makes a judge."""

import re
from collections.abc import Callable
from pathlib import Path

import yaml

from rubric_judge import JudgeConfig, judge_spec

PAGE = (Path(__file__).resolve().parents[1] / "docs/judge/probability.md").read_text(
    "utf-8"
)


def _block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return text


def test_the_program_prints_what_the_page_says(printed: Callable[[str], str]) -> None:
    code = _block("python")

    (promised,) = re.findall(r"# prints: (.+)$", code, re.MULTILINE)
    assert printed(code).splitlines()[-1] == promised


def test_the_file_makes_a_judge_that_is_read_by_probability() -> None:
    spec = judge_spec(yaml.safe_load(_block("yaml")))

    assert isinstance(spec, JudgeConfig)
    assert spec.is_by_probability
    assert (spec.temperature, spec.max_tokens, spec.calls(5)) == (1.0, 1, 5)
