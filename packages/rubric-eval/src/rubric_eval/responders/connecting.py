"""Chat models behind a server, and how a specification becomes one."""

import math
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast, get_args

import anyio
from pydantic import Field, JsonValue, StrictBool

from rubric_core import Ask, Decoding, Finish, Reason, Reply, ResponderError, Thoughts
from rubric_core.configuration import Source, validated
from rubric_core.schema.sealed import Many
from rubric_eval.errors import EvalConfigError
from rubric_eval.responders.spec import OTHER, ModelSpec, Weights, weights_of
from rubric_eval.responders.thinking import Thinking, identity_of, thinking_of
from rubric_judge import (
    ChatModel,
    ChatReply,
    JudgeTransportError,
    ModelConfig,
    ModelServer,
    ServedModel,
)
from rubric_judge.yaml_files import read_yaml, yaml_place

_AT_ONCE: Final = 64
_TEMPLATE_BYTES: Final = 512
"""More than what a usual chat template puts around a question."""
VLLM: Final = "vllm"
"""The owner of a model that vLLM serves, as vLLM says."""
VLLM_ROUTE: Final = "hosted_vllm/"
Sampling: TypeAlias = Literal["seed", "stop", "temperature", "top_k", "top_p"]
"""Fields of a decoding that a model may refuse."""


class ChatConfig(ModelConfig):
    """A model that answers, behind a server."""

    takes_seed: StrictBool = True
    """Whether requests name a seed; without, draws cannot be made again."""

    leaves_out: Many[Sampling] = ()
    """Fields of the decoding that the model refuses, as OpenAI's gpt-5 and o-series refuse
    `temperature`: it is asked without, and decodes as its provider has it. The record says so."""

    checks_weights: StrictBool = True
    """Whether the server is asked what its model makes of a fixed text."""

    thoughts: Thoughts = "cut"
    """How thoughts are told from answers: `cut`, `opened` where the server's chat template opens
    one in the prompt and the server is not vLLM, which says so, or `kept`."""

    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    """Names that the server's chat template is given, such as `enable_thinking: false`."""

    @property
    def template_arguments(self) -> dict[str, JsonValue]:
        """Those among the parameters too."""
        among = self.parameters.get("chat_template_kwargs")
        return {
            **(among if isinstance(among, dict) else {}),
            **self.chat_template_kwargs,
        }


