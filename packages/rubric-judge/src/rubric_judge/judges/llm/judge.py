"""Language models as judges: the base of all such judges, and the judge of one response."""

import json
import time
from abc import abstractmethod
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from pydantic import BaseModel

from rubric_core import KNOWN_TAGS, Answerer, JudgeResult, JudgeView, Outcome, Reason
from rubric_core.files import text_sha256
from rubric_core.judgement.result import Call
from rubric_judge import events
from rubric_judge.config import JudgeConfig, ModelJudgeConfig
from rubric_judge.errors import JudgeTransportError
from rubric_judge.judges.llm import prompt, replies
from rubric_judge.judges.llm.by_criterion import judge_by_criterion
from rubric_judge.models import chat, limits
from rubric_judge.models.chat_model import ChatModel

_Config = TypeVar("_Config", bound=ModelJudgeConfig)

# A valid reply has a few thousand characters; one like this would only fill memory and files.
_LONGEST_REPLY_CHARS = 1_000_000
_KEPT_REPLY_CHARS = 20_000
_EMPTY_REPLY_HINTS: Final = {
    "reasoning": (
        "the reply is empty, its text stands in reasoning_content; start the server without a "
        "reasoning parser (vLLM: no --reasoning-parser), or let the model think (enable_thinking: "
        "true)"
    ),
    "tools": "the reply is empty: the model called a tool, and none was offered",
}
"""Explanations of an empty reply, by what stands in its place; at most 200 characters each."""
_THOUGHT_ENDS: Final = tuple(tags.close for tags in KNOWN_TAGS if tags.counts != "pair")


class Answered(NamedTuple):
    """The outcome of one call."""

    text: str
    """The reply, to be read strictly unless there is a failure; empty if none came."""
    failure: JudgeResult | None
    """The failed judgement if there is no reply to read."""
    call: Call
    """Record of the call, whether it was answered or not."""
    is_whole: bool = True
    """Whether the server reports that the reply ended by itself."""


