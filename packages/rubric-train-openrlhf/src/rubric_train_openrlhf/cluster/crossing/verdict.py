"""What crosses from the judge's side to the policy's: a reward, and a name for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from uuid import uuid4

from rubric_core import Reason

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
