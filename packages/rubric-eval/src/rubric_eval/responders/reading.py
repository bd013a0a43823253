"""From `NAME=KIND:WHERE`, or a YAML file of models, to specifications."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pydantic import ValidationError

from rubric_core import ConfigError, responder_names
from rubric_core.configuration import nearest_key, shown_name
from rubric_eval.responders.spec import CHAT, HARNESS, ModelSpec
from rubric_judge.yaml_files import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

_YAML: Final = frozenset({".yaml", ".yml"})
_FORM: Final = (
    "write NAME=KIND:WHERE, the KIND policy, hf, server, litellm or file, "
    "such as base=policy:runs/first/base"
)
_JUDGE: Final = "; a further judge's file needs a --judge of its own"
_PATHS: Final = ("path", "litellm_config")


def parse_models(texts: Sequence[str]) -> tuple[ModelSpec, ...]:
    """Read what a command was given: any of `NAME=KIND:WHERE` and YAML files of models.

    Returns:
        The models, in order.

    Raises:
        ConfigError: none, one of them is none, or a name is there twice.
    """
    specs: list[ModelSpec] = []
    for text in texts:
        is_file = "=" not in text and Path(text).suffix in _YAML
        specs += read_models(Path(text)) if is_file else [parse_model(text)]
    if not specs:
        raise ConfigError(f"no model is named: {_FORM}")
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            raise ConfigError(f"two models are called {spec.name!r}: give each a name of its own")
        seen.add(spec.name)
    return tuple(specs)


def parse_model(text: str) -> ModelSpec:
    """Read one model.

    Args:
        text: `NAME=policy:DIR`, `NAME=hf:DIR`, `NAME=server:URL#MODEL`, `NAME=litellm:MODEL`,
            `NAME=file:MODEL.yaml` (the fields of a `rubric_judge.ModelConfig`), or another plugin's
            `NAME=KIND:WHERE`.

    Raises:
        ConfigError: it is none of these; says what to write.
    """
    name, equals, rest = text.partition("=")
    kind, colon, where = rest.partition(":")
    if not (equals and colon and name and where.strip()):
        shown = shown_name(name if equals else text)
        is_file = Path(rest).suffix in _YAML
        raise ConfigError(f"{shown!r} names no model: {_FORM}{_JUDGE if is_file else ''}")
    return _spec(name, kind, _options(kind, where), text=text, source=f"model {name!r}")


def read_models(path: Path) -> tuple[ModelSpec, ...]:
    """Read a YAML file of models.

        models:
          base: policy:runs/first/base
          tuned: {kind: policy, path: runs/first/best, device: cuda}
          remote: {kind: server, model: served, api_base: "http://127.0.0.1:8000/v1"}

    Paths are relative to the file.

    Raises:
        ConfigError: the file cannot be read or names no models; says file and key.
    """
    content = read_yaml(path)
    fields = cast("dict[str, object]", content) if isinstance(content, dict) else {}
    models = fields.get("models")
    if set(fields) != {"models"} or not isinstance(models, dict) or not models:
        raise ConfigError(
            f"{path}: needs `models:` with NAME: KIND:WHERE below, and nothing else{_JUDGE}"
        )
    return tuple(
        _entry(path, str(name), entry)
        for name, entry in cast("dict[object, object]", models).items()
    )


def _entry(path: Path, name: str, entry: object) -> ModelSpec:
    source = f"{path}: models.{shown_name(name)}"
    if isinstance(entry, str):
        kind, colon, where = entry.partition(":")
        if not colon or not where.strip():
            raise ConfigError(f"{source}: write KIND:WHERE, such as policy:runs/first/base")
        options, text = _options(kind, where), f"{name}={entry}"
    elif isinstance(entry, dict):
        options = dict(cast("dict[str, JsonValue]", entry))
        kind, text = options.pop("kind", None), f"{name} in {path}"
    else:
        raise ConfigError(f"{source}: write KIND:WHERE, or keys with `kind`")
    if not isinstance(kind, str):
        raise ConfigError(f"{source}: needs `kind`, one of {', '.join(_kinds())}")
    return _spec(name, kind, _beside(path.parent, options), text=text, source=source)


def _options(kind: str, where: str) -> dict[str, JsonValue]:
    match kind:
        case "server":
            address, _, model = where.partition("#")
            return {"api_base": address, **({"model": model} if model else {})}
        case "litellm":
            return {"model": where}
        case _:
            return {"path": where}


def _beside(folder: Path, options: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    beside = dict(options)
    for key in _PATHS:
        value = beside.get(key)
        if isinstance(value, str):
            beside[key] = str(folder / value)
    return beside


def _spec(
    name: str, kind: str, options: Mapping[str, JsonValue], *, text: str, source: str
) -> ModelSpec:
    known = _kinds()
    if kind not in known:
        close = nearest_key(kind, known)
        remedy = f"did you mean {close!r}?" if close else f"use one of {', '.join(known)}"
        raise ConfigError(f"{source}: {shown_name(kind)!r} is no kind of model: {remedy}")
    try:
        return ModelSpec(name=name, kind=kind, options=dict(options), spec=text)
    except ValidationError:
        raise ConfigError(
            f"{source}: a name has letters, digits, dots, dashes and underscores, starts with a "
            "letter or digit, and is at most 64 characters long"
        ) from None


def _kinds() -> tuple[str, ...]:
    return tuple(sorted({*CHAT, HARNESS, *responder_names()}))
