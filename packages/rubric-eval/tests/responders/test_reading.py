"""What names a model, and what names none."""

from pathlib import Path

import pytest

from rubric_core import ConfigError
from rubric_eval.responders.spec import parse_model, parse_models, read_models


def test_a_model_is_a_name_a_kind_and_a_place() -> None:
    spec = parse_model("base=hf:runs/q/base=1")
    assert (spec.name, spec.kind, spec.options) == (
        "base",
        "hf",
        {"path": "runs/q/base=1"},
    )
    served = parse_model("v=server:http://127.0.0.1:8000/v1#org/model")
    assert served.options == {
        "api_base": "http://127.0.0.1:8000/v1",
        "model": "org/model",
    }
    assert parse_model("v=server:http://127.0.0.1:8000/v1").options == {
        "api_base": "http://127.0.0.1:8000/v1"
    }
    assert parse_model("o=litellm:openai/gpt-4.1-mini").options == {
        "model": "openai/gpt-4.1-mini"
    }


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "NAME=KIND:WHERE"),
        ("base", "NAME=KIND:WHERE"),
        ("base=hf", "NAME=KIND:WHERE"),
        ("=hf:x", "NAME=KIND:WHERE"),
        ("base=hf:", "'base' names no model"),
        (
            "best=runs/own/best",
            "'best' names no model: write NAME=KIND:WHERE, the KIND policy, hf,",
        ),
        ("second=strict.yaml", "needs a --judge of its own"),
        ("base=hf: ", "NAME=KIND:WHERE"),
        ("base=serve:http://x/v1", "did you mean 'server'"),
        ("../base=hf:x", "a name has letters"),
        ("a/b=hf:x", "a name has letters"),
    ],
)
def test_anything_else_is_refused_with_what_to_write(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        parse_model(text)


def test_a_file_of_models_has_paths_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(
        "models:\n"
        "  base: hf:base\n"
        "  tuned: {kind: hf, path: best, dtype: bfloat16}\n"
        "  remote: {kind: server, model: m, api_base: http://127.0.0.1:1/v1}\n",
        "utf-8",
    )
    base, tuned, remote = parse_models([str(path)])
    assert base.options == {"path": str(tmp_path / "base")}
    assert tuned.options == {"path": str(tmp_path / "best"), "dtype": "bfloat16"}
    assert (remote.name, remote.kind) == ("remote", "server")


def test_models_are_called_differently() -> None:
    with pytest.raises(ConfigError, match="two models are called 'a'"):
        parse_models(["a=hf:x", "b=hf:x", "a=hf:y"])
    with pytest.raises(ConfigError, match="no model is named"):
        parse_models([])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("models: {}\n", "needs `models:`"),
        ("type: lexical\n", "needs a --judge of its own"),
        ("- a\n", "needs `models:`"),
        ("models: {a: 'hf:x'}\nmore: 1\n", "nothing else"),
        (
            "models:\n  b: hf:x\n  a: 3\n",
            r"models\.yaml:3: models\.a: write KIND:WHERE",
        ),
        ("models: {a: hf}\n", "write KIND:WHERE"),
        ("models: {a: {path: x}}\n", "needs `kind`"),
        ("models: {a: 'hf:x', a: 'hf:y'}\n", "a second time"),
        ("models: {'a b': 'hf:x'}\n", "a name has letters"),
    ],
)
def test_a_file_that_names_no_models_is_refused(
    content: str, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(content, "utf-8")
    with pytest.raises(ConfigError, match=what):
        read_models(path)