class ChatResponder:
    """Answers of one model, several at a time; a `Responder`."""

    def __init__(
        self,
        config: ChatConfig,
        served: ServedModel | None,
        *,
        weights: Weights | None = None,
        thinking: Thinking | None = None,
    ) -> None:
        """Take the model; nothing is sent.

        Args:
            config: model, address, limits.
            served: what its server says of it, where it has one that does.
            weights: what it makes of a fixed text, where its server says.
            thinking: how its answers are read; as the configuration has it when left out.

        Raises:
            JudgeSetupError: a variable is named for a key that is not set.
            ConfigError: the `litellm_config` cannot be used.
        """
        self._config = config
        self._served = served
        usual = Thinking(config.thoughts, config.template_arguments)
        self._thinking = thinking or usual
        self.weights = weights
        """What tells it from another model of the same name; no part of its identity."""
        # Each question says how it is decoded, or leaves it out.
        self._model = ChatModel(
            config.model_copy(update={"temperature": None}), role="model"
        )
        self._server: ModelServer | None = None
        address = next(addresses(config), None)
        if address is not None and served is not None and served.positions is not None:
            self._server = ModelServer(config, address)

    @property
    def prompt_form(self) -> str:
        """A server takes messages."""
        return "chat"

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """The model, its deployments and parameters, and its weights as the server names them."""
        served = self._served
        told = self._model.identity
        return {
            "kind": "chat",
            "model": self._config.model.removeprefix(VLLM_ROUTE),
            "transport": cast("JsonValue", told["transport"]),
            "deployments": cast("JsonValue", told["deployments"]),
            "parameters": dict(self._config.parameters),
            **{
                name: getattr(served, name, None)
                for name in ("root", "parent", "positions")
            },
            "takes_seed": self._config.takes_seed,
            **_further_identity(self._config, told),
            **identity_of(self._config.thoughts, self._config.chat_template_kwargs),
        }

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncGenerator[tuple[int, Reply]]:
        """Answer questions as they are done; see `Responder.respond`."""
        await self._refuse_unsendable(decoding)
        send, receive = anyio.create_memory_object_stream[tuple[int, Reply]](math.inf)
        order = iter(range(len(asks)))

        async def work() -> None:
            for index in order:
                send.send_nowait((index, await self._reply(asks[index], decoding)))

        at_once = self._config.limits.max_in_flight or _AT_ONCE
        # The workers end first: one may be about to send when they are told to.
        async with send, receive, anyio.create_task_group() as workers:
            for _ in range(min(at_once, len(asks))):
                workers.start_soon(work)
            try:
                for _ in asks:
                    yield await receive.receive()
            except GeneratorExit:  # nobody waits any more; a task group would wrap it
                workers.cancel_scope.cancel()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._server is not None:
            await self._server.aclose()
        await self._model.aclose()

    async def _reply(self, ask: Ask, decoding: Decoding) -> Reply:
        fields = self._fields(ask, decoding) | self._thinking.fields
        room = await self._room(ask.view.message, decoding.max_tokens)
        if room is not None:
            if room < 1:
                why = "the prompt alone is longer than the model's context"
                return Reply.unavailable(Reason.BAD_REQUEST, why)
            fields["max_tokens"] = min(room, decoding.max_tokens)
        try:
            answer = await self._model.answer(
                ask.view.message, parameters=fields, affinity=ask.view.task_id
            )
        except JudgeTransportError as error:
            detail = error.detail
            if error.refused in get_args(Sampling):
                detail = _REFUSED.format(field=error.refused)
            return Reply.unavailable(error.reason, detail)
        return self._read(answer)

    def _read(self, reply: ChatReply) -> Reply:
        if reply.finish in _UNREAD:
            return Reply.unavailable(*_UNREAD[reply.finish])
        if reply.finish == "full" and not reply.text and not reply.has_thought:
            why = (
                "the prompt and the answer's tokens are longer than the model's context"
            )
            return Reply.unavailable(Reason.BAD_REQUEST, why)
        if why := self._thinking.refuses(reply):
            return Reply.unavailable(Reason.BAD_REQUEST, why)
        return Reply.of_completion(
            self._thinking.answer(reply),
            finish=_FINISH.get(reply.finish, Finish.REFUSED),
            tokens=reply.usage.completion_tokens if reply.usage else None,
        )

    async def _room(self, question: str, wanted: int) -> int | None:
        """Tokens that are left for an answer; None where all that are wanted surely fit."""
        served = self._served
        if served is None or served.positions is None or self._server is None:
            return None
        # No tokenizer makes more tokens of a text than it has bytes.
        if len(question.encode()) + _TEMPLATE_BYTES + wanted <= served.positions:
            return None
        arguments = self._thinking.arguments
        tokens = await self._server.prompt_tokens(question, arguments=arguments)
        return None if tokens is None else served.positions - tokens

    def _fields(self, ask: Ask, decoding: Decoding) -> dict[str, JsonValue]:
        """Return the fields of a decoding; neutral values of all others are the transport's."""
        fields: dict[str, JsonValue] = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.max_tokens,
        }
        if self._config.takes_seed:
            fields["seed"] = ask.seed
        if decoding.stop:
            fields["stop"] = list(decoding.stop)
        if decoding.top_k is not None:
            fields["top_k"] = decoding.top_k
        return {
            name: it
            for name, it in fields.items()
            if name not in self._config.leaves_out
        }

    async def _refuse_unsendable(self, decoding: Decoding) -> None:
        fields = ["max_tokens", *(["seed"] if self._config.takes_seed else [])]
        fields += [*(["stop"] if decoding.stop else []), "temperature", "top_p"]
        fields = [name for name in fields if name not in self._config.leaves_out]
        try:
            refused = await self._model.unsupported(fields)
        except JudgeTransportError as error:
            why = f"the model {self._config.model!r} cannot be asked: {error.detail}"
            raise ResponderError(why) from None
        if refused:
            names = ", ".join(refused)
            if refused == ("seed",):
                raise EvalConfigError(
                    f"litellm does not send {names} to {self._config.model!r}, and so it would "
                    "not be asked as the others are: set `takes_seed: false` in a file of "
                    "models, and its draws cannot be made again"
                )
            raise EvalConfigError(
                f"litellm does not send {names} to {self._config.model!r}, and so it would not "
                f"be asked as the others are: set `leaves_out: [{names}]` in its file of models, "
                "and it is asked without and the record says so, or leave the model out"
            )


