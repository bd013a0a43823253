"""Specifications of models, and fingerprints of the weights behind a server."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import cast

from pydantic import Field, JsonValue, ValidationError

from rubric_core import responder_names
from rubric_core.configuration import kind_remedy, shown_name
from rubric_core.files import text_sha256, toml_beside
from rubric_eval.errors import EvalConfigError
from rubric_eval.records.run import Name, Record
from rubric_judge import ModelServer
from rubric_judge.ui.yaml_files import read_yaml, yaml_place

CHAT = ("server", "litellm", "file")
"""Kinds that are called over a network, with the fields of `rubric_judge.ModelConfig`."""

HARNESS = "hf"
"""Kind of the folders that lm-eval loads; every other kind belongs to a plugin."""


class ModelSpec(Record):
    """One model of an evaluation, before it is opened."""

    name: Name
    """Name in tables and file names."""

    kind: str = Field(min_length=1)
    """Kind: `server`, `litellm`, `file`, `hf`, or the name of a plugin such as `policy`."""

    options: dict[str, JsonValue]
    """Options of the kind: a `path`, or the fields of a `ModelConfig`."""

    spec: str
    """Specification as the user wrote it."""


_YAML = frozenset({".yaml", ".yml"})
_FORM = (
    "write NAME=KIND:WHERE, the KIND policy, hf, server, litellm or file, "
    "such as base=policy:runs/first/base"
)
_JUDGE = "; a further judge's file needs a --judge of its own"


def parse_models(texts: Sequence[str]) -> tuple[ModelSpec, ...]:
    """Read the models of a command line: any of `NAME=KIND:WHERE` and YAML files of models.

    Returns:
        The models, in order.

    Raises:
        ConfigError: no model is given, one is malformed, or a name occurs twice.
    """
    specs: list[ModelSpec] = []
    for text in texts:
        is_file = "=" not in text and Path(text).suffix in _YAML
        if is_file:
            specs += read_models(Path(text))
        else:
            specs.append(parse_model(text))
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
        ConfigError: the text is none of these; the error says what to write.
    """
    name, equals, rest = text.partition("=")
    kind, colon, where = rest.partition(":")
    if not (equals and colon and name and where.strip()):
        wrong_name = shown_name(name if equals else text)
        hint = _JUDGE if Path(rest).suffix in _YAML else ""
        raise EvalConfigError(f"{wrong_name!r} names no model: {_FORM}{hint}")
    return _spec(name, kind, _options(kind, where), text=text, source=f"model {name!r}")


def read_models(path: Path) -> tuple[ModelSpec, ...]:
    """Read a YAML file of models.

        models:
          base: policy:runs/first/base
          tuned: {kind: policy, path: runs/first/best, device: cuda}
          remote: {kind: server, model: served, api_base: "http://127.0.0.1:8000/v1"}

    Paths are relative to the file.

    Raises:
        ConfigError: the file cannot be read or names no models; the error says file and key.
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
            options: dict[str, JsonValue] = {"api_base": address}
            if model:
                options["model"] = model
            return options
        case "litellm":
            return {"model": where}
        case _:
            return {"path": where}


def _beside(folder: Path, options: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the options with their paths made relative to a folder."""
    resolved = dict(options)
    for key in ("path", "litellm_config"):
        value = options.get(key)
        if isinstance(value, str):
            resolved[key] = str(folder / value)
    return resolved


def _spec(
    name: str,
    kind: str,
    options: Mapping[str, JsonValue],
    *,
    text: str,
    source: str,
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


_OWNER = "vllm"
"""Owner of the models of the only server that is known to score texts."""
TEXT: str = toml_beside(__file__, "spec.toml")["text"]
"""Fixed text of prose, steps, code, another language and a formula: training that changes a model
changes its log-probabilities of some of them."""
_DIGITS = 5

SAME = 0.005
"""Mean difference in nats a token up to which models are taken as the same without a note."""
OTHER = 0.05
"""Mean difference from which on it is another model; the same model on other hardware, or in
another batch, differs by less in 16-bit numbers."""


class Weights(Record):
    """Log-probabilities of the fixed text by a server's model."""

    text_sha256: str
    """Hash of the text, which another version of this package may change."""

    tokens_sha256: str
    """Hash of the text's tokens: another tokenizer is another model."""

    logprobs_T: tuple[float, ...] = Field(min_length=1)
    """Log-probability of each token after those before it, in nats."""

    def difference(self, other: Weights) -> float | None:
        """Return the mean difference of the tokens' log-probabilities, in nats.

        Returns:
            Infinity if the tokens differ; None if the texts differ.
        """
        if self.text_sha256 != other.text_sha256:
            return None
        if self.tokens_sha256 != other.tokens_sha256:
            return math.inf
        pairs = zip(self.logprobs_T, other.logprobs_T, strict=True)
        return fmean(abs(first - second) for first, second in pairs)


async def weights_of(server: ModelServer, owner: str | None) -> Weights | None:
    """Ask a server to score the fixed text; None if it is not vLLM or does not answer.

    Args:
        server: server of the model.
        owner: owner of the model, as the server reports it.
    """
    if owner != _OWNER:
        return None
    scored = await server.score(TEXT)
    if scored is None:
        return None
    return Weights(
        text_sha256=text_sha256(TEXT),
        tokens_sha256=text_sha256(json.dumps(scored.token_ids)),
        logprobs_T=tuple(round(logprob, _DIGITS) for logprob in scored.logprobs),
    )
