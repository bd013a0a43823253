import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import ConfigError
from rubric_core.configuration import Keys
from rubric_judge import read_judge_spec
from rubric_judge.ui.yaml_files import read_yaml, yaml_place, yaml_value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model: a\nmodel: b\n",
            "a.yaml:2:1: the key 'model' stands here a second time",
        ),
        (
            "model: a\n'model': b\n",
            "a.yaml:2:1: the key 'model' stands here a second time",
        ),
        ("limits:\n  rpm: 1\n  tpm: 2\n  rpm: 3\n", "a.yaml:4:3: the key 'rpm'"),
        ("list: [{a: 1, a: 2}]", "a.yaml:1:15: the key 'a'"),
        ("1: a\n1: b\n", "a.yaml:1:1: a key is a text: name it"),
        ("sk-live-1: a\nsk-live-1: b\n", "a.yaml:2:1: the key '…'"),
        ("a: {1: sk-live-1}", "a.yaml:1:5: a key is a text: name it"),
        ("a: [{no: sk-live-1}]", "a.yaml:1:6: a key is a text: name it"),
        ("a: b\n~: sk-live-1", "a.yaml:2:1: a key is a text: name it"),
        ("api_key_env: sk-live-1: y", "a.yaml:1:23: is not YAML"),
        (
            "a: !sk-live-1 b",
            "a.yaml:1:4: this tag is not one of YAML's own; leave it out",
        ),
        ("a: 1\n---\nsk-live-1: 2", "a.yaml:2:1: a second document begins here"),
        (
            '{"a": 1}\n{"b": 2}',
            "a.yaml:2:1: a line of JSON begins here: give a YAML file",
        ),
        ("a: {<<: sk-live-1}", "a.yaml:1:9: `<<` takes in mappings alone"),
        ("a: *sk-live-1", "a.yaml:1:4: is not YAML"),
        ("sk-live-1: [", "a.yaml:2:1: is not YAML"),
        ("a: \x00sk-live-1", "a.yaml: is not YAML"),
        ("day: 2026-99-99", "a.yaml:1:6: this is no date, or no value of its tag"),
        ("a: !!bool sk-live-1", "a.yaml:1:4: this is no date, or no value of its tag"),
        (
            "a: !!bool {=: sk-live-1}",
            "a.yaml:1:4: this is no date, or no value of its tag",
        ),
        (
            "a: !!timestamp sk-live-1",
            "a.yaml:1:4: this is no date, or no value of its tag",
        ),
        ("a: [!!int '']", "a.yaml:1:5: this is no date, or no value of its tag"),
        ("a: [!!float '-']", "a.yaml:1:5: this is no date, or no value of its tag"),
        ("[" * 2000, "a.yaml: is not YAML; it nests too deep"),
        (
            "a: &sk-live-1 [*sk-live-1]",
            "a.yaml:1:16: this alias stands within what it stands for",
        ),
        ("a: &x {<<: *x}", "a.yaml:1:12: this alias stands within what it stands for"),
        ("{? [a] : 1}", "a.yaml:1:4: a list or a mapping is no key here"),
        ("a: " + "1" * 257, "a.yaml:1:4: this number has more than 256 characters"),
        ("a: " + "1:1" * 100, "a.yaml:1:4: this number has more than 256 characters"),
        ("a: " + "x" * 2**18, "a.yaml: is larger than 262144 bytes"),
    ],
)
def test_what_is_wrong_is_named_by_its_place_and_never_quoted(
    text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_value(text + ("" if text.startswith("[[") else "\n"), source="a.yaml")
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert "sk-live" not in str(caught.value) + caught.value.location


def _bomb(inner: str, line: str, *, levels: int = 9) -> str:
    lines = [f"a0: &a0 {inner}"]
    lines += [
        f"a{i}: &a{i} " + line.replace("*a", f"*a{i - 1}") for i in range(1, levels)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        _bomb("[x]", f"[{', '.join(['*a'] * 10)}]"),
        _bomb("{k: x}", "{" + ", ".join(f"k{i}: *a" for i in range(10)) + "}"),
        _bomb("{k: x}", f"{{<<: [{', '.join(['*a'] * 10)}]}}"),
        _bomb("[x]", "[*a, *a]", levels=40),
        f"a: &a {'x' * 90_000}\nb: [*a, *a]",
    ],
    ids=["lists", "mappings", "merges", "doubling", "one long text"],
)
def test_what_aliases_add_is_bounded(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"this alias and those before it repeat too much; write"
    ):
        yaml_value(text, source="a.yaml")


def test_aliases_of_an_ordinary_file_are_followed() -> None:
    text = "a: &a [1, {b: c}]\n" + "\n".join(f"k{i}: *a" for i in range(1000))
    assert yaml_value(text, source="a.yaml") == yaml.safe_load(text)


