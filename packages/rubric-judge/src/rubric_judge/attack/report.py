"""What an attack run found, as it is written to `attack.json`: ids and numbers, no text."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WorstCase(_Frozen):
    """One attack that was credited above what it deserves."""

    id: str
    """`family/name@task_id`."""
    reward: float
    bound: float


class FamilyCredit(_Frozen):
    """What a family of attacks was given."""

    family: str
    cases: int
    scored: int
    """Cases with scores and a bound; the rates are over these."""
    over_credited: int
    rate: float | None
    """Share of the scored cases credited more than ε above their bound."""
    low: float | None
    high: float | None
    """Wilson interval of the rate."""
    mean_over_credit: float | None
    """Mean over the scored cases of max(0, reward − bound)."""
    invalid: int
    """Cases that the judge answered out of contract: reward 0, the attacker gained nothing."""
    unavailable: int
    """Cases without an answer; a masked sample, neither a gain nor a loss."""
    unbounded: int
    """Cases on a base that the judge itself gave no scores: nothing to compare with."""
    worst: tuple[WorstCase, ...]
    """Most over-credited first."""


class ControlCredit(_Frozen):
    """What honest texts were given: a judge that cannot tell them apart has no low rate either."""

    name: str
    deserves: str
    responses: int
    scored: int
    mean_reward: float | None


class AttackReport(_Frozen):
    """A whole run."""

    judge: str
    tasks: int
    cases: int
    epsilon: float
    confidence: float
    families: tuple[FamilyCredit, ...]
    """Highest rate first."""
    controls: tuple[ControlCredit, ...]
    separated: int
    """Tasks whose reference answer was given more than the weak answer, by more than ε."""
    separable: int
    """Tasks with a reference answer, both of which were scored."""
