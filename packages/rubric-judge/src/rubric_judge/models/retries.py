"""Attempts until an answer comes: which failures are tried again, when, and for how long.

Only calls that bring no answer are repeated; any answer is left to the judge.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import anyio

from rubric_core import Reason, Usage
from rubric_judge.errors import JudgeTransportError
from rubric_judge.models import limits, model_config
from rubric_judge.models.chat import ChatReply, ChatRequest, Transport
from rubric_judge.models.failures import TRANSIENT, key_remedy

if TYPE_CHECKING:
    from tenacity import RetryCallState


_LONGEST_BACKOFF_S = 30.0
_CHARS_PER_TOKEN = 4
_LIKELY_REPLY_TOKENS = 1_000
"""Usual tokens of a reply, reasoning included; a limiter corrects the number afterwards."""
_MISCOUNTED_TOKENS = 8
"""Difference between servers' counts of an answer's tokens: some count its end."""
_HURRIED_S = 30.0
"""Enough for the first answer of a cold server, which first compiles a grammar."""
_HURRIED_ATTEMPTS = 3


@dataclass(slots=True)
class _Call:
    """One question on its way: its attempts, its clock and its usage."""

    deadline_s: float
    most_attempts: int
    attempts: int = 0
    started_s: float | None = None
    usage: Usage | None = None

    def begin(self) -> None:
        """Count an attempt; the clock starts with the first that the limiter lets through."""
        self.attempts += 1
        if self.started_s is None:
            self.started_s = time.monotonic()

    def consumed(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = usage.plus(self.usage)

    @property
    def spent(self) -> dict[str, Any]:
        """Totals of all attempts, for the fields of an answer or of the last error."""
        return {
            "usage": self.usage,
            "attempts": self.attempts,
            "latency_s": self.elapsed_s,
        }

    @property
    def elapsed_s(self) -> float:
        return 0.0 if self.started_s is None else time.monotonic() - self.started_s

    @property
    def left_s(self) -> float:
        return self.deadline_s - self.elapsed_s

    def is_over(self, state: RetryCallState) -> bool:
        """Whether no attempt is left, or the next wait would last beyond the deadline."""
        late = self.elapsed_s + state.upcoming_sleep >= self.deadline_s
        return late or state.attempt_number >= self.most_attempts


class RetryingClient:
    """Asks through a transport until an answer comes, with a limiter and a time for each attempt.

    The deadline covers all attempts and the waits between them. It does not cover the wait for the
    first attempt's turn, which the limiter determines.
    """

    def __init__(
        self,
        transport: Transport,
        config: model_config.ModelConfig,
        limiter: limits.Limiter,
        *,
        hurry_s: float = math.inf,
    ) -> None:
        """Take the policy from the judge's configuration.

        Args:
            transport: the transport that carries the attempts.
            config: number of attempts, times and backoff.
            limiter: the limiter that lets attempts through.
            hurry_s: longest time for an attempt and for all; it lowers the configuration's times.
        """
        self._timeout_s = min(config.timeout_s * transport.most_calls, hurry_s)
        self._deadline_s = min(config.deadline_s, hurry_s)
        self._hurry_s = hurry_s
        self._transport = transport
        self._config = config
        self._limiter = limiter

    def hurried(self) -> RetryingClient:
        """Return a client over the same transport that gives up within seconds."""
        attempts = min(self._config.max_transport_attempts, _HURRIED_ATTEMPTS)
        config = self._config.model_copy(update={"max_transport_attempts": attempts})
        return RetryingClient(
            self._transport, config, self._limiter, hurry_s=_HURRIED_S
        )

    async def unsupported(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the fields that the transport would not send; see `Transport.unsupported`."""
        return await self._transport.unsupported(names)

    async def ask(
        self, request: ChatRequest, *, within_s: float = math.inf
    ) -> ChatReply:
        """Ask until an answer comes.

        Args:
            request: what is asked.
            within_s: longest time for all attempts, where it is below the configuration's.

        Returns:
            The first answer that comes, valid or not, with the totals of all attempts.

        Raises:
            JudgeTransportError: no answer came within the attempts and the deadline.
        """
        await self._transport.prepare()
        call = _Call(
            min(self._deadline_s, within_s), self._config.max_transport_attempts
        )
        try:
            answer = await self._until_answered(call, request)
        except JudgeTransportError as last:
            error = last
        else:
            return replace(answer, **call.spent)
        # Not chained: the causes may hold the text of the request.
        remedy = f": {key_remedy(self._config)}" if error.reason is Reason.AUTH else ""
        raise replace(
            error,
            detail=error.detail + remedy,
            **call.spent,
        ) from None

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()

    def _late(self, setting: str, limit_s: float) -> JudgeTransportError:
        remedy = "check that the server is up and not busy"
        if limit_s < self._hurry_s:
            detail = (
                f"no answer within {setting}={limit_s:g}: {remedy}, or raise {setting}"
            )
        else:  # raising the setting would change nothing
            detail = f"no answer within {limit_s:g} s: {remedy}"
        return JudgeTransportError(Reason.TIMEOUT, detail)

    async def _until_answered(self, call: _Call, request: ChatRequest) -> ChatReply:
        try:
            return await self._attempt(call, request)
        except JudgeTransportError as error:
            failed = error
        # Most calls end above. tenacity is imported after a first failure only, and its first
        # attempt raises that failure again.
        import tenacity

        failures = [failed]

        async def attempt_again() -> ChatReply:
            if failures:
                raise failures.pop()
            return await self._attempt(call, request)

        config = self._config
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_transient),
            stop=call.is_over,
            wait=tenacity.wait_exception(_asked_wait_s)
            + tenacity.wait_random_exponential(
                config.backoff_s, max=_LONGEST_BACKOFF_S
            ),
            sleep=anyio.sleep,
            reraise=True,
        )
        attempt_until_over = cast("Callable[..., Awaitable[ChatReply]]", retrying)
        with anyio.move_on_after(call.left_s):
            return await attempt_until_over(attempt_again)
        raise self._late("deadline_s", self._deadline_s)

    async def _attempt(self, call: _Call, request: ChatRequest) -> ChatReply:
        prompt_characters = request.characters
        most_tokens = self._most_tokens(request)
        reply_tokens = min(most_tokens or _LIKELY_REPLY_TOKENS, _LIKELY_REPLY_TOKENS)
        tokens = prompt_characters // _CHARS_PER_TOKEN + reply_tokens
        async with self._limiter.attempt(tokens=tokens):
            call.begin()
            limit_s = self._timeout_s
            left_s = call.left_s
            answer: ChatReply | None = None
            try:
                with anyio.move_on_after(min(limit_s, left_s)):
                    answer = await self._transport.ask(request)
            except TimeoutError:  # raised by the transport itself
                raise self._late("timeout_s", limit_s) from None
            except JudgeTransportError as error:
                # A router tries several deployments in one attempt.
                call.attempts += error.attempts - 1
                call.consumed(error.usage)
                if error.reason is Reason.RATE_LIMITED:
                    self._limiter.rate_limited(error.retry_after_s)
                raise
            if answer is None and left_s <= limit_s:
                raise self._late("deadline_s", self._deadline_s)
            if answer is None:
                raise self._late("timeout_s", limit_s)
            usage = answer.usage
            call.attempts += answer.attempts - 1
            call.consumed(usage)
            tokens = usage.prompt_tokens + usage.completion_tokens if usage else None
            self._limiter.succeeded(tokens=tokens)
        return answer if most_tokens is None else _cut_early(answer, most_tokens)

    def _most_tokens(self, request: ChatRequest) -> int | None:
        """Return the requested length limit of an answer, under whichever name."""
        fields = {**self._config.sent_fields, **request.parameters}
        most = fields.get("max_completion_tokens", fields.get("max_tokens"))
        return most if isinstance(most, int) else None


def _cut_early(answer: ChatReply, most_tokens: int) -> ChatReply:
    """Mark an answer as `full` if it was cut off before the requested limit.

    vLLM lowers the limit to the room that a long prompt leaves, and does not report it otherwise.
    """
    written = answer.usage.completion_tokens if answer.usage else 0
    is_early = 0 < written < most_tokens - _MISCOUNTED_TOKENS
    if answer.finish != "truncated" or not is_early:
        return answer
    return replace(answer, finish="full")


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, JudgeTransportError) and error.reason in TRANSIENT


def _asked_wait_s(error: BaseException) -> float:
    if not isinstance(error, JudgeTransportError) or error.retry_after_s is None:
        return 0.0
    return error.retry_after_s if math.isfinite(error.retry_after_s) else 0.0
