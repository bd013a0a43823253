"""Responders answer the questions of an evaluation: local models, servers and plugins.

A responder gets `PolicyView`s, which cannot hold a passage or a criterion.
"""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Protocol, Self, runtime_checkable

from pydantic import Field, JsonValue, model_validator

from rubric_core.outcome import Outcome, Reason
from rubric_core.schema.answer import Answer, Thought
from rubric_core.schema.sealed import Many, Sealed, Text, Unshown
from rubric_core.schema.views import PolicyView


class Decoding(Sealed):
    """Settings by which tokens are drawn; the same for every model that is compared.

    The defaults are those of held-out evaluations and of a training run's held-out passes: the best
    checkpoint is the one that the table would show to be the best.
    """

    temperature: float = Field(default=0.0, ge=0, le=10)
    """Temperature of the draw; 0 takes the most likely token."""

    top_p: float = Field(default=1.0, gt=0, le=1)
    """Probability of the smallest set of tokens to draw from; 1 draws from all."""

    top_k: int | None = Field(default=None, ge=1)
    """Number of the most likely tokens to draw from; None draws from all."""

    max_tokens: int = Field(default=3072, ge=1)
    """Tokens after which an answer is cut."""

    stop: Many[Annotated[str, Field(min_length=1)]] = ()
    """Texts that end an answer and do not belong to it."""


class Ask(Sealed):
    """A request for one answer."""

    view: PolicyView
    """The view that the model gets."""

    seed: int = Field(ge=0)
    """Seed of the draw; different for each sample of a question."""

    choices: Many[Annotated[str, Field(min_length=1)]] = ()
    """Texts to choose the likeliest answer from; empty for an answer to be written. Only for a
    responder that `ScoresChoices`."""


class Finish(StrEnum):
    """The ways an answer may end."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    """Cut at `max_tokens`, or where the model has no position left, or within its thought."""
    REFUSED = "refused"
    """Stopped by a filter of the model's provider; the text is what came before."""


class Reply(Sealed):
    """An answer, or the reason why there is none; a failure is never a text."""

    text: Unshown[Text | None] = None
    """The answer without special tokens and without the thought before it, as
    `rubric_core.answer_of` has it; None where none came."""

    finish: Finish | None = None
    tokens: int | None = Field(default=None, ge=0)
    """Number of tokens that the model wrote, thought included, where they were counted."""

    thought: Thought = Thought.NONE
    """Whether a thought stood before the answer. If it does not end, the text is empty and cut."""

    reason: Reason | None = None
    """Reason why no answer came."""

    detail: str = ""
    choice_logprobs: Many[float] = ()
    """log p(choice | question) of each of `Ask.choices`, in nats; empty without choices."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        failed = self.reason is not None and self.reason.outcome is Outcome.UNAVAILABLE
        if failed == (self.text is not None) or (self.finish is None) != failed:
            raise ValueError("give a text and how it ended, or a reason why none came")
        is_cut = self.finish in {Finish.TRUNCATED, Finish.REFUSED}
        if self.thought is Thought.UNCLOSED and (self.text or not is_cut):
            raise ValueError(
                "a thought that does not end leaves an empty text, and is cut"
            )
        return self

    @classmethod
    def answered(
        cls, text: str, *, finish: Finish = Finish.COMPLETE, tokens: int | None = None
    ) -> Self:
        """Return the reply for an answer, which may be empty, without a thought."""
        return cls(text=text, finish=finish, tokens=tokens)

    @classmethod
    def of_completion(
        cls,
        answer: Answer,
        *,
        finish: Finish = Finish.COMPLETE,
        tokens: int | None = None,
    ) -> Self:
        """Return the reply for a result of `answer_of`; a thought that does not end counts as cut.

        Args:
            answer: the answer.
            finish: how the completion ended.
            tokens: number of tokens of the whole completion.
        """
        if answer.thought is Thought.UNCLOSED and finish is Finish.COMPLETE:
            finish = Finish.TRUNCATED
        text = answer.text.strip()
        return cls(text=text, finish=finish, tokens=tokens, thought=answer.thought)

    @classmethod
    def chosen(cls, choices: Sequence[str], logprobs: Sequence[float]) -> Self:
        """Return the likeliest choice, the first of equal ones; no answer if any is not finite."""
        if not all(map(math.isfinite, logprobs)):
            return cls.unavailable(
                Reason.SERVER_ERROR,
                "the log-probabilities of the choices are no finite numbers",
            )
        best = max(range(len(choices)), key=logprobs.__getitem__)
        return cls(
            text=choices[best], finish=Finish.COMPLETE, choice_logprobs=tuple(logprobs)
        )

    @classmethod
    def unavailable(cls, reason: Reason, detail: str = "") -> Self:
        """Return a reply without an answer: the model could not be reached or did not run."""
        return cls(reason=reason, detail=detail)

    @classmethod
    def too_long(cls, tokens: int, positions: int | None) -> Self:
        """Return a reply without an answer: the prompt leaves the model no position for one."""
        problem = f"the prompt has {tokens} tokens, and the model {positions} positions"
        return cls.unavailable(Reason.BAD_REQUEST, f"{problem}: leave the question out")


@runtime_checkable
class Responder(Protocol):
    """A model that answers questions."""

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """All that may change an answer to the same question, decoding left out; no key.

        Two responders with the same identity may use each other's answers, so weights are in it by
        content or by an immutable name, and so are template, adapter and number format.
        """
        ...

    def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncIterator[tuple[int, Reply]]:
        """Answer questions, in any order, as they are done.

        Args:
            asks: N questions.
            decoding: the settings. One that this responder does not support is refused at once,
                never ignored.

        Yields:
            Index into `asks` and the reply; every index once. A failure of a model or a network is
            a reply, not an error.

        Raises:
            ConfigError: the decoding has a setting that this responder does not support.
            ResponderError: nothing can be answered: the model does not load.
        """
        ...

    async def aclose(self) -> None:
        """Free the model or close the connections."""
        ...


@runtime_checkable
class SaysPromptForm(Protocol):
    """A responder that also gives its prompt form; models that differ in it are not compared."""

    @property
    def prompt_form(self) -> str:
        """How questions are put to the model.

        "chat" for a chat template or messages, "plain" for `Question: …` and `Answer:` on two
        lines, or a word of its own.
        """
        ...


@runtime_checkable
class ScoresChoices(Protocol):
    """A responder that can also say how likely the given answers are."""

    @property
    def scores_choices(self) -> bool:
        """Whether `Ask.choices` is answered by a `Reply.chosen`, without reading the decoding."""
        ...


class ResponderFactory(Protocol):
    """Makes a responder from the options of a specification; the target of an entry point."""

    def __call__(self, options: Mapping[str, object], /) -> Responder:
        """Make the responder, or raise ConfigError for options that do not fit."""
        ...
