"""Prompts, their responses, and what drawing them took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rubric_train_openrlhf.step.sampling import Timing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_train_openrlhf.cluster.crossing.verdict import JudgementId


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
