from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import ConfigError
from rubric_judge.yaml_files import read_yaml, yaml_value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: a\nmodel: b\n", "a.yaml:2:1: the key 'model' stands here a second time"),
        ("model: a\n'model': b\n", "a.yaml:2:1: the key 'model' stands here a second time"),
        ("limits:\n  rpm: 1\n  tpm: 2\n  rpm: 3\n", "a.yaml:4:3: the key 'rpm'"),
        ("list: [{a: 1, a: 2}]", "a.yaml:1:15: the key 'a'"),
        ("1: a\n1: b\n", "a.yaml:2:1: the key '…'"),
        ("sk-live-1: a\nsk-live-1: b\n", "a.yaml:2:1: the key '…'"),
        ("api_key_env: sk-live-1: y", "a.yaml:1:23: is not YAML"),
        ("a: !sk-live-1 b", "a.yaml:1:4: is not YAML"),
        ("a: *sk-live-1", "a.yaml:1:4: is not YAML"),
        ("sk-live-1: [", "a.yaml:2:1: is not YAML"),
        ("a: \x00sk-live-1", "a.yaml: is not YAML"),
        ("day: 2026-99-99", "a.yaml: is not usable YAML (ValueError)"),
        ("[" * 5000, "a.yaml: is not usable YAML (RecursionError)"),
    ],
)
def test_what_is_wrong_is_named_by_its_place_and_never_quoted(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_value(text + ("" if text.startswith("[[") else "\n"), source="a.yaml")
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert "sk-live" not in str(caught.value) + caught.value.location


def test_keys_of_a_merge_may_stand_again() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: *b, y: 3}\nd: *b\n"
    assert yaml_value(text, source="a.yaml") == yaml.safe_load(text)


def test_the_same_key_may_stand_in_two_mappings() -> None:
    assert yaml_value("a: {x: 1}\nb: {x: 2}\n", source="a") == {"a": {"x": 1}, "b": {"x": 2}}


_leaves = st.none() | st.booleans() | st.integers() | st.text()
_documents = st.recursive(
    _leaves, lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(), part, max_size=4)
)


@given(_documents)
def test_what_pyyaml_writes_is_read_as_pyyaml_reads_it(document: object) -> None:
    text = yaml.safe_dump(document)
    assert yaml_value(text, source="a.yaml") == yaml.safe_load(text)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    with pytest.raises(ConfigError, match=r"judge\.yaml: cannot be read: No such file"):
        read_yaml(path)
    path.write_bytes(b"model: \xff")
    with pytest.raises(ConfigError, match=r"judge\.yaml: cannot be read: it is not UTF-8"):
        read_yaml(path)
    path.write_text("\ufeffmodel: a\n", encoding="utf-8")
    assert read_yaml(path) == {"model": "a"}
