"""A model that was named: what kind it is, where, and with which weights."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final, cast

from pydantic import Field, JsonValue, ValidationError

from rubric_core import responder_names
from rubric_core.configuration import kind_remedy, shown_name
from rubric_core.files import toml_beside
from rubric_eval.errors import EvalConfigError
from rubric_eval.records.inputs import text_sha256
from rubric_eval.records.run import Name, Record
from rubric_judge import ModelServer
from rubric_judge.yaml_files import read_yaml, yaml_place

CHAT = ("server", "litellm", "file")
"""Kinds that are called over a network, with the fields of `rubric_judge.ModelConfig`."""

HARNESS = "hf"
"""Folders that lm-eval loads; every other kind is a plugin's."""


class ModelSpec(Record):
    """One model of an evaluation, before it is opened."""

    name: Name
    """In tables and file names."""

    kind: str = Field(min_length=1)
    """`server`, `litellm`, `file`, `hf`, or the name of a plugin such as `policy`."""

    options: dict[str, JsonValue]
    """What the kind takes: a `path`, or the fields of a `ModelConfig`."""

    spec: str
    """As it was given."""


_YAML: Final = frozenset({".yaml", ".yml"})
_FORM: Final = (
    "write NAME=KIND:WHERE, the KIND policy, hf, server, litellm or file, "
    "such as base=policy:runs/first/base"
)
_JUDGE: Final = "; a further judge's file needs a --judge of its own"


def parse_models(texts: Sequence[str]) -> tuple[ModelSpec, ...]:
    """Read what a command was given: any of `NAME=KIND:WHERE` and YAML files of models.

    Returns:
        The models, in order.

    Raises:
        ConfigError: no model is given, one is malformed, or a name occurs twice.
    """
    specs: list[ModelSpec] = []
    for text in texts:
        is_file = "=" not in text and Path(text).suffix in _YAML
        specs += read_models(Path(text)) if is_file else [parse_model(text)]
    if not specs:
        raise EvalConfigError(f"no model is named: {_FORM}")
    ((name, count),) = Counter(spec.name for spec in specs).most_common(1)
    if count > 1:
        raise EvalConfigError(
            f"two models are called {name!r}: give each a name of its own"
        )
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
        raise EvalConfigError(
            f"{shown!r} names no model: {_FORM}{_JUDGE if is_file else ''}"
        )
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
        raise EvalConfigError(
            f"{path}: needs `models:` with NAME: KIND:WHERE below, and nothing else{_JUDGE}"
        )
    return tuple(
        _entry(path, str(name), entry)
        for name, entry in cast("dict[object, object]", models).items()
    )


def _entry(path: Path, name: str, entry: object) -> ModelSpec:
    source = f"{yaml_place(path, ('models', name))}: models.{shown_name(name)}"
    if isinstance(entry, str):
        kind, colon, where = entry.partition(":")
        if not colon or not where.strip():
            raise EvalConfigError(
                f"{source}: write KIND:WHERE, such as policy:runs/first/base"
            )
        options = _options(kind, where)
        text = f"{name}={entry}"
    elif isinstance(entry, dict):
        options = dict(cast("dict[str, JsonValue]", entry))
        kind = options.pop("kind", None)
        text = f"{name} in {path}"
    else:
        raise EvalConfigError(f"{source}: write KIND:WHERE, or keys with `kind`")
    if not isinstance(kind, str):
        raise EvalConfigError(f"{source}: needs `kind`, one of {', '.join(_kinds())}")
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
    given = {key: options.get(key) for key in ("path", "litellm_config")}
    paths = {
        key: str(folder / value)
        for key, value in given.items()
        if isinstance(value, str)
    }
    return {**options, **paths}


def _spec(
    name: str, kind: str, options: Mapping[str, JsonValue], *, text: str, source: str
) -> ModelSpec:
    known = _kinds()
    if kind not in known:
        wrong = f"{shown_name(kind)!r} is no kind of model: {kind_remedy(kind, known)}"
        raise EvalConfigError(f"{source}: {wrong}")
    try:
        return ModelSpec(name=name, kind=kind, options=dict(options), spec=text)
    except ValidationError:
        raise EvalConfigError(
            f"{source}: a name has letters, digits, dots, dashes and underscores, starts with "
            "a letter or digit, and is at most 64 characters long"
        ) from None


def _kinds() -> tuple[str, ...]:
    return tuple(sorted({*CHAT, HARNESS, *responder_names()}))


_OWNER: Final = "vllm"
"""The server that is known to answer."""
TEXT: Final[str] = toml_beside(__file__, "spec.toml")["text"]
"""Prose, steps, code, another language and a formula: training that changes a model changes what
it expects of some of them."""
_DIGITS: Final = 5

SAME: Final = 0.005
"""Greatest mean difference, in nats a token, of which nothing is said."""
OTHER: Final = 0.05
"""From this difference on it is another model; one model on other hardware, or in another batch,
differs by less in 16-bit numbers."""


class Weights(Record):
    """What a server's model makes of the text."""

    text_sha256: str
    """Of the text, which another version may change."""

    tokens_sha256: str
    """Of the text's tokens: another tokenizer is another model."""

    logprobs_T: tuple[float, ...] = Field(min_length=1)
    """Of each token after those before it."""

    def difference(self, other: Weights) -> float | None:
        """Return the mean difference of the tokens' log-probabilities, in nats.

        Returns:
            Infinity for other tokens; None where the two are of different texts.
        """
        if self.text_sha256 != other.text_sha256:
            return None
        if self.tokens_sha256 != other.tokens_sha256:
            return math.inf
        pairs = zip(self.logprobs_T, other.logprobs_T, strict=True)
        return fmean(abs(one - another) for one, another in pairs)


async def weights_of(server: ModelServer, owner: str | None) -> Weights | None:
    """Ask a server; None where it is not vLLM, or does not say.

    Args:
        server: the model's.
        owner: who serves, as it says itself.
    """
    if owner != _OWNER or (scored := await server.score(TEXT)) is None:
        return None
    return Weights(
        text_sha256=text_sha256(TEXT),
        tokens_sha256=text_sha256(json.dumps(scored.token_ids)),
        logprobs_T=tuple(round(logprob, _DIGITS) for logprob in scored.logprobs),
    )