class ModelJudge(chat.ClosesItself, Generic[_Config]):
    """Base of `LLMJudge` and `ListwiseJudge`: their identity, and one call."""

    _scored: ClassVar[tuple[str, ...]] = ("passage_chars",)
    """Settings that may change a score, beside the model's settings and the prompt."""

    def __init__(
        self,
        config: _Config,
        *,
        client: chat.Transport | None = None,
        limiter: limits.Limiter | None = None,
    ) -> None:
        """Read the prompt, the key and the `litellm_config`; nothing is sent.

        Args:
            config: model, prompt, limits. With several addresses, all responses to one task go to
                the same one.
            client: the transport of the attempts; by default one for the configuration.
            limiter: lets attempts through; by default one of this judge's own.

        Raises:
            JudgeSetupError: the variable that the configuration names for the key is not set.
            ConfigError: the `litellm_config` cannot be used.
        """
        self._config = config
        self._prompt = self._load_prompt()
        self._model = ChatModel(config, client=client, limiter=limiter, role="judge")

    @abstractmethod
    def _load_prompt(self) -> prompt.Prompt:
        """Return the prompt that the configuration names."""

    @property
    def name(self) -> str:
        """The model and the version of the prompt."""
        return f"{self._config.model} {self._prompt.version}"

    @property
    def fingerprint(self) -> str:
        """The name, and a hash of all that may change a score; see `ChatModel.identity`."""
        settings = {name: getattr(self._config, name) for name in self._scored}
        parts = {**self._model.identity, "prompt": self._prompt.sha256, **settings}
        digest = text_sha256(json.dumps(parts, sort_keys=True))
        return f"{self.name} {digest[:16]}"

    @property
    def limiter(self) -> limits.Limiter:
        """The limiter of this judge's attempts."""
        return self._model.limiter

    async def check(self) -> None:
        """Ask every replica a short question, to find out within seconds whether it answers.

        Used by commands that are about to make thousands of calls. An endpoint that says "too many
        requests" is available, and passes.

        Raises:
            JudgeSetupError: no answer, or litellm's router refuses the `litellm_config`; names the
                model and address, or the key of the file, and the remedy.
        """
        await self._model.check()

    async def aclose(self) -> None:
        """Close the connections to the model."""
        await self._model.aclose()

    async def _ask(
        self, rendered: prompt.RenderedPrompt, reply: type[BaseModel], *, task_id: str
    ) -> Answered:
        """Make one call, with all attempts of its retries.

        Args:
            rendered: the messages.
            reply: the model of a valid reply.
            task_id: the task; its responses share a prefix and go to one replica.
        """
        started_s = time.perf_counter()
        by: Answerer | None = None
        text = ""
        is_whole = True
        try:
            answer = await self._model.complete(
                system=rendered.system,
                user=rendered.user,
                reply=reply,
                affinity=task_id,
            )
        except JudgeTransportError as error:
            failure = JudgeResult.unavailable(error.reason, detail=error.detail)
            usage = error.usage
            latency_s = error.latency_s
            attempts = error.attempts
        else:
            failure = self._too_long(answer, rendered) or _unreadable_failure(answer)
            usage = answer.usage
            latency_s = answer.latency_s
            attempts = answer.attempts
            by = answer.answered_by
            text = answer.text
            is_whole = answer.finish != "unsaid"
        if latency_s is None:
            latency_s = time.perf_counter() - started_s
        call = Call(
            judge=self.name,
            answered_by=by,
            usage=usage,
            latency_s=latency_s,
            attempts=attempts,
            passage_truncated=rendered.passage_truncated,
        )
        return Answered(text, failure, call, is_whole)

    def _too_long(
        self, answer: chat.ChatReply, rendered: prompt.RenderedPrompt
    ) -> JudgeResult | None:
        """Return the judgement for a context that is too short; None if it is long enough."""
        if answer.finish != "full":
            return None
        size = len(rendered.system) + len(rendered.user)
        if answer.text:
            detail = (
                f"the context is full: cut off at {len(answer.text)} characters, before "
                f"`max_tokens`, behind a prompt of {size}; lower `passage_chars`, or serve a "
                "longer context (see `on_full_context`)"
            )
        else:
            detail = (
                f"the context is full: a prompt of {size} characters and `max_tokens` do not fit; "
                "lower `passage_chars` or `max_tokens`, or serve a longer context (see "
                "`on_full_context`)"
            )
        if self._config.on_full_context == "unavailable":
            return JudgeResult.unavailable(Reason.BAD_REQUEST, detail=detail)
        return JudgeResult.invalid(Reason.CONTEXT_FULL, detail=detail)

    def _with_reply_text(self, result: JudgeResult, text: str) -> JudgeResult:
        """Put the reply into an invalid judgement, if the configuration says so."""
        if result.outcome is not Outcome.INVALID or not self._config.keep_invalid:
            return result
        # As in a valid reply, a lone surrogate would make every later write fail.
        kept = text[:_KEPT_REPLY_CHARS].encode("utf-8", "replace").decode()
        return result.model_copy(update={"reasoning": kept})


def _unreadable_failure(answer: chat.ChatReply) -> JudgeResult | None:
    if answer.finish == "refused":
        return JudgeResult.invalid(Reason.REFUSED)
    if answer.finish == "truncated":
        detail = f"the reply was cut off at {len(answer.text)} characters; raise `max_tokens`"
        if answer.beside == "reasoning":
            detail = (
                "the reply was cut off while the model was still thinking; raise `max_tokens`, or "
                "let it think less"
            )
        return JudgeResult.invalid(Reason.TRUNCATED, detail=detail)
    if not answer.text and answer.beside:
        return JudgeResult.invalid(
            Reason.EMPTY, detail=_EMPTY_REPLY_HINTS[answer.beside]
        )
    detail = _parse_obstacle(answer)
    return JudgeResult.invalid(Reason.NOT_JSON, detail=detail) if detail else None


