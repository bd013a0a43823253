"""docs/judge/llm.md: its program runs and prints what it says, its files make judges."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from rubric_judge import JudgeConfig, LimitsConfig, LLMJudge, Prices, judge_spec

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/judge/llm.md").read_text("utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_program_prints_what_the_page_says(printed: Callable[[str], str]) -> None:
    (code,) = _blocks("python")

    (promised,) = re.findall(r"# prints: (.+)$", code, re.MULTILINE)
    assert printed(code).splitlines()[-1] == promised


@pytest.mark.parametrize("text", _blocks("yaml"))
def test_every_file_of_the_page_makes_a_judge(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    spec = judge_spec(yaml.safe_load(text), folder=ROOT / "configs/judge")

    assert isinstance(spec, JudgeConfig)
    assert LLMJudge(spec).name


def _keys(model: type[BaseModel], prefix: str = "") -> dict[str, object]:
    """Every key with its default; `...` where there is none."""
    keys: dict[str, object] = {}
    for name, field in model.model_fields.items():
        default = (
            ... if field.is_required() else field.get_default(call_default_factory=True)
        )
        parts = {"limits": LimitsConfig, "prices": Prices}.get(name)
        if not isinstance(default, BaseModel):
            keys[prefix + name] = default
        if parts is not None:
            keys |= _keys(parts, f"{name}.")
    return keys


def test_the_table_names_every_key_and_its_default() -> None:
    table = PAGE.partition("## Every key")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.+?) \| .+ \|$", table, re.MULTILINE)

    shown = {
        key: ... if value == "required" else yaml.safe_load(value[1:-1])
        for key, value in rows
    }

    off = {"model": "m", "evidence": shown["evidence"]}  # YAML reads False
    shown["evidence"] = JudgeConfig.model_validate(off).evidence
    assert shown == _keys(JudgeConfig)
    assert len(rows) == len(shown)
