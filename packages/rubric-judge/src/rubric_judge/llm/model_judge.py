"""What all judges that ask a language model share: who they are, and one call."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import BaseModel

from rubric_core import Answerer, JudgeResult, Reason
from rubric_core.judgement.result import Call
from rubric_judge.chat_model import ChatModel
from rubric_judge.errors import JudgeTransportError
from rubric_judge.llm.prompt import Prompt, RenderedPrompt
from rubric_judge.provider.chat import ChatClient, ChatReply, ClosesItself
from rubric_judge.provider.limits import Limiter
from rubric_judge.provider.model_config import ModelConfig

# A valid reply has a few thousand characters; one like this would only fill memory and files.
_LONGEST_REPLY_CHARS = 1_000_000


class Answered(NamedTuple):
    """What came of one call."""

    text: str
    """The reply, to be read strictly; empty where there is a failure."""
    failure: JudgeResult | None
    """Why there is no reply to read."""
    call: Call
    """What is known of the call, whatever came of it."""


class ModelJudge(ClosesItself):
    """Base of `LLMJudge` and `ListwiseJudge`."""

    def __init__(
        self,
        config: ModelConfig,
        prompt: Prompt,
        settings: Mapping[str, object],
        *,
        client: ChatClient | None,
        limiter: Limiter | None,
    ) -> None:
        """Read the key and the `litellm_config`; nothing is sent.

        Args:
            config: of the model.
            prompt: what it is asked with.
            settings: what may change a score beside model and prompt.
            client: carries the calls; one made of the configuration when left out.
            limiter: lets attempts through; one of this judge's own when left out.

        Raises:
            JudgeSetupError: the configuration names a variable for a key that is not set.
            ConfigError: the `litellm_config` cannot be used.
        """
        self._prompt = prompt
        self._settings = settings
        self._model_name = config.model
        self._model = ChatModel(config, client=client, limiter=limiter, role="judge")

    @property
    def name(self) -> str:
        """The model and the version of the prompt."""
        return f"{self._model_name} {self._prompt.version}"

    @property
    def fingerprint(self) -> str:
        """The name, and a hash of all that may change a score; see `ChatModel.identity`."""
        parts = {**self._model.identity, "prompt": self._prompt.sha256, **self._settings}
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return f"{self.name} {digest[:16]}"

    @property
    def limiter(self) -> Limiter:
        """What lets the attempts of this judge through."""
        return self._model.limiter

    async def check(self) -> None:
        """Ask every replica a question of one line, to know within seconds that it answers.

        For commands that are about to make thousands of calls. An endpoint that says "too many
        requests" is there, and passes.

        Raises:
            JudgeSetupError: no answer, or litellm's router refuses the `litellm_config`; says which
                model and address, or which key of the file, and what to do.
        """
        await self._model.check()

    async def aclose(self) -> None:
        """Close the connections to the model."""
        await self._model.aclose()

    async def _ask(
        self, rendered: RenderedPrompt, reply: type[BaseModel], *, task_id: str
    ) -> Answered:
        """Make one call; its attempts are those of the retries.

        Args:
            rendered: the messages.
            reply: the model of a valid reply.
            task_id: the responses to a task share a prefix, for one replica to read.
        """
        started_s = time.perf_counter()
        by: Answerer | None = None
        text = ""
        try:
            answer = await self._model.complete(
                system=rendered.system, user=rendered.user, reply=reply, affinity=task_id
            )
        except JudgeTransportError as error:
            call, failure = error, JudgeResult.unavailable(error.reason, detail=error.detail)
        else:
            call, failure, by = answer, _unreadable(answer), answer.answered_by
            text = "" if failure else answer.text
        latency_s = call.latency_s
        known = Call(
            judge=self.name,
            answered_by=by,
            usage=call.usage,
            latency_s=time.perf_counter() - started_s if latency_s is None else latency_s,
            attempts=call.attempts,
            passage_truncated=rendered.passage_truncated,
        )
        return Answered(text, failure, known)


def _unreadable(answer: ChatReply) -> JudgeResult | None:
    size = len(answer.text)
    if answer.finish == "refused":
        return JudgeResult.invalid(Reason.REFUSED)
    if answer.finish == "truncated":
        detail = f"the reply was cut off at {size} characters; raise `max_tokens`"
        return JudgeResult.invalid(Reason.TRUNCATED, detail=detail)
    if answer.finish == "oversized":
        detail = "the answer exceeds the size limit"
        return JudgeResult.invalid(Reason.NOT_JSON, detail=detail)
    if size > _LONGEST_REPLY_CHARS:
        detail = f"the reply has {size} characters, more than {_LONGEST_REPLY_CHARS}"
        return JudgeResult.invalid(Reason.NOT_JSON, detail=detail)
    return None