def _parse_obstacle(answer: chat.ChatReply) -> str:
    """Return why a text is not parsed; "" for one that is."""
    text = answer.text
    size = len(answer.text)
    if answer.finish == "oversized":
        return "the answer exceeds the size limit"
    if size > _LONGEST_REPLY_CHARS:
        return f"the reply has {size} characters, more than {_LONGEST_REPLY_CHARS}"
    if text.lstrip().startswith("<think>"):
        return (
            "the reply begins with <think>; start the server with a reasoning parser (vLLM: "
            "--reasoning-parser)"
        )
    # Within JSON, the tags may stand in a string.
    if not text.lstrip().startswith("{") and any(end in text for end in _THOUGHT_ENDS):
        return (
            "the end of a thought (</think>) stands before the JSON; start the server with a "
            "reasoning parser (vLLM: --reasoning-parser deepseek_r1; llama.cpp: --reasoning-format "
            "deepseek)"
        )
    return ""


def unavailable_if_cut(result: JudgeResult, answer: Answered) -> JudgeResult:
    """Return the judgement, or unavailable if it is invalid and the reply may be cut off."""
    if answer.is_whole or result.outcome is not Outcome.INVALID:
        return result
    fault = result.detail or result.reason
    detail = (
        f"its `finish_reason` is missing or unknown, and it may be cut off: {fault}"
    )
    return JudgeResult.unavailable(Reason.SERVER_ERROR, detail=detail)


class LLMJudge(ModelJudge[JudgeConfig]):
    """Scores a response by asking a model once and reading its reply by the contract.

        r = Σ s_j / W  if the reply is valid,  0 with a reason if it is not

    With `granularity: criterion` it asks once for each criterion, and all replies have to be valid.
    An invalid reply is recorded and never asked for again. A call that brings no answer is repeated
    within the configured attempts and deadline, and then is `unavailable`.

    Close it with `aclose`, or use it as an asynchronous context manager.
    """

    _scored = ("evidence", "passage_chars")

    def _load_prompt(self) -> prompt.Prompt:
        config = self._config
        by_criterion = self._is_by_criterion and config.prompt == "shared_prefix"
        layout = "by_criterion" if by_criterion else config.prompt
        return prompt.load_prompt(layout, evidence=config.evidence != "off")

    @property
    def _is_by_criterion(self) -> bool:
        return self._config.granularity == "criterion"

    @property
    def name(self) -> str:
        """The model and the version of the prompt, and whether each criterion has its own call."""
        return super().name + (" by criterion" if self._is_by_criterion else "")

    @property
    def warm_call(self) -> bool:
        """Whether a group's first response is judged alone first."""
        return self._config.warm_call

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response.

        Args:
            view: everything the judge sees.

        Returns:
            A scored result; an invalid one for a reply that breaks the contract; or an unavailable
            one. A response without an answer scores 0, and the model is not asked.
        """
        reason = view.unanswered
        if reason is not None:
            return JudgeResult.without_answer(view.rubric, reason, judge=self.name)
        if not self._is_by_criterion:
            return await self._judge_at_once(view)
        return await judge_by_criterion(self._judge_at_once, view, warm=self.warm_call)

    async def _judge_at_once(self, view: JudgeView) -> JudgeResult:
        config = self._config
        rendered = self._prompt.render(view, passage_chars=config.passage_chars)
        reply = replies.reply_model(
            view.rubric, config.prompt, evidence=config.evidence != "off"
        )
        answer = await self._ask(rendered, reply, task_id=view.task_id)
        judgement = self._judgement(view, answer, passage=rendered.passage)
        recorded = self._with_reply_text(judgement, answer.text)
        result = recorded.with_call(**answer.call)
        events.call_finished(result, task_id=view.task_id)
        return result

    def _judgement(
        self, view: JudgeView, answer: Answered, *, passage: str
    ) -> JudgeResult:
        """Return the failure of a call, or else what its reply says."""
        if answer.failure is not None:
            return unavailable_if_cut(answer.failure, answer)
        read = self._read(view, answer.text, passage=passage)
        return unavailable_if_cut(read, answer)

    def _read(self, view: JudgeView, text: str, *, passage: str) -> JudgeResult:
        if self._config.evidence == "off":
            return JudgeResult.from_reply(view.rubric, text)
        return JudgeResult.from_quoting_reply(
            view.rubric,
            text,
            response=view.response,
            passage=passage,
            required=self._config.evidence == "require",
        )
