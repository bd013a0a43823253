"""Prompts, their judged responses, and the names by which the judge's side finds a judgement.

All that the policy's side learns of a judgement is a `Verdict`: its name, and a reward.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self
from uuid import uuid4

from rubric_core import Reason
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.run.writing import write_lines
from rubric_train_openrlhf.step.passes import Timing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rubric_core import PolicyView
    from rubric_train_openrlhf.policy import ChatCodec


_PARTS = 3


@dataclass(frozen=True, slots=True)
class JudgementId:
    """Names a judgement, so that the judge's side finds it again, also after a restart.

    As text it is `task:key`, or `task!reason!number` of one that did not happen: nothing is kept
    of it, so it says itself all that there is to know.
    """

    task_id: str
    """Whose response was judged."""
    key: str = ""
    """The judgement's key in the ledger; empty of one that did not happen."""
    reason: Reason | None = None
    """Why it did not happen."""
    number: str = ""
    """Tells those of one task and reason apart."""

    @classmethod
    def failed(cls, task_id: str, reason: Reason) -> Self:
        """Name a judgement that did not happen."""
        return cls(task_id=task_id, reason=reason, number=uuid4().hex)

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what `text` wrote.

        Raises:
            ValueError: it did not.
        """
        task_id, colon, key = text.partition(":")
        if colon:
            return cls(task_id=task_id, key=key)
        parts = text.split("!")
        if len(parts) != _PARTS:
            raise ValueError(f"{text!r} is no name of a judgement")
        return cls(task_id=parts[0], reason=Reason(parts[1]), number=parts[2])

    @property
    def is_answer(self) -> bool:
        """Whether the engine finished the response, so that it is the policy's."""
        return self.reason is not Reason.NO_RESPONSE

    @property
    def text(self) -> str:
        """The name on one line."""
        if self.reason is None:
            return f"{self.task_id}:{self.key}"
        return f"{self.task_id}!{self.reason.value}!{self.number}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that the policy's side learns of a judgement."""

    judgement: str
    """A `JudgementId` as text."""
    reward: float | None
    """The judge's, in [0, 1]; None where there is none and the response is left out."""

    @classmethod
    def unreachable(cls, task_id: str, reason: Reason) -> Self:
        """Say that the judge's side gave no answer."""
        return cls(JudgementId.failed(task_id, reason).text, None)


@dataclass(frozen=True)
class Prompt:
    """A row of a prompt dataset."""

    text: str
    """As the policy reads it."""
    task_id: str
    question: str


@dataclass(frozen=True)
class Sample:
    """One judged response."""

    experience: Any
    """OpenRLHF's `Experience` of this response alone."""
    judgement: JudgementId
    text: str
    tokens: int
    """The end token included."""
    ended: bool
    """Whether it came to its end token. One that the engine left unfinished did not, and its
    judgement says so."""


@dataclass(frozen=True)
class Group:
    """All responses to one prompt."""

    prompt: Prompt
    samples: tuple[Sample, ...]

    @property
    def judgements(self) -> list[str]:
        """Names of the judgements."""
        return [sample.judgement.text for sample in self.samples]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each response."""
        return [sample.tokens for sample in self.samples]

    @property
    def ended(self) -> list[bool]:
        """Whether each response came to its end token."""
        return [sample.ended for sample in self.samples]


@dataclass(frozen=True)
class Drawn:
    """Groups in the order of their prompts, and what they took."""

    groups: list[Group]
    generated_tokens: int
    timing: Timing
    resent: int
    """Responses that were asked for again, because an engine died."""
    prompts: int
    """Drawn in all; more than there are groups where dynamic sampling dropped some."""

    @classmethod
    def of_rounds(cls, rounds: Sequence[Drawn], *, groups: list[Group]) -> Drawn:
        """What some rounds took together, for the groups that were kept."""
        return cls(
            groups=groups,
            generated_tokens=sum(drawn.generated_tokens for drawn in rounds),
            timing=sum((drawn.timing for drawn in rounds), start=Timing()),
            resent=sum(drawn.resent for drawn in rounds),
            prompts=sum(drawn.prompts for drawn in rounds),
        )


Source = Literal["train", "heldout"]


class TooLong(NamedTuple):
    """A prompt that leaves no room for a response."""

    task_id: str
    tokens: int


def write_prompts(
    path: Path,
    views: Sequence[PolicyView],
    *,
    codec: ChatCodec,
    source: Source,
    max_prompt_tokens: int,
) -> None:
    """Write the dataset that OpenRLHF reads prompts from, in the order of the views.

    A row is `{"input", "label", "question"}`: the prompt as text that tokenizes to
    `encode_prompt` where no special token is added, the task id, and the question as it was asked.

    Args:
        path: of the file.
        views: what the policy may see of the tasks.
        codec: writes a prompt as the policy reads it.
        source: which dataset this is, for an error.
        max_prompt_tokens: longest prompt that leaves room for a response.

    Raises:
        TrainConfigError: a prompt is longer.
        DiskWriteError: the file could not be written.
    """
    if too_long := list(long_prompts(views, codec=codec, max_prompt_tokens=max_prompt_tokens)):
        longest = max(too_long, key=lambda one: one.tokens)
        raise TrainConfigError(
            f"{len(too_long)} of {len(views)} {source} prompts are longer than the "
            f"{max_prompt_tokens} tokens that rollout.max_new_tokens leaves of cluster.max_len; "
            f"the longest has {longest.tokens} (task {longest.task_id}): raise cluster.max_len to "
            "it and the response together, or leave such tasks out",
            location="cluster.max_len",
        )
    write_lines(path, _rows(views, codec=codec))


def long_prompts(
    views: Sequence[PolicyView], *, codec: ChatCodec, max_prompt_tokens: int
) -> Iterator[TooLong]:
    """Find the prompts that leave no room for a response.

    OpenRLHF would cut them from the left: the policy would be asked something else.
    """
    for view in views:
        tokens = len(codec.encode_prompt(view).token_ids)
        if tokens > max_prompt_tokens:
            yield TooLong(view.task_id, tokens)


def _rows(views: Sequence[PolicyView], *, codec: ChatCodec) -> Iterator[str]:
    for view in views:
        row = {
            "input": codec.prompt_text(view),
            "label": view.task_id,
            "question": view.question,
        }
        yield json.dumps(row)
