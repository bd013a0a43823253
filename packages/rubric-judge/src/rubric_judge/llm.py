"""A language model as judge: prompt, one answer, strict reading."""

from __future__ import annotations

import time

from rubric_core import JudgeResult, JudgeView, Reason, Rubric
from rubric_judge import events
from rubric_judge.chat import ChatClient, ChatReply
from rubric_judge.client import LiteLLMClient
from rubric_judge.config import JudgeConfig
from rubric_judge.errors import JudgeTransportError
from rubric_judge.prompt import load_prompt
from rubric_judge.reply_model import reply_model

__all__ = ["LLMJudge"]

# A valid reply has a few thousand characters; one like this would only fill memory and files.
_LONGEST_REPLY_CHARS = 1_000_000


class LLMJudge:
    """Scores a response by asking a model once and reading its reply by the contract.

        r = Σ s_j / W  if the reply is valid,  0 with a reason if it is not

    An invalid reply is observed, not repaired: it is never asked for again. A call that brings no
    answer is tried again within the configured attempts and deadline, and is `unavailable` after.
    """

    def __init__(self, config: JudgeConfig, *, client: ChatClient | None = None) -> None:
        """Read the prompt and the key; nothing is sent.

        Args:
            config: model, prompt, limits.
            client: carries the calls; litellm's when left out.

        Raises:
            JudgeSetupError: the configuration names a variable for the key that is not set.
        """
        self._config = config
        self._prompt = load_prompt(config.prompt)
        self._client: ChatClient = client or LiteLLMClient(config)

    @property
    def name(self) -> str:
        """The model and the version of the prompt."""
        return f"{self._config.model} {self._prompt.version}"

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response.

        Args:
            view: everything the judge sees.

        Returns:
            Scored; invalid, for an answer outside of the contract; or unavailable.
        """
        rendered = self._prompt.render(view, passage_chars=self._config.passage_chars)
        reply = reply_model(view.rubric, self._config.prompt)
        started_s = time.perf_counter()
        try:
            answer = await self._client.complete(
                system=rendered.system, user=rendered.user, reply=reply
            )
        except JudgeTransportError as error:
            result = JudgeResult.unavailable(
                error.reason, detail=error.detail, attempts=error.attempts
            )
        else:
            result = _read(view.rubric, answer)
        result = result.with_call(judge=self.name, latency_s=time.perf_counter() - started_s)
        events.call_finished(
            result, task_id=view.task_id, passage_truncated=rendered.passage_truncated
        )
        return result

    async def aclose(self) -> None:
        """Close the connections to the model."""
        await self._client.aclose()


def _read(rubric: Rubric, answer: ChatReply) -> JudgeResult:
    usage, attempts = answer.usage, answer.attempts
    match answer.finish:
        case "refused":
            return JudgeResult.invalid(Reason.REFUSED, usage=usage, attempts=attempts)
        case "truncated":
            detail = f"the reply was cut off at {len(answer.text)} characters; raise `max_tokens`"
            return JudgeResult.invalid(
                Reason.TRUNCATED, detail=detail, usage=usage, attempts=attempts
            )
        case "complete":
            pass
    if len(answer.text) > _LONGEST_REPLY_CHARS:
        detail = f"the reply has {len(answer.text)} characters, more than {_LONGEST_REPLY_CHARS}"
        return JudgeResult.invalid(Reason.NOT_JSON, detail=detail, usage=usage, attempts=attempts)
    return JudgeResult.from_reply(rubric, answer.text, usage=usage, attempts=attempts)
