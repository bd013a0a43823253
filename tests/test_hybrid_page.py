"""What the page on executable criteria shows, runs and prints what it says."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rubric_judge import (
    HybridConfig,
    SandboxConfig,
    SandboxError,
    judge_spec,
    parse_verification,
)
from rubric_sandbox import LinuxSandbox

PAGE = Path(__file__).resolve().parents[1] / "docs/judge/hybrid.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _code(language: str) -> str:
    (code,) = (
        text
        for name, text in BLOCK.findall(PAGE.read_text("utf-8"))
        if name == language
    )
    return code


def test_the_example_prints_what_the_page_says(printed: Callable[[str], str]) -> None:
    try:
        LinuxSandbox(SandboxConfig()).check_isolation()
    except SandboxError as error:
        pytest.skip(str(error))

    lines = printed(_code("python")).splitlines()

    shown = [line for line in lines if "judge.call.finished" not in line]
    assert shown == _code("text").splitlines()


def test_the_configuration_of_the_page_is_one() -> None:
    spec = judge_spec(yaml.safe_load(_code("yaml")))

    assert isinstance(spec, HybridConfig)
    assert spec.python_tests


def test_every_method_of_the_table_can_be_written_so() -> None:
    rows = re.findall(r"^\| `(\w+: .*?)`[,| ]", PAGE.read_text("utf-8"), re.MULTILINE)

    assert len(rows) == 4
    for row in rows:
        method = row.replace(r"\|", "|").replace("{…}", "{}")
        assert parse_verification(method) is not None