_REFUSED: Final = (
    "the model does not take `{field}`: set `leaves_out: [{field}]` in its file of "
    "models"
)
_UNREAD: Final = {
    "oversized": (Reason.SERVER_ERROR, "the answer exceeds the size limit"),
    "unsaid": (
        Reason.SERVER_ERROR,
        "the finish_reason is missing or unknown: it may be cut off",
    ),
}


def _further_identity(
    config: ChatConfig, told: Mapping[str, object]
) -> dict[str, JsonValue]:
    """Return what did not always exist, where it is not as it was."""
    known: dict[str, JsonValue] = {}
    if config.leaves_out:
        known["leaves_out"] = [*sorted(config.leaves_out)]
    if "decoding" in told:
        known["decoding"] = str(told["decoding"])
    return known


_FINISH: Final = dict.fromkeys(("truncated", "full"), Finish.TRUNCATED) | {
    "complete": Finish.COMPLETE
}


def addresses(config: ModelConfig) -> Iterator[str]:
    """Return where a model is served; nothing where litellm knows."""
    return (address for address in config.addresses if address is not None)


_Served: TypeAlias = "tuple[ServedModel | None, Weights | None]"
"""What a server says of its model, and what that makes of a fixed text; None where it does not."""

_OF_DECODING: Final = frozenset(
    {"max_tokens", "seed", "stop", "temperature", "top_k", "top_p"}
)
_NEUTRAL: Final = frozenset(
    {
        "frequency_penalty",
        "min_p",
        "presence_penalty",
        "repeat_penalty",
        "repetition_penalty",
    }
)
"""Of these every model is asked for the value that changes nothing, where its server takes them."""


async def open_chat(spec: ModelSpec) -> ChatResponder:
    """Read a model's configuration, and ask its server what it serves.

    Raises:
        ConfigError: the configuration does not fit, or the server has no such model.
        JudgeSetupError: nobody serves it, or a key is not set.
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
    spec: ModelSpec, config: ChatConfig, served: ServedModel | None
) -> Thinking | None:
    """Ask the server how it thinks, where it is vLLM, which says so."""
    address = next(addresses(config), None)
    if address is None or served is None or served.owner != VLLM:
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
        beside = options.get("litellm_config")
        if isinstance(beside, str):
            options["litellm_config"] = str(path.parent / beside)
    elif spec.kind == "server":
        options.setdefault("transport", "direct")
    parameters = options.get("parameters")
    named = set(options) | set(parameters if isinstance(parameters, dict) else ())
    if wrong := sorted(named & _OF_DECODING):
        raise EvalConfigError(
            f"model {spec.name!r}: {', '.join(wrong)} may not stand there, for all models are "
            "asked alike: leave it out, and give it to the command (--temperature, --top-p, "
            "--top-k, --max-tokens, --stop)"
        )
    if wrong := sorted(named & _NEUTRAL):
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
                "behind #"
            )
        if served_model is None or not config.checks_weights:
            return served_model, None
        return served_model, await weights_of(server, served_model.owner)


def _refuse_different(
    spec: ModelSpec, config: ModelConfig, served: Sequence[_Served]
) -> None:
    """Refuse addresses that serve different models."""
    weights = [one for _, one in served if one is not None]
    differences = [weight.difference(weights[0]) or 0.0 for weight in weights[1:]]
    names = {
        model and (model.name, model.root, model.parent, model.positions)
        for model, _ in served
    }
    if len(names) > 1 or max(differences, default=0.0) > OTHER:
        raise EvalConfigError(
            f"model {spec.name!r}: its addresses serve different models under the name "
            f"{config.model!r}: give one address, or replicas of one model"
        )


async def _only_model(spec: ModelSpec, options: Mapping[str, JsonValue]) -> str:
    config = validated(
        ChatConfig, {**options, "model": "any"}, source=f"model {spec.name!r}"
    )
    (address, *_) = addresses(config)
    async with ModelServer(config, address) as server:
        models = await server.models()
    if len(models) != 1:
        raise EvalConfigError(
            f"model {spec.name!r}: {address!r} names {len(models)} models: write "
            f"server:{address}#MODEL"
        )
    return models[0].name
