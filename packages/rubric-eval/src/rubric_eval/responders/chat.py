"""Chat models behind a server: their configuration, and their answers."""

import math
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Literal, cast, get_args

import anyio
from pydantic import Field, JsonValue, StrictBool

from rubric_core import Ask, Decoding, Finish, Reason, Reply, ResponderError, Thoughts
from rubric_core.schema.sealed import Many
from rubric_eval.errors import EvalConfigError
from rubric_eval.responders.spec import Weights
from rubric_eval.responders.thinking import Thinking, identity_of
from rubric_judge import (
    ChatModel,
    ChatReply,
    JudgeTransportError,
    ModelConfig,
    ModelServer,
    ServedModel,
)

_AT_ONCE = 64
_TEMPLATE_BYTES = 512
"""Bytes that a chat template adds to a question, at most for the usual ones."""
VLLM_ROUTE = "hosted_vllm/"
Sampling = Literal["seed", "stop", "temperature", "top_k", "top_p"]
"""Fields of a decoding that a model may refuse."""


class ChatConfig(ModelConfig):
    """Configuration of a model that answers behind a server."""

    takes_seed: StrictBool = True
    """Whether requests name a seed; without one, draws cannot be repeated."""

    leaves_out: Many[Sampling] = ()
    """Fields of the decoding that the model refuses, as OpenAI's gpt-5 and o-series refuse
    `temperature`: requests omit them, and the provider's defaults apply. The record says so."""

    checks_weights: StrictBool = True
    """Whether the server is asked to score a fixed text with its model."""

    thoughts: Thoughts = "cut"
    """How thoughts are separated from answers: `cut`; `opened` if the server's chat template opens
    one in the prompt and the server is not vLLM, which reports it; or `kept`."""

    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the server's chat template, such as `enable_thinking: false`."""

    @property
    def template_arguments(self) -> dict[str, JsonValue]:
        """Arguments of the chat template, including those among the parameters."""
        parameter = self.parameters.get("chat_template_kwargs")
        arguments = dict(parameter) if isinstance(parameter, dict) else {}
        return arguments | self.chat_template_kwargs


class ChatResponder:
    """A `Responder` that asks one model several questions at a time."""

    def __init__(
        self,
        config: ChatConfig,
        served: ServedModel | None,
        *,
        weights: Weights | None = None,
        thinking: Thinking | None = None,
    ) -> None:
        """Set up the model; nothing is sent.

        Args:
            config: model, address, limits.
            served: description of the model by its server, if there is one.
            weights: log-probabilities of a fixed text, if the server reports them.
            thinking: rules to read its answers; by default those of the configuration.

        Raises:
            JudgeSetupError: the variable that is named for a key is not set.
            ConfigError: the `litellm_config` cannot be used.
        """
        self._config = config
        self._served = served
        usual = Thinking(config.thoughts, config.template_arguments)
        self._thinking = thinking or usual
        self.weights = weights
        """Fingerprint that tells models of one name apart; not part of the identity."""
        # Each request has its own settings of decoding, or omits them.
        self._model = ChatModel(
            config.model_copy(update={"temperature": None}), role="model"
        )
        self._server: ModelServer | None = None
        address = next(addresses(config), None)
        if address is not None and served is not None and served.positions is not None:
            self._server = ModelServer(config, address)

    @property
    def prompt_form(self) -> str:
        """Form of prompts: a server takes messages."""
        return "chat"

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """Model, deployments and parameters, and the server's names of its weights."""
        served = self._served
        transport = self._model.identity
        return {
            "kind": "chat",
            "model": self._config.model.removeprefix(VLLM_ROUTE),
            "transport": cast("JsonValue", transport["transport"]),
            "deployments": cast("JsonValue", transport["deployments"]),
            "parameters": dict(self._config.parameters),
            "root": served.root if served else None,
            "parent": served.parent if served else None,
            "positions": served.positions if served else None,
            "takes_seed": self._config.takes_seed,
            **_further_identity(self._config, transport),
            **identity_of(self._config.thoughts, self._config.chat_template_kwargs),
        }

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncGenerator[tuple[int, Reply]]:
        """Answer questions, and yield each reply when it is done; see `Responder.respond`."""
        await self._refuse_unsendable(decoding)
        send, receive = anyio.create_memory_object_stream[tuple[int, Reply]](math.inf)
        order = iter(range(len(asks)))

        async def work() -> None:
            for index in order:
                reply = await self._reply(asks[index], decoding)
                send.send_nowait((index, reply))

        at_once = self._config.limits.max_in_flight or _AT_ONCE
        # The workers end before the stream: one may be about to send when they are cancelled.
        async with send, receive, anyio.create_task_group() as workers:
            for _ in range(min(at_once, len(asks))):
                workers.start_soon(work)
            try:
                for _ in asks:
                    yield await receive.receive()
            except GeneratorExit:
                # The caller left; a task group would wrap the exception.
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
            *before, last = ask.view.messages
            answer = await self._model.answer(
                last["content"],
                before=before,
                parameters=fields,
                affinity=ask.view.task_id,
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
        why = self._thinking.refuses(reply)
        if why:
            return Reply.unavailable(Reason.BAD_REQUEST, why)
        return Reply.of_completion(
            self._thinking.answer(reply),
            finish=_FINISH.get(reply.finish, Finish.REFUSED),
            tokens=reply.usage.completion_tokens if reply.usage else None,
        )

    async def _room(self, question: str, max_tokens: int) -> int | None:
        """Return the number of tokens left for an answer; None if `max_tokens` surely fit."""
        served = self._served
        if served is None or served.positions is None or self._server is None:
            return None
        # A text never has more tokens than bytes.
        prompt_bytes = len(question.encode()) + _TEMPLATE_BYTES
        if prompt_bytes + max_tokens <= served.positions:
            return None
        arguments = self._thinking.arguments
        tokens = await self._server.prompt_tokens(question, arguments=arguments)
        if tokens is None:
            return None
        return served.positions - tokens

    def _fields(self, ask: Ask, decoding: Decoding) -> dict[str, JsonValue]:
        """Return the fields of a decoding; the transport adds neutral values of all others."""
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
        for name in self._config.leaves_out:
            fields.pop(name, None)
        return fields

    async def _refuse_unsendable(self, decoding: Decoding) -> None:
        fields = ["max_tokens"]
        if self._config.takes_seed:
            fields.append("seed")
        if decoding.stop:
            fields.append("stop")
        fields += ["temperature", "top_p"]
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


_REFUSED = (
    "the model does not take `{field}`: set `leaves_out: [{field}]` in its file of "
    "models"
)
_UNREAD = {
    "oversized": (Reason.SERVER_ERROR, "the answer exceeds the size limit"),
    "unsaid": (
        Reason.SERVER_ERROR,
        "the finish_reason is missing or unknown: it may be cut off",
    ),
}


def _further_identity(
    config: ChatConfig, transport: Mapping[str, object]
) -> dict[str, JsonValue]:
    """Return entries of later versions, if they differ from the behaviour of earlier ones."""
    identity: dict[str, JsonValue] = {}
    if config.leaves_out:
        identity["leaves_out"] = [*sorted(config.leaves_out)]
    if "decoding" in transport:
        identity["decoding"] = str(transport["decoding"])
    return identity


_FINISH = dict.fromkeys(("truncated", "full"), Finish.TRUNCATED) | {
    "complete": Finish.COMPLETE
}


def addresses(config: ModelConfig) -> Iterator[str]:
    """Return the addresses of a model; none if litellm knows the address."""
    return (address for address in config.addresses if address is not None)
