"""From a specification to a chat model: its configuration, and what its server says of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pydantic import JsonValue, ValidationError

from rubric_core import ConfigError, config_error
from rubric_eval.responders.chat import VLLM_ROUTE, ChatResponder, addresses
from rubric_eval.responders.weights import OTHER, weights_of
from rubric_judge import ModelConfig, ModelServer, ServedModel
from rubric_judge.yaml_files import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rubric_eval.responders.spec import ModelSpec
    from rubric_eval.responders.weights import Weights

_OF_DECODING: Final = frozenset(
    {"max_tokens", "min_p", "repetition_penalty", "seed", "stop", "temperature", "top_k", "top_p"}
)


async def open_chat(spec: ModelSpec) -> ChatResponder:
    """Read a model's configuration, and ask its server what it serves.

    Raises:
        ConfigError: the configuration does not fit, or the server has no such model.
        JudgeSetupError: nobody serves it, or a key is not set.
    """
    options = _options(spec)
    takes_seed, checks_weights = (
        _flag(spec, options, name) for name in ("takes_seed", "checks_weights")
    )
    if "model" not in options and spec.kind == "server":
        options["model"] = await _only_model(spec, options)
    config = _config(spec, options)
    served = [
        await _served(spec, config, address, checks_weights=checks_weights)
        for address in addresses(config)
    ]
    _refuse_different(spec, config, served)
    model, weights = served[0] if served else (None, None)
    return ChatResponder(config, model, weights=weights, takes_seed=takes_seed)


def _options(spec: ModelSpec) -> dict[str, JsonValue]:
    options = dict(spec.options)
    if spec.kind == "file":
        path = Path(str(options.get("path")))
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: needs the fields of a model, such as `model: …`")
        options = dict(cast("dict[str, JsonValue]", content))
        beside = options.get("litellm_config")
        if isinstance(beside, str):
            options["litellm_config"] = str(path.parent / beside)
    elif spec.kind == "server":
        options.setdefault("transport", "direct")
    parameters = options.get("parameters")
    named = set(options) | set(parameters if isinstance(parameters, dict) else ())
    if wrong := sorted(named & _OF_DECODING):
        raise ConfigError(
            f"model {spec.name!r}: {', '.join(wrong)} may not stand there, for all models are "
            "asked alike: leave it out, and give it to the command"
        )
    return options


def _flag(spec: ModelSpec, options: dict[str, JsonValue], name: str) -> bool:
    """Take an option that is no field of a `ModelConfig`; true where it is left out."""
    value = options.pop(name, True)
    if not isinstance(value, bool):
        raise ConfigError(f"model {spec.name!r}: {name} is true or false")
    return value


def _config(spec: ModelSpec, options: Mapping[str, JsonValue]) -> ModelConfig:
    try:
        return ModelConfig.model_validate(options)
    except ValidationError as error:
        raise config_error(error, model=ModelConfig, source=f"model {spec.name!r}") from None


async def _served(
    spec: ModelSpec, config: ModelConfig, address: str, *, checks_weights: bool
) -> tuple[ServedModel | None, Weights | None]:
    async with ModelServer(config, address) as server:
        models = await server.models()
        name = config.model.removeprefix(VLLM_ROUTE).removeprefix("openai/")
        found = next((model for model in models if model.name == name), None)
        if models and found is None:
            known = ", ".join(repr(model.name) for model in models)
            raise ConfigError(
                f"model {spec.name!r}: {address!r} serves no {name!r}, but {known}: name one "
                "behind #"
            )
        if found is None or not checks_weights:
            return found, None
        return found, await weights_of(server, found.owner)


def _refuse_different(
    spec: ModelSpec,
    config: ModelConfig,
    served: Sequence[tuple[ServedModel | None, Weights | None]],
) -> None:
    """Refuse replicas that are none."""
    weights = [one for _, one in served if one is not None]
    differences = [one.difference(weights[0]) or 0.0 for one in weights[1:]]
    if len({_named(one) for one, _ in served}) > 1 or max(differences, default=0.0) > OTHER:
        raise ConfigError(
            f"model {spec.name!r}: its addresses serve different models under the name "
            f"{config.model!r}: give one address, or replicas of one model"
        )


async def _only_model(spec: ModelSpec, options: Mapping[str, JsonValue]) -> str:
    config = _config(spec, {**options, "model": "any"})
    (address, *_) = addresses(config)
    async with ModelServer(config, address) as server:
        models = await server.models()
    if len(models) != 1:
        raise ConfigError(
            f"model {spec.name!r}: {address!r} names {len(models)} models: write "
            f"server:{address}#MODEL"
        )
    return models[0].name


def _named(served: ServedModel | None) -> tuple[object, ...]:
    if served is None:
        return ()
    return (served.name, served.root, served.parent, served.positions)
