"""Configuration of the judges that ask a language model."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field, model_validator

from rubric_judge.models.model_config import ModelConfig, Positive

PromptLayout = Literal["paper", "shared_prefix"]
EvidenceUse = Literal["off", "report", "require"]
Verdict = Literal["sampled", "probability"]


def _granularity(value: object) -> object:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if is_count or value in _BY_NAME:
        return value
    raise ValueError(
        "one call for what: `rubric` for all criteria, `criterion` for each, or a number from 1 "
        "for so many of them"
    )


_BY_NAME = ("rubric", "criterion")
Granularity = Annotated[
    Literal["rubric", "criterion"] | int, BeforeValidator(_granularity)
]


def _yamls_off(value: object) -> object:
    return "off" if value is False else value


class ModelJudgeConfig(ModelConfig):
    """Settings that all judges which ask a language model share."""

    passage_chars: Positive = 50_000
    """Characters of the passage that the judge reads; a longer one is cut and marked as cut."""

    on_full_context: Literal["invalid", "unavailable"] = "invalid"
    """Outcome of a judgement whose prompt and reply do not fit into the model's context.
    `invalid` earns 0, so that no response is too long for a bad score; `unavailable` earns
    nothing, and is masked by default."""

    keep_invalid: bool = False
    """Keep the text of an invalid reply, as the `reasoning` of its judgement; it may quote the
    passage."""


_ONE_WORD = {"granularity": "criterion", "temperature": 1.0, "max_tokens": 1}
"""Defaults of a judge by probability. At temperature 1 no server scales a log-probability: vLLM
never does unless it is told to, SGLang and others do."""
_FEWEST_LISTED = 3
"""Least number of tokens to list: one for each verdict, and the last, which is not read."""


class JudgeConfig(ModelJudgeConfig):
    """A language model as judge."""

    type: Literal["llm"] = "llm"

    prompt: PromptLayout = "shared_prefix"
    """`paper`: the paper's order. `shared_prefix`: what a group shares first, the response last."""

    granularity: Granularity = "rubric"
    """`rubric`: one call scores all criteria. `criterion`: one call for each, so that their errors
    are independent; what the calls share comes first. A number k: one call for each k of them, so
    that the reply to a long rubric is not cut off."""

    # Left out where it is not set: settings are part of keys that are older than it.
    verdict: Verdict = Field(
        default="sampled", exclude_if=lambda verdict: verdict == "sampled"
    )
    """`sampled`: scores stand in the reply, as the model drew it. `probability`: one call for each
    criterion, whose score is its weight times P(yes) of the reply's first token; over `direct`
    alone, and training needs a calibration."""

    evidence: Annotated[EvidenceUse, BeforeValidator(_yamls_off)] = "off"
    """`report`: ask for a quote for each criterion and say whether it is found. `require`: a score
    above 0 whose quote is not found makes the judgement invalid."""

    warm_call: bool = False
    """Judge a group's first response alone: for servers that share a prefix only once a call that
    has it is done. vLLM shares it at once."""

    @model_validator(mode="before")
    @classmethod
    def _of_one_word(cls, values: object) -> object:
        """Put what a verdict by probability needs in place of the defaults."""
        if not isinstance(values, Mapping):
            return values
        fields = cast("Mapping[str, object]", values)
        if fields.get("verdict") != "probability":
            return fields
        return {**_ONE_WORD, **fields}

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.is_by_probability:
            yield from self._not_by_probability()

    def _not_by_probability(self) -> Iterator[str]:
        """Yield what `verdict: probability` cannot be combined with, each with the remedy."""
        if not self.is_direct:
            yield (
                "`verdict: probability` reads the server's own log-probabilities, which litellm "
                "does not pass on alike for all providers: name an OpenAI-compatible server in "
                "`api_base`, with `transport: direct`"
            )
        settings = {
            "evidence": "a verdict of one word has no quote",
            "prompt": "it has a layout of its own",
            "schema": "a reply of one word has no schema",
        }
        for name, why in settings.items():
            if getattr(self, name) != type(self).model_fields[name].default:
                yield f"`{name}` has no meaning with `verdict: probability`, {why}: leave it out"
        if self.criteria_per_call != 1:
            yield (
                f"`granularity: {self.granularity}` and `verdict: probability`: a call has one "
                "first token, and so one criterion; leave granularity out"
            )
        if self.temperature not in {None, _ONE_WORD["temperature"]}:
            yield (
                f"temperature={self.temperature} and `verdict: probability`: nothing is drawn, and "
                "some servers scale their log-probabilities by it; leave it out, and 1 is sent"
            )
        if "logprobs" in self.parameters:
            yield (
                "'logprobs' in `parameters` and `verdict: probability`: the judge sets it itself; "
                "leave it out"
            )
        most = self.parameters.get("top_logprobs", _FEWEST_LISTED)
        is_count = isinstance(most, int) and not isinstance(most, bool)
        if not is_count or (isinstance(most, int) and most < _FEWEST_LISTED):
            yield (
                f"top_logprobs={most!r} in `parameters` and `verdict: probability`: give the "
                f"number of tokens to list, {_FEWEST_LISTED} or more; left out, 20"
            )

    @property
    def is_by_probability(self) -> bool:
        """Whether verdicts are read off probabilities."""
        return self.verdict == "probability"

    @property
    def criteria_per_call(self) -> int | None:
        """Most criteria that one call scores; None for all of a rubric."""
        if self.granularity == "rubric":
            return None
        return 1 if self.granularity == "criterion" else self.granularity

    def calls(self, criteria: int) -> int:
        """Return the number of calls that judge one response.

        Args:
            criteria: those with weight in the rubric, at least 1.
        """
        k = self.criteria_per_call
        return 1 if k is None else math.ceil(criteria / k)


class ListwiseConfig(ModelJudgeConfig):
    """A language model that scores all responses to a task in one call, beside each other."""

    type: Literal["listwise"] = "listwise"

    max_group: int = Field(default=16, ge=1, le=256)
    """Most different responses in one call; a larger group is an error before any call."""

    @model_validator(mode="before")
    @classmethod
    def _is_sampled(cls, values: object) -> object:
        if isinstance(values, Mapping) and "verdict" in values:
            raise ValueError(
                "verdict: a listwise judge scores all responses in one reply, which has no first "
                "token for each; use `type: llm` for `verdict: probability`, or leave it out"
            )
        return cast("object", values)
