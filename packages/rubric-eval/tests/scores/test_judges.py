from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_core import ConfigError
from rubric_eval.scores.scoring import read_judges

if TYPE_CHECKING:
    from pathlib import Path


def _file(folder: Path, name: str, text: str = "type: lexical\n") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("gpt_oss.yaml", "gpt_oss"),
        ("my judge (2).yaml", "my-judge-2-"),
        (".hidden.yaml", "hidden"),
    ],
)
def test_a_judge_is_called_as_its_file(tmp_path: Path, file: str, name: str) -> None:
    (judge,) = read_judges([str(_file(tmp_path, file))])
    assert judge.name == name


def test_a_judge_is_called_as_it_was_named_and_a_file_may_have_an_equals_sign(
    tmp_path: Path,
) -> None:
    path = _file(tmp_path, "t=0.yaml")
    named, unnamed = read_judges([f"strict={path}", str(path)])
    assert (named.name, unnamed.name) == ("strict", "t-0")
    assert named.entry.fingerprint == unnamed.entry.fingerprint


def test_no_judge_and_two_of_one_name_are_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, "a.yaml")
    with pytest.raises(ConfigError, match="no judge: give --judge"):
        read_judges([])
    with pytest.raises(ConfigError, match="two judges are called 'a'"):
        read_judges([str(path), str(path)])
    with pytest.raises(ConfigError, match="no name can be made"):
        read_judges([str(_file(tmp_path, "日本.yaml"))])


def test_what_is_kept_of_a_judge_says_how_it_judges_and_not_where(
    tmp_path: Path,
) -> None:
    text = (
        "type: hybrid\njudge:\n  type: llm\n  model: openai/gpt-x\n  transport: direct\n"
        "  api_base: http://10.1.2.3:8000/v1\n  api_key_env: PATH\n  temperature: 0.2\n"
    )
    (judge,) = read_judges([str(_file(tmp_path, "hybrid.yaml", text))])
    kept = judge.entry.model_dump_json()
    assert '"model":"openai/gpt-x"' in kept
    assert '"temperature":0.2' in kept
    assert "10.1.2.3" not in kept
    assert "PATH" not in kept
    text = text.replace("10.1.2.3", "10.9.9.9")
    (elsewhere,) = read_judges([str(_file(tmp_path, "hybrid.yaml", text))])
    assert elsewhere.entry == judge.entry
    (other,) = read_judges(
        [str(_file(tmp_path, "hybrid.yaml", text.replace("0.2", "0.3")))]
    )
    assert other.entry.fingerprint != judge.entry.fingerprint
