"""Opening of chat models behind a server, from a specification."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from rubric_core.configuration import Source, validated
from rubric_eval.errors import EvalConfigError
from rubric_eval.responders.chat import ChatConfig, ChatResponder, addresses
from rubric_eval.responders.spec import OTHER, ModelSpec, Weights, weights_of
from rubric_eval.responders.thinking import Thinking, thinking_of
from rubric_judge import ModelConfig, ModelServer, ServedModel
from rubric_judge.ui.yaml_files import read_yaml, yaml_place

_VLLM = "vllm"
"""Owner that vLLM reports for a model that it serves."""
_Served = tuple[ServedModel | None, Weights | None]
"""A server's description of its model, and the weights' fingerprint; None if not reported."""

_OF_DECODING = frozenset(
    {"max_tokens", "seed", "stop", "temperature", "top_k", "top_p"}
)
"""Fields that the command gives, the same for all models."""
_NEUTRAL = frozenset(
    {
        "frequency_penalty",
        "min_p",
        "presence_penalty",
        "repeat_penalty",
        "repetition_penalty",
    }
)
"""Fields that are sent with their neutral value to every server that takes them."""


async def open_chat(spec: ModelSpec) -> ChatResponder:
    """Read a model's configuration, and ask its server what it serves.

    Raises:
        ConfigError: the configuration does not fit, or the server has no such model.
        JudgeSetupError: no server serves it, or a key is not set.
    """
    options = _options(spec)
    if "model" not in options and spec.kind == "server":
        options["model"] = await _only_model(spec, options)
    config = validated(ChatConfig, options, source=_source(spec))
    served = [await _served(spec, config, address) for address in addresses(config)]
    _refuse_different(spec, config, served)
    model, weights = served[0] if served else (None, None)
    thinking = await _thinking(spec, config, model)
    return ChatResponder(config, model, weights=weights, thinking=thinking)


async def _thinking(
    spec: ModelSpec,
    config: ChatConfig,
    served: ServedModel | None,
) -> Thinking | None:
    """Ask vLLM how its model thinks; None for any other server."""
    address = next(addresses(config), None)
    if address is None or served is None or served.owner != _VLLM:
        return None
    async with ModelServer(config, address) as server:
        arguments = config.template_arguments
        return await thinking_of(server, config.thoughts, arguments, name=spec.name)


def _options(spec: ModelSpec) -> dict[str, JsonValue]:
    options = dict(spec.options)
    if spec.kind == "file":
        path = Path(str(options.get("path")))
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise EvalConfigError(
                f"{path}: needs the fields of a model, such as `model: …`"
            )
        options = dict(cast("dict[str, JsonValue]", content))
        litellm_config = options.get("litellm_config")
        if isinstance(litellm_config, str):
            options["litellm_config"] = str(path.parent / litellm_config)
    elif spec.kind == "server":
        options.setdefault("transport", "direct")
    parameters = options.get("parameters")
    named = set(options)
    if isinstance(parameters, dict):
        named.update(parameters)
    wrong = sorted(named & _OF_DECODING)
    if wrong:
        raise EvalConfigError(
            f"model {spec.name!r}: {', '.join(wrong)} may not stand there, for all models are "
            "asked alike: leave it out, and give it to the command (--temperature, --top-p, "
            "--top-k, --max-tokens, --stop)"
        )
    wrong = sorted(named & _NEUTRAL)
    if wrong:
        raise EvalConfigError(
            f"model {spec.name!r}: {', '.join(wrong)} may not stand there: all models are asked "
            "for the value that changes nothing (1.0 of a repetition penalty, else 0), where "
            "their server takes the field; leave it out"
        )
    return options


def _source(spec: ModelSpec) -> Source:
    if spec.kind != "file":
        return f"model {spec.name!r}"
    path = Path(str(spec.options.get("path")))
    return lambda keys: f"model {spec.name!r}: {yaml_place(path, keys)}"


async def _served(spec: ModelSpec, config: ChatConfig, address: str) -> _Served:
    async with ModelServer(config, address) as server:
        models = await server.models()
        name = config.served_name
        served_model = next((model for model in models if model.name == name), None)
        if models and served_model is None:
            known = ", ".join(repr(model.name) for model in models)
            raise EvalConfigError(
                f"model {spec.name!r}: {address!r} serves no {name!r}, but {known}: name one "
                "after #"
            )
        if served_model is None or not config.checks_weights:
            return served_model, None
        return served_model, await weights_of(server, served_model.owner)


def _refuse_different(
    spec: ModelSpec,
    config: ModelConfig,
    served: Sequence[_Served],
) -> None:
    """Refuse addresses that serve different models."""
    known = [weights for _, weights in served if weights is not None]
    differences = [weights.difference(known[0]) or 0.0 for weights in known[1:]]
    descriptions = {model and _description(model) for model, _ in served}
    if len(descriptions) > 1 or max(differences, default=0.0) > OTHER:
        raise EvalConfigError(
            f"model {spec.name!r}: its addresses serve different models under the name "
            f"{config.model!r}: give one address, or replicas of one model"
        )


def _description(model: ServedModel) -> tuple[object, ...]:
    """Return how a server describes a model, the same for each replica."""
    return (
        model.name,
        model.root,
        model.parent,
        model.positions,
    )


async def _only_model(spec: ModelSpec, options: Mapping[str, JsonValue]) -> str:
    """Return the name of the one model that a server has, where the specification names none."""
    values = {**options, "model": "any"}
    config = validated(ChatConfig, values, source=f"model {spec.name!r}")
    address, *_ = addresses(config)
    async with ModelServer(config, address) as server:
        models = await server.models()
    if len(models) != 1:
        raise EvalConfigError(
            f"model {spec.name!r}: {address!r} names {len(models)} models: write "
            f"server:{address}#MODEL"
        )
    return models[0].name
