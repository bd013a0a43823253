"""What answers questions for an evaluation: one contract for local models, servers and plugins.

A responder gets `PolicyView`s, which cannot hold a passage or a criterion.
"""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Protocol, Self, runtime_checkable

from pydantic import Field, JsonValue, model_validator

from rubric_core.outcome import Outcome, Reason
from rubric_core.schema.answer import Answer, Thought
from rubric_core.schema.sealed import Many, Sealed, Text
from rubric_core.schema.task import PolicyView


class Decoding(Sealed):
    """How tokens are drawn; the same for every model that is compared.

    The defaults are those of held-out evaluations and of a training run's held-out passes: the best
    checkpoint is the one that the table would show to be the best.
    """

    temperature: float = Field(default=0.0, ge=0, le=10)
    """0 takes the most likely token."""

    top_p: float = Field(default=1.0, gt=0, le=1)
    """Smallest set of tokens with this probability is drawn from; 1 draws from all."""

    top_k: int | None = Field(default=None, ge=1)
    """Most likely tokens drawn from; None draws from all."""

    max_tokens: int = Field(default=3072, ge=1)
    """Tokens after which an answer is cut."""

    stop: Many[Annotated[str, Field(min_length=1)]] = ()
    """Texts that end an answer and do not belong to it."""


class Ask(Sealed):
    """One answer that is wanted."""

    view: PolicyView
    """What the model sees."""

    seed: int = Field(ge=0)
    """Of the draw; different for each sample of a question."""

    choices: Many[Annotated[str, Field(min_length=1)]] = ()
    """Texts of which the likeliest is the answer; empty where it is to be written. Only for a
    responder that `ScoresChoices`."""


class Finish(StrEnum):
    """How an answer ended."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    """At `max_tokens`, or where the model has no position left, or within its thought."""
    REFUSED = "refused"
    """By a filter of whoever serves the model; the text is what came before."""


class Reply(Sealed):
    """An answer, or why there is none; a failure is never a text."""

    text: Text | None = Field(default=None, repr=False)
    """The answer without special tokens and without the thought before it, as
    `rubric_core.answer_of` has it; None where none came."""

    finish: Finish | None = None
    tokens: int | None = Field(default=None, ge=0)
    """Of all that the model wrote, its thought included, where they were counted."""

    thought: Thought = Thought.NONE
    """What stood before the answer. One that does not end leaves an empty text, and is cut."""

    reason: Reason | None = None
    """Why no answer came."""

    detail: str = ""
    choice_logprobs: Many[float] = ()
    """log p(choice | question) of each of `Ask.choices`, in nats; empty where it had none."""

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
        """An answer that came, an empty one too; nothing of it was a thought."""
        return cls(text=text, finish=finish, tokens=tokens)

    @classmethod
    def of_completion(
        cls,
        answer: Answer,
        *,
        finish: Finish = Finish.COMPLETE,
        tokens: int | None = None,
    ) -> Self:
        """What `answer_of` found in a completion; a thought that does not end counts as cut.

        Args:
            answer: the answer.
            finish: how the completion ended.
            tokens: of the whole completion.
        """
        if answer.thought is Thought.UNCLOSED and finish is Finish.COMPLETE:
            finish = Finish.TRUNCATED
        text = answer.text.strip()
        return cls(text=text, finish=finish, tokens=tokens, thought=answer.thought)

    @classmethod
    def chosen(cls, choices: Sequence[str], logprobs: Sequence[float]) -> Self:
        """The likeliest of some choices, the first of those that are equal; none of NaN."""
        if not all(map(math.isfinite, logprobs)):
            what = "the log-probabilities of the choices are no finite numbers"
            return cls.unavailable(Reason.SERVER_ERROR, what)
        best = max(range(len(choices)), key=logprobs.__getitem__)
        return cls(
            text=choices[best], finish=Finish.COMPLETE, choice_logprobs=tuple(logprobs)
        )

    @classmethod
    def unavailable(cls, reason: Reason, detail: str = "") -> Self:
        """No answer: the model could not be reached or did not run."""
        return cls(reason=reason, detail=detail)

    @classmethod
    def too_long(cls, tokens: int, positions: int | None) -> Self:
        """No answer: the prompt alone leaves the model no position for one."""
        detail = (
            f"the prompt has {tokens} tokens, and the model {positions} positions: "
        )
        return cls.unavailable(Reason.BAD_REQUEST, f"{detail}leave the question out")


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
            decoding: how. What this responder cannot do is refused at once, never left out.

        Yields:
            Index into `asks` and the reply; every index once. What a model or a network does is a
            reply, not an error.

        Raises:
            ConfigError: the decoding asks for what this responder cannot do.
            ResponderError: nothing can be answered: the model does not load.
        """
        ...

    async def aclose(self) -> None:
        """Free the model or close the connections."""
        ...


@runtime_checkable
class SaysPromptForm(Protocol):
    """What a responder may say beside its identity; models that differ in it are not compared."""

    @property
    def prompt_form(self) -> str:
        """How questions are put to the model.

        "chat" for a chat template or messages, "plain" for `Question: …` and `Answer:` on two
        lines, or a word of its own.
        """
        ...


@runtime_checkable
class ScoresChoices(Protocol):
    """What a responder may do beside writing: say how likely given answers are."""

    @property
    def scores_choices(self) -> bool:
        """Whether it honours `Ask.choices`, by a `Reply.chosen`; the decoding is not read then."""
        ...


class ResponderFactory(Protocol):
    """Makes a responder from the options of a specification; the target of an entry point."""

    def __call__(self, options: Mapping[str, object], /) -> Responder:
        """Make the responder, or raise ConfigError for options that do not fit."""
        ...
