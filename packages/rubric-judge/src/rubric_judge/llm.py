"""A language model as judge: prompt, one answer, strict reading."""

from __future__ import annotations

import hashlib
import json
import time
from types import TracebackType
from typing import Self
from zlib import crc32

from pydantic import BaseModel, ConfigDict

from rubric_core import JudgeResult, JudgeView, Reason, Usage
from rubric_judge import events
from rubric_judge.chat import ChatClient, ChatReply, Transport
from rubric_judge.client import LiteLLMClient
from rubric_judge.config import JudgeConfig
from rubric_judge.direct import DirectClient
from rubric_judge.errors import JudgeSetupError, JudgeTransportError
from rubric_judge.limits import Limiter, LocalLimiter
from rubric_judge.prompt import RenderedPrompt, load_prompt
from rubric_judge.reply_model import reply_model
from rubric_judge.retries import RetryingClient
from rubric_judge.router_file import read_router_file
from rubric_judge.settings import variable

__all__ = ["LLMJudge"]

# A valid reply has a few thousand characters; one like this would only fill memory and files.
_LONGEST_REPLY_CHARS = 1_000_000


class _Ready(BaseModel):
    """The answer to the question that `LLMJudge.check` asks."""

    model_config = ConfigDict(extra="forbid")

    ready: bool


