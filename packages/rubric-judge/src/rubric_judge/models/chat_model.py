"""Language models: asked with a schema by judges and synthesis, and plainly for answers."""

import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from rubric_core import Answerer, Reason, Usage
from rubric_judge import events
from rubric_judge.errors import JudgeSetupError, JudgeTransportError
from rubric_judge.models import chat, direct, limits, retries, router_file
from rubric_judge.models.chat import ChatReply, ChatRequest, ClosesItself, answerer
from rubric_judge.models.litellm_client import LiteLLMClient
from rubric_judge.models.model_config import ModelConfig
from rubric_judge.models.replicas import Replica, Replicas, was_reached
from rubric_judge.models.settings import variable


# The answer to the question of `ChatModel.check`. A docstring would be sent to the model.
class _Ready(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ready: bool


_READY = "Are you ready?", 'Answer with JSON: {"ready": true}', _Ready


class ChatModel(ClosesItself):
    """Asks one model, on one or several replicas, with limits, retries and prices.

    Close it with `aclose`, or use it as an asynchronous context manager.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        client: chat.Transport | None = None,
        limiter: limits.Limiter | None = None,
        role: str = "model",
    ) -> None:
        """Read the key and the `litellm_config`; nothing is sent.

        Args:
            config: the model, its address, limits and prices.
            client: the transport of the attempts; by default one for the configuration.
            limiter: lets attempts through; by default one of this model's own.
            role: name of the model's role in messages, such as "judge".

        Raises:
            JudgeSetupError: the variable that the configuration names for the key is not set.
            ConfigError: the `litellm_config` cannot be used.
        """
        self._config = config
        self._role = role
        self._limiter = limiter or limits.LocalLimiter(config.limits)
        self._deployments = ""
        self.routes: tuple[str, ...] = (config.model,)
        """litellm's names of the models that may answer; with a router, of all deployments."""
        if config.litellm_config is not None:
            file = router_file.read_router_file(
                config.litellm_config, model=config.model
            )
            allowed = ["other models"] if config.allow_fallback_models else []
            self._deployments = json.dumps([file.identity(variable), *allowed])
            self.routes = file.routes(variable)
        transports = [client] if client else _transports(config)
        clients = [
            retries.RetryingClient(transport, config, self._limiter)
            for transport in transports
        ]
        servers = [chat.server_of(address) for address in config.addresses]
        self._servers = Replicas(clients, names=servers[: len(clients)])
        self._has_fallen_back = False
        self._first_models: dict[tuple[str, str], str] = {}
        """The model that answered first, for each deployment and fallback."""

    @property
    def limiter(self) -> limits.Limiter:
        """The limiter of its attempts."""
        return self._limiter

    @property
    def identity(self) -> dict[str, object]:
        """Everything that may change an answer to the same messages; no address and no key.

        A model has the same identity wherever it runs: replicas share their answers. The transport
        is part of it, since two transports may read an odd answer differently.
        """
        config = self._config
        # The configured name if `direct` is written out, otherwise the name that is sent.
        is_chosen = config.is_direct and config.transport is None
        return {
            "model": config.served_name if is_chosen else config.model,
            "transport": "direct" if config.is_direct else "litellm",
            "deployments": self._deployments,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "parameters": config.parameters,
            **_further_identity(config, self.routes),
        }

    async def complete(
        self,
        *,
        system: str,
        user: str,
        reply: type[BaseModel] | None,
        affinity: str = "",
    ) -> ChatReply:
        """Ask once; ask again only while no answer comes.

        Args:
            system: the system message.
            user: the user message.
            reply: the model of the reply, whose JSON schema goes to the server; None for a reply in
                plain text.
            affinity: calls with the same word go to the same replica while it is up: its prefix
                cache may hold what they share.

        Returns:
            The first answer that comes, valid or not, with its price if one is known.

        Raises:
            JudgeTransportError: no answer came within the attempts and the deadline.
        """
        request = self._request(user, system, reply)
        return await self._asked(replace(request, affinity=affinity))

    async def answer(
        self,
        question: str,
        *,
        parameters: Mapping[str, JsonValue],
        affinity: str = "",
        before: Sequence[dict[str, str]] = (),
    ) -> ChatReply:
        """Ask for an answer in plain text; ask again only while none comes.

        Args:
            question: the last message, as the user's.
            parameters: fields of this request, such as `temperature`, `max_tokens` and `seed`; they
                override those of the configuration.
            affinity: as in `complete`.
            before: the messages of a conversation before it.

        Returns:
            The first answer that comes, with its price if one is known.

        Raises:
            JudgeTransportError: no answer came within the attempts and the deadline.
        """
        request = ChatRequest(
            user=question,
            parameters=parameters,
            affinity=affinity,
            before=tuple(before),
        )
        return await self._asked(request)

    async def unsupported(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the fields of a request that would not be sent; this sends nothing.

        Raises:
            JudgeTransportError: no call is possible at all.
        """
        fields = tuple(names)
        refused: set[str] = set()
        for server in self._servers.all:
            refused.update(await server.target.unsupported(fields))
        return tuple(name for name in fields if name in refused)

    async def check(self) -> None:
        """Ask every replica a short question, to find out within seconds whether it answers.

        Used by commands that are about to make thousands of calls. An endpoint that says "too many
        requests" is available, and passes. An answer outside of the schema is logged as a warning:
        the answers to real questions would be bound no better to theirs.

        Raises:
            JudgeSetupError: no answer, or litellm's router refuses the `litellm_config`; names the
                model and address, or the key of the file, and the remedy.
        """
        user, system, reply = _READY
        async for server, answer in self.probe(system=system, user=user, reply=reply):
            departure = _departure(answer)
            if departure:
                events.probe_out_of_schema(
                    role=self._role,
                    model=self._config.model,
                    server=chat.server_of(server),
                    why=departure,
                )

    async def probe(
        self, *, system: str, user: str, reply: type[BaseModel] | None = None
    ) -> AsyncIterator[tuple[str, ChatReply]]:
        """Ask every replica one short question, and yield its address and its answer.

        Each gives up within seconds. One that says "too many requests" is available, and is passed
        over. The address is "" for the provider's own.

        Args:
            system: the system message.
            user: the question.
            reply: as in `complete`.

        Raises:
            JudgeSetupError: as `check`.
        """
        request = self._request(user, system, reply)
        for server, address in zip(
            self._servers.all, self._config.addresses, strict=False
        ):
            try:
                answer = await server.target.hurried().ask(request)
                self._require_room(answer)
            except JudgeTransportError as error:
                if error.reason is not Reason.RATE_LIMITED:
                    raise JudgeSetupError(self._not_there(error, address)) from None
            else:
                yield address or "", answer

    async def aclose(self) -> None:
        """Close the connections."""
        for server in self._servers.all:
            await server.target.aclose()

    async def _asked(self, request: ChatRequest) -> ChatReply:
        """Ask the replica of an affinity, and another one where that is not reached.

        Raises:
            JudgeTransportError: no answer came, or one of another model than before; the error
                holds the attempts and the usage of all replicas.
        """
        unanswered = JudgeTransportError(Reason.CONNECTION, "", attempts=0)
        moves_left = len(self._servers.all) - 1
        while True:
            server = self._servers.pick(request.affinity) or self._servers.all[0]
            try:
                answer = await self._asked_of(server, request, after=unanswered)
            except JudgeTransportError as error:
                unanswered = _together(error, unanswered)
                if not moves_left or not self._may_move(server, unanswered):
                    unanswered.usage = self._priced(unanswered.usage)
                    raise unanswered from None
                moves_left -= 1
            else:
                return self._finished(_together(answer, unanswered), server.name)

    async def _asked_of(
        self,
        server: Replica[retries.RetryingClient],
        request: ChatRequest,
        *,
        after: JudgeTransportError,
    ) -> ChatReply:
        """Ask one replica, in the time that earlier ones left, and report what it did."""
        mark = object()
        ok: bool | None = None
        started_s = time.monotonic()
        server.begin(mark)
        try:
            left_s = self._config.deadline_s - (after.latency_s or 0.0)
            answer = await server.target.ask(request, within_s=left_s)
            ok = True
        except JudgeTransportError as error:
            ok = was_reached(error.reason)
            raise
        else:
            return answer
        finally:
            server.in_flight.discard(mark)
            self._servers.report(server, ok, time.monotonic() - started_s)

    def _may_move(
        self, server: Replica[retries.RetryingClient], error: JudgeTransportError
    ) -> bool:
        """Return whether a call that ended in an error is asked of another replica."""
        is_in_time = (error.latency_s or 0.0) < self._config.deadline_s
        was_not_reached = was_reached(error.reason) is False
        return was_not_reached and is_in_time and self._servers.another_is_up(server)

    def _finished(self, answer: ChatReply, server: str) -> ChatReply:
        """Return an answer with its price and who answered.

        Raises:
            JudgeTransportError: it is of another model than before.
        """
        by = answer.answered_by or Answerer(model="")
        is_fallback = bool(by.fallback)
        usage = answer.usage if is_fallback else self._priced(answer.usage)
        if not by.deployment:
            by = answerer(by.model, deployment=server)
        if by.model and not self._config.allow_fallback_models:
            self._check_is_one_model(by, usage=usage, attempts=answer.attempts)
        if not by.model:
            by = answerer(
                self._config.model, deployment=by.deployment, fallback=by.fallback
            )
        if is_fallback and not self._has_fallen_back:
            self._has_fallen_back = True
            events.fallback_answered(by, model=self._config.model)
        return replace(answer, usage=usage, answered_by=by)

    def _check_is_one_model(
        self, by: Answerer, *, usage: Usage | None, attempts: int
    ) -> None:
        """Refuse an answer by another model than the first of the same deployment.

        Names are compared only if the server gives one: when hosted providers serve a new version
        under the old name, they give the version's name here.

        Raises:
            JudgeTransportError: another model answered; the error holds the usage.
        """
        first = self._first_models.setdefault((by.deployment, by.fallback), by.model)
        if first == by.model:
            return
        where = f" at {by.deployment}" if by.deployment else ""
        raise JudgeTransportError(
            Reason.OTHER_MODEL,
            f"{by.model!r} answered{where} where {first!r} did before: start again with one "
            "model, or set allow_fallback_models: true",
            usage=usage,
            attempts=attempts,
        )

    def _require_room(self, answer: ChatReply) -> None:
        """Refuse a server whose context is too small even for the question of the check."""
        if answer.finish == "full":
            raise JudgeTransportError(
                Reason.BAD_REQUEST,
                f"a question of one line and max_tokens={self._config.max_tokens} do not fit "
                "into the model's context: lower `max_tokens`, or serve the model with a "
                "longer context",
                attempts=answer.attempts,
            )

    def _request(
        self, user: str, system: str, reply: type[BaseModel] | None
    ) -> ChatRequest:
        """Return a request for a reply, with the schema in the request or in the prompt."""
        if reply is None:
            return ChatRequest(user=user, system=system)
        form = self._config.schema
        if form != "json_schema":
            schema = json.dumps(reply.model_json_schema())
            system = f"{system}\n\n{chat.SCHEMA_FOLLOWS}\n{schema}"
        return ChatRequest(user=user, system=system, reply=reply, asks_for=form)

    def _priced(self, usage: Usage | None) -> Usage | None:
        prices = self._config.prices
        if usage is None or prices is None:
            return usage
        return usage.model_copy(update={"cost_usd": prices.cost_usd(usage)})

    def _not_there(self, error: JudgeTransportError, address: str | None) -> str:
        config = self._config
        where = address or config.litellm_config or "its provider's address"
        key = config.api_key_env
        if config.litellm_config is not None:
            key = "as that file says"
        elif not key:
            key = "none" if address else "the provider's usual variable"
        return (
            f"the {self._role} {config.model!r} at {str(where)!r} (key: {key}) does not "
            f"answer: {error.reason.value} after {error.attempts} attempt(s), {error.detail}"
        )


_Ended = TypeVar("_Ended", ChatReply, JudgeTransportError)


def _together(end: _Ended, before: JudgeTransportError) -> _Ended:
    """Return the end of a call with what it took of replicas that were not reached before."""
    if not before.attempts:
        return end
    usage = before.usage if end.usage is None else end.usage.plus(before.usage)
    return replace(
        end,
        usage=usage,
        attempts=before.attempts + end.attempts,
        latency_s=(before.latency_s or 0.0) + (end.latency_s or 0.0),
    )


def _departure(answer: ChatReply) -> str:
    """Return how the answer to the check departs from its schema; "" if it does not."""
    if answer.finish != "complete":
        return f"the answer is {answer.finish}"
    try:
        _Ready.model_validate_json(answer.text, strict=True)
    except ValidationError as error:
        kind = error.errors()[0]["type"]
        return f"{kind} in an answer of {len(answer.text)} characters"
    return ""


def _transports(config: ModelConfig) -> list[chat.Transport]:
    make = direct.DirectClient if config.is_direct else LiteLLMClient
    addresses = config.addresses
    return [
        make(config.model_copy(update={"api_base": address})) for address in addresses
    ]


def _further_identity(config: ModelConfig, routes: Iterable[str]) -> dict[str, str]:
    """Return settings newer than the identity, where they are not as before."""
    form: dict[str, str] = {}
    if config.schema != "json_schema":
        form["schema"] = config.schema
    is_neutral = config.api_base is not None or all(
        route.startswith("hosted_vllm/") for route in routes
    )
    if is_neutral:
        form["decoding"] = "neutral"
    return form
