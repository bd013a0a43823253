"""Judges that ask a language model: their identity and one call, and the judge of one response."""

import json
import time
from abc import abstractmethod
from typing import ClassVar, Generic, NamedTuple, TypeVar

from pydantic import BaseModel

from rubric_core import Answerer, JudgeResult, JudgeView, Outcome, Reason
from rubric_core.files import text_sha256
from rubric_core.judgement.call import Call
from rubric_judge import events
from rubric_judge.config import JudgeConfig, ModelJudgeConfig
from rubric_judge.errors import JudgeTransportError
from rubric_judge.judges.llm import prompt, replies
from rubric_judge.judges.llm.by_criterion import judge_by_criterion
from rubric_judge.judges.llm.failures import unreadable_failure, unspoken_failure
from rubric_judge.judges.llm.verdict_check import QUESTION_OF_CHECK, check_verdicts
from rubric_judge.judges.llm.verdicts import (
    READING,
    asked_fields,
    most_listed,
    read_verdict,
)
from rubric_judge.models import chat, limits
from rubric_judge.models.chat_model import ChatModel
from rubric_judge.models.model_config import ModelConfig

_Config = TypeVar("_Config", bound=ModelJudgeConfig)
_KEPT_REPLY_CHARS = 20_000


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
    logprobs: object = None
    """The log-probabilities that came with the reply, unread."""


class ModelJudge(chat.ClosesItself, Generic[_Config]):
    """Base of `LLMJudge` and `ListwiseJudge`: their identity, and one call."""

    _score_settings: ClassVar[tuple[str, ...]] = ("passage_chars",)
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
        self._model = ChatModel(
            self._request_settings(config), client=client, limiter=limiter, role="judge"
        )

    def _request_settings(self, config: _Config) -> ModelConfig:
        """Return the settings of the requests."""
        return config

    def _settings(self) -> dict[str, object]:
        """Return what may change a score, beside the model's settings and the prompt."""
        return {name: getattr(self._config, name) for name in self._score_settings}

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
        prompt_hash = {"prompt": self._prompt.sha256}
        parts = {**self._model.identity, **prompt_hash, **self._settings()}
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
        self,
        rendered: prompt.RenderedPrompt,
        reply: type[BaseModel] | None,
        *,
        task_id: str,
    ) -> Answered:
        """Make one call, with all attempts of its retries.

        Args:
            rendered: the messages.
            reply: the model of a valid reply; None for a word, whose text is not read.
            task_id: the task; its responses share a prefix and go to one replica.
        """
        started_s = time.perf_counter()
        answered_by: Answerer | None = None
        text = ""
        is_whole = True
        logprobs: object = None
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
            failure = self._too_long(answer, rendered)
            if failure is None:
                failure = (
                    unreadable_failure(answer) if reply else unspoken_failure(answer)
                )
            usage = answer.usage
            latency_s = answer.latency_s
            attempts = answer.attempts
            answered_by = answer.answered_by
            text = answer.text
            is_whole = answer.finish != "unsaid"
            logprobs = answer.logprobs
        if latency_s is None:
            latency_s = time.perf_counter() - started_s
        call = Call(
            judge=self.name,
            answered_by=answered_by,
            usage=usage,
            latency_s=latency_s,
            attempts=attempts,
            passage_truncated=rendered.passage_truncated,
        )
        return Answered(text, failure, call, is_whole, logprobs)

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


def unavailable_if_cut(result: JudgeResult, answer: Answered) -> JudgeResult:
    """Return the judgement, or unavailable if it is invalid and the reply may be cut off."""
    if answer.is_whole or result.outcome is not Outcome.INVALID:
        return result
    fault = result.detail or result.reason
    return JudgeResult.unavailable(
        Reason.SERVER_ERROR,
        detail=f"its `finish_reason` is missing or unknown, and it may be cut off: {fault}",
    )