def test_a_pipe_is_refused_and_what_is_open_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(
        ConfigError, match=r"pipe\.yaml: cannot be read: this is a named pipe and"
    ):
        read_yaml(tmp_path / "pipe.yaml")
    with pytest.raises(
        ConfigError, match=r"cannot be read: this is a device and may never end"
    ):
        read_yaml(Path("/dev/zero"))
    assert read_yaml(Path("/dev/null")) is None
    reader, writer = os.pipe()
    os.write(writer, b"model: a\n")
    os.close(writer)
    assert read_yaml(Path(f"/dev/fd/{reader}")) == {"model": "a"}
    os.close(reader)


def test_keys_of_a_merge_may_stand_again() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: *b, y: 3}\nd: *b\n"
    assert yaml_value(text, source="a.yaml") == yaml.safe_load(text)


def test_the_same_key_may_stand_in_two_mappings() -> None:
    assert yaml_value("a: {x: 1}\nb: {x: 2}\n", source="a") == {
        "a": {"x": 1},
        "b": {"x": 2},
    }


_leaves = st.none() | st.booleans() | st.integers() | st.text()
_documents = st.recursive(
    _leaves,
    lambda part: (
        st.lists(part, max_size=4) | st.dictionaries(st.text(), part, max_size=4)
    ),
)


@given(_documents)
def test_what_pyyaml_writes_is_read_as_pyyaml_reads_it(document: object) -> None:
    text = yaml.safe_dump(document)
    assert yaml_value(text, source="a.yaml") == yaml.safe_load(text)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    with pytest.raises(ConfigError, match=r"judge\.yaml: cannot be read: No such file"):
        read_yaml(path)
    with pytest.raises(
        ConfigError, match=r"judge\.yaml: there is no such file.*init FOLDER"
    ):
        read_judge_spec(path)
    path.write_bytes(b"model: \xff")
    with pytest.raises(
        ConfigError, match=r"judge\.yaml: cannot be read: it is not UTF-8"
    ):
        read_yaml(path)
    path.write_text("\ufeffmodel: a\n", encoding="utf-8")
    assert read_yaml(path) == {"model": "a"}


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("type",), 2),
        (("judges", 1, "temperature"), 7),
        (("judges", 1, "model"), 6),
        (("judges", 0, "absent"), 5),
        (("judges", 9), 3),
        (("limits", "rpm", "x"), 8),
        (("absent",), None),
        ((), None),
    ],
)
def test_the_line_of_a_key_is_found(
    tmp_path: Path, keys: Keys, line: int | None
) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(
        "# comment\ntype: cascade\njudges:\n  # one\n  - {type: lexical}\n  - model: m\n"
        "    temperature: 0\nlimits: {rpm: 1}\n"
    )
    assert yaml_place(path, keys) == (f"{path}:{line}" if line else str(path))
    assert yaml_place(tmp_path / "gone.yaml", keys) == str(tmp_path / "gone.yaml")


def test_a_wrong_value_of_a_judge_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(
        "type: llm\nmodel: openai/m\ntemperature: high\nlimits:\n  rpn: 3\n"
    )
    with pytest.raises(ConfigError) as caught:
        read_judge_spec(path)
    wrong, unknown = str(caught.value).splitlines()
    assert wrong.startswith(f"{path}:3: temperature: needs a number, not 'high'")
    assert unknown == f"{path}:5: unknown key 'limits.rpn': did you mean 'rpm'?"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "type: llm\nmodel: m\ntimeout_s: 60\ndeadline_s: 3\n",
            "4: deadline_s=3.0 is below",
        ),
        (
            "type: hybrid\njudge:\n  type: lexicl\n",
            "3: judge: there is no type 'lexicl': did",
        ),
        (
            "type: cascade\njudges:\n- type: llm\n  modl: m\n- type: lexical\n",
            "4: unknown key 'judges.0.modl': did you mean 'model'?",
        ),
    ],
)
def test_what_a_section_says_is_told_with_the_line_of_its_key(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_judge_spec(path)
    assert any(
        line.startswith(f"{path}:{told}") for line in str(caught.value).splitlines()
    )
    assert "factory" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["a:\n\tb: 1\n", "a:\n  b: 1\n\tc: 2\n", "a: [1,\n\t2]\n"]
)
def test_a_tab_is_named_with_its_line(text: str) -> None:
    line = text[: text.index("\t")].count("\n") + 1
    with pytest.raises(
        ConfigError, match=rf"a\.yaml:{line}:1: a tab .*two spaces for each level"
    ):
        yaml_value(text, source="a.yaml")
