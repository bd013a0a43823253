"""A language model as judge: prompt, one answer, strict reading."""

from __future__ import annotations

import hashlib
import json
import time
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from rubric_core import Answerer, JudgeResult, JudgeView, Reason, Rubric
from rubric_judge import events
from rubric_judge.chat_model import ChatModel
from rubric_judge.config import JudgeConfig, PromptLayout
from rubric_judge.errors import JudgeTransportError
from rubric_judge.llm.prompt import RenderedPrompt, load_prompt
from rubric_judge.provider.chat import ChatClient, ChatReply, ClosesItself
from rubric_judge.provider.limits import Limiter

_Fields = dict[str, Any]


class _Contract(BaseModel):
    """A model that writes its JSON schema once; clients ask for it at every call."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, validate_by_name=False)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the schema, the same object every time."""
        if "_json_schema" not in cls.__dict__:
            cls._json_schema = super().model_json_schema(*args, **kwargs)
        return cls._json_schema


def reply_model(rubric: Rubric, layout: PromptLayout, *, evidence: bool = False) -> type[BaseModel]:
    """Return the model of a valid reply: one required score per criterion, bounded by its weight.

    Args:
        rubric: ids and weights.
        layout: decides the order of the keys, which constrained decoding follows: with
            `shared_prefix` the reasoning comes before the scores.
        evidence: whether there is a quote for each criterion; quotes come before the scores too.
            Their length is not in the schema: some servers' grammars get bounded strings wrong.

    Returns:
        A model class named `JudgeReply`, the same for the same arguments.
    """
    weights = tuple((criterion.id, criterion.weight) for criterion in rubric)
    return _build(weights, rubric.total_weight, layout, evidence)


# A class costs a thousand times what an instance does, and a group of responses shares one.
@lru_cache(maxsize=1024)
def _build(
    weights: tuple[tuple[str, float], ...],
    total: float,
    layout: PromptLayout,
    evidence: bool,  # noqa: FBT001  # a cache's key
) -> type[BaseModel]:
    # Ids may be no Python names, so the fields are numbered and the ids are aliases.
    numbered = [(f"criterion_{number}", *one) for number, one in enumerate(weights)]
    scores: _Fields = {
        field: (_between(0, weight, alias=name), ...) for field, name, weight in numbered
    }
    numbers: _Fields = {
        "scores": (create_model("Scores", __base__=_Contract, **scores), ...),
        "total": (_between(0, total), ...),
        "max_total": (_between(total, total), ...),
    }
    if evidence:
        quotes: _Fields = {
            field: (Annotated[str, Field(alias=name)], ...) for field, name, _ in numbered
        }
        numbers = {
            "evidence": (create_model("Evidence", __base__=_Contract, **quotes), ...)
        } | numbers
    reasoning: _Fields = {"reasoning": (str, ...)}
    ordered = reasoning | numbers if layout == "shared_prefix" else numbers | reasoning
    return create_model("JudgeReply", __base__=_Contract, **ordered)


def _between(low: float, high: float, *, alias: str | None = None) -> object:
    return Annotated[float, Field(ge=low, le=high, alias=alias)]


# A valid reply has a few thousand characters; one like this would only fill memory and files.
_LONGEST_REPLY_CHARS = 1_000_000


class LLMJudge(ClosesItself):
    """Scores a response by asking a model once and reading its reply by the contract.

        r = Σ s_j / W  if the reply is valid,  0 with a reason if it is not

    An invalid reply is recorded and never asked for again. A call that brings no
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
        self._model = ChatModel(config, client=client, limiter=limiter, role="judge")

    @property
    def name(self) -> str:
        """The model and the version of the prompt."""
        return f"{self._config.model} {self._prompt.version}"

    @property
    def fingerprint(self) -> str:
        """The name, and a hash of all that may change a score; see `ChatModel.identity`."""
        config = self._config
        parts = {
            **self._model.identity,
            "prompt": self._prompt.sha256,
            "evidence": config.evidence,
            "passage_chars": config.passage_chars,
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
        return self._model.limiter

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
        by: Answerer | None = None
        try:
            answer = await self._model.complete(
                system=rendered.system,
                user=rendered.user,
                reply=reply,
                affinity=view.task_id,  # its responses share a prefix, for one replica to read
            )
        except JudgeTransportError as error:
            call, result = error, JudgeResult.unavailable(error.reason, detail=error.detail)
        else:
            call, result = answer, self._read(view, answer, rendered)
            by = answer.answered_by
        latency_s = call.latency_s
        result = result.with_call(
            judge=self.name,
            answered_by=by,
            usage=call.usage,
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
        await self._model.check()

    async def aclose(self) -> None:
        """Close the connections to the model."""
        await self._model.aclose()

    def _read(self, view: JudgeView, answer: ChatReply, rendered: RenderedPrompt) -> JudgeResult:
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
        if self._config.evidence == "off":
            return JudgeResult.from_reply(view.rubric, answer.text)
        return JudgeResult.from_quoting_reply(
            view.rubric,
            answer.text,
            response=view.response,
            passage=rendered.passage,
            required=self._config.evidence == "require",
        )