class LLMJudge:
    """Scores a response by asking a model once and reading its reply by the contract.

        r = Σ s_j / W  if the reply is valid,  0 with a reason if it is not

    An invalid reply is observed, not repaired: it is never asked for again. A call that brings no
    answer is tried again within the configured attempts and deadline, and is `unavailable` after.

    Close it with `aclose`, or use it as an asynchronous context manager.
    """

    def __init__(
        self,
        config: JudgeConfig,
        *,
        client: ChatClient | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        """Read the prompt, the key and the `litellm_config`; nothing is sent.

        Args:
            config: model, prompt, limits. With several addresses, all responses to one task go to
                the same one.
            client: carries the calls; one made of the configuration when left out.
            limiter: lets attempts through; one of this judge's own when left out.

        Raises:
            JudgeSetupError: the configuration names a variable for a key that is not set.
            ConfigError: the `litellm_config` cannot be used.
        """
        self._config = config
        self._prompt = load_prompt(config.prompt, evidence=config.evidence != "off")
        self._limiter = limiter or LocalLimiter(config.limits)
        self._deployments = ""
        if config.litellm_config is not None:
            file = read_router_file(config.litellm_config, model=config.model)
            self._deployments = file.identity(variable)
        self._clients = (client,) if client else _clients(config, self._limiter)

    @property
    def name(self) -> str:
        """The model and the version of the prompt."""
        return f"{self._config.model} {self._prompt.version}"

    @property
    def fingerprint(self) -> str:
        """The name, and a hash of all that may change a score; no address and no key.

        A model is who it says it is, wherever it runs: replicas share their judgements. The
        transport is in it, for the two may read an odd answer differently.
        """
        config = self._config
        parts = {
            "model": config.model,
            "transport": config.transport,
            "deployments": self._deployments,
            "prompt": self._prompt.sha256,
            "evidence": config.evidence,
            "passage_chars": config.passage_chars,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "parameters": config.parameters,
        }
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return f"{self.name} {digest[:16]}"

    @property
    def warm_call(self) -> bool:
        """Whether a group's first response goes alone."""
        return self._config.warm_call

    @property
    def limiter(self) -> Limiter:
        """What lets the attempts of this judge through."""
        return self._limiter

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response.

        Args:
            view: everything the judge sees.

        Returns:
            Scored; invalid, for an answer outside of the contract; or unavailable.
        """
        config = self._config
        rendered = self._prompt.render(view, passage_chars=config.passage_chars)
        reply = reply_model(view.rubric, config.prompt, evidence=config.evidence != "off")
        started_s = time.perf_counter()
        try:
            answer = await self._client(view.task_id).complete(
                system=rendered.system, user=rendered.user, reply=reply
            )
        except JudgeTransportError as error:
            call, result = error, JudgeResult.unavailable(error.reason, detail=error.detail)
        else:
            call, result = answer, self._read(view, answer, rendered)
        latency_s = call.latency_s
        result = result.with_call(
            judge=self.name,
            usage=self._priced(call.usage),
            latency_s=time.perf_counter() - started_s if latency_s is None else latency_s,
            attempts=call.attempts,
            passage_truncated=rendered.passage_truncated,
        )
        events.call_finished(result, task_id=view.task_id)
        return result

    async def check(self) -> None:
        """Ask every replica a question of one line, to know within seconds that it answers.

        For commands that are about to make thousands of calls. An endpoint that says "too many
        requests" is there, and passes.

        Raises:
            JudgeSetupError: no answer, or litellm's router refuses the `litellm_config`; says which
                model and address, or which key of the file, and what to do.
        """
        for client, address in zip(self._clients, self._config.addresses, strict=False):
            asking = client.hurried() if isinstance(client, RetryingClient) else client
            try:
                await asking.complete(
                    system='Answer with JSON: {"ready": true}', user="Are you ready?", reply=_Ready
                )
            except JudgeTransportError as error:
                if error.reason is not Reason.RATE_LIMITED:
                    raise JudgeSetupError(self._not_there(error, address)) from None

    async def aclose(self) -> None:
        """Close the connections to the model."""
        for client in self._clients:
            await client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _priced(self, usage: Usage | None) -> Usage | None:
        prices = self._config.prices
        if usage is None or prices is None:
            return usage
        return usage.model_copy(update={"cost_usd": prices.cost_usd(usage)})

    def _client(self, task_id: str) -> ChatClient:
        if len(self._clients) == 1:
            return self._clients[0]
        # The responses to a task share a prefix, and only one replica should have to read it.
        return self._clients[crc32(task_id.encode()) % len(self._clients)]

    def _read(self, view: JudgeView, answer: ChatReply, rendered: RenderedPrompt) -> JudgeResult:
        match answer.finish:
            case "refused":
                return JudgeResult.invalid(Reason.REFUSED)
            case "truncated":
                detail = f"the reply was cut off at {len(answer.text)} characters; "
                return JudgeResult.invalid(Reason.TRUNCATED, detail=detail + "raise `max_tokens`")
            case "oversized":
                detail = "the answer is larger than what is read of one"
                return JudgeResult.invalid(Reason.NOT_JSON, detail=detail)
            case "complete":
                pass
        if len(answer.text) > _LONGEST_REPLY_CHARS:
            size = len(answer.text)
            detail = f"the reply has {size} characters, more than {_LONGEST_REPLY_CHARS}"
            return JudgeResult.invalid(Reason.NOT_JSON, detail=detail)
        if self._config.evidence == "off":
            return JudgeResult.from_reply(view.rubric, answer.text)
        return JudgeResult.from_quoting_reply(
            view.rubric,
            answer.text,
            response=view.response,
            passage=rendered.passage,
            required=self._config.evidence == "require",
        )

    def _not_there(self, error: JudgeTransportError, address: str | None) -> str:
        config = self._config
        where = address or config.litellm_config or "its provider's address"
        key = config.api_key_env or ("none" if address else "the provider's usual variable")
        if config.litellm_config is not None:
            key = "as that file says"
        return (
            f"the judge {config.model!r} at {str(where)!r} (key: {key}) does not answer: "
            f"{error.reason.value} after {error.attempts} attempt(s), {error.detail}"
        )


def _clients(config: JudgeConfig, limiter: Limiter) -> tuple[ChatClient, ...]:
    make: type[LiteLLMClient | DirectClient] = (
        DirectClient if config.transport == "direct" else LiteLLMClient
    )
    alone = [config.model_copy(update={"api_base": address}) for address in config.addresses]
    transports: list[Transport] = [make(one) for one in alone]
    return tuple(
        RetryingClient(transport, one, limiter)
        for transport, one in zip(transports, alone, strict=True)
    )