class LLMJudge(ModelJudge[JudgeConfig]):
    """Scores a response by asking a model once and reading its reply by the contract.

        r = Σ s_j / W  if the reply is valid,  0 with a reason if it is not

    With `granularity: criterion`, or a number k, it asks once for each criterion, or for each k of
    them, and all replies have to be valid. With `verdict: probability` each criterion is a call
    whose score is read off the probabilities of its first token (`verdicts`). An invalid reply is
    recorded and never asked for again. A call that brings no answer is repeated within the
    configured attempts and deadline; after that the result is `unavailable`.

    Close it with `aclose`, or use it as an asynchronous context manager.
    """

    _score_settings = ("evidence", "passage_chars")

    @property
    def name(self) -> str:
        """The model, the version of the prompt, and the criteria of a call if those are not all."""
        config = self._config
        if config.is_by_probability or config.granularity == "rubric":
            return super().name
        if config.granularity == "criterion":
            return f"{super().name} by criterion"
        return f"{super().name} by {config.granularity}"

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
        config = self._config
        warm = config.warm_call
        if config.is_by_probability:
            return await judge_by_criterion(self._judge_by_word, view, warm=warm)
        k = config.criteria_per_call
        if k is None:
            return await self._judge_at_once(view)
        return await judge_by_criterion(self._judge_at_once, view, warm=warm, k=k)

    def refuse_excerpt(self, view: JudgeView) -> str:
        """Return "": every part of a trace can be read."""
        del view
        return ""

    async def check(self) -> None:
        """Ask every replica a short question; see `ModelJudge.check`.

        With `verdict: probability` it is a question like those to come, and a server that does not
        say how probable its words are is refused.

        Raises:
            JudgeSetupError: as `ModelJudge.check`; or as `check_verdicts`.
        """
        config = self._config
        if not config.is_by_probability:
            await super().check()
            return
        rendered = self._prompt.render(
            QUESTION_OF_CHECK, passage_chars=config.passage_chars
        )
        async for address, answer in self._model.probe(
            system=rendered.system, user=rendered.user
        ):
            await check_verdicts(config, address, answer)

    def _load_prompt(self) -> prompt.Prompt:
        """Return the prompt of the configured layout, or of its form for parts of a rubric."""
        config = self._config
        layout = config.prompt
        if config.is_by_probability:
            layout = "verdict"
        elif config.prompt == "shared_prefix" and config.granularity == "criterion":
            layout = "by_criterion"
        elif config.prompt == "shared_prefix" and config.criteria_per_call is not None:
            layout = "by_part"
        return prompt.load_prompt(layout, evidence=config.evidence != "off")

    def _request_settings(self, config: JudgeConfig) -> ModelConfig:
        if not config.is_by_probability:
            return config
        return config.model_copy(update={"parameters": asked_fields(config.parameters)})

    def _settings(self) -> dict[str, object]:
        settings = super()._settings()
        if self._config.is_by_probability:
            settings["verdict"] = READING
        return settings

    async def _judge_by_word(self, view: JudgeView) -> JudgeResult:
        """Judge the one criterion of a view by the probabilities of the reply's first token."""
        rendered = self._prompt.render(view, passage_chars=self._config.passage_chars)
        answer = await self._ask(rendered, None, task_id=view.task_id)
        judgement = answer.failure or read_verdict(
            view, answer.logprobs, most=most_listed(self._config.parameters)
        )
        return self._recorded(judgement, answer, view)

    async def _judge_at_once(self, view: JudgeView) -> JudgeResult:
        """Judge all criteria of a view in one call."""
        config = self._config
        rendered = self._prompt.render(view, passage_chars=config.passage_chars)
        reply = replies.reply_model(
            view.rubric, config.prompt, evidence=config.evidence != "off"
        )
        answer = await self._ask(rendered, reply, task_id=view.task_id)
        judgement = self._judgement(view, answer, passage=rendered.passage)
        return self._recorded(judgement, answer, view)

    def _recorded(
        self, judgement: JudgeResult, answer: Answered, view: JudgeView
    ) -> JudgeResult:
        """Return a judgement with the facts about its call, and log it."""
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
        """Read a reply by the contract, with its quotes if evidence was asked for."""
        if self._config.evidence == "off":
            return JudgeResult.from_reply(view.rubric, text)
        return JudgeResult.from_quoting_reply(
            view.rubric,
            text,
            response=view.quotable,
            passage=passage,
            required=self._config.evidence == "require",
        )
