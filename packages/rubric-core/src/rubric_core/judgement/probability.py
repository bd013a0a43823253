"""The probability of a verdict, read from the probabilities of a reply's first token."""

import math
from typing import Annotated, Self

from pydantic import Field, model_validator

from rubric_core.errors import SchemaError
from rubric_core.schema.sealed import Sealed

Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


class VerdictProbability(Sealed):
    """How probable a model finds it that a response meets one criterion.

    Make one with `of`. It is the model's own figure, and no frequency: a calibration says what it
    is worth.
    """

    met: Share
    """P(yes | yes or no): the criterion's share of its weight."""

    low: Share
    """The least that `met` can be: everything that the server left out is a no."""

    high: Share
    """The most that `met` can be: everything that the server left out is a yes."""

    mass: Share
    """Probability of the tokens that say yes or no, in every spelling that is listed."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.met <= self.high:
            raise ValueError(
                f"met is {self.met!r}; it must be from low={self.low!r} to high={self.high!r}"
            )
        return self

    @classmethod
    def of(cls, *, yes: float, no: float, unlisted: float = 0.0) -> Self:
        """Return the reading of one token's probabilities.

            met = p_yes / (p_yes + p_no)
            low = p_yes / (p_yes + p_no + u),   high = (p_yes + u) / (p_yes + p_no + u)

        A server lists the k most probable tokens. The rest, u, may be further spellings of a
        verdict: whatever part of it is one, the expectation over all tokens lies in [low, high].

        Args:
            yes: probability of all listed tokens that say yes, ≥ 0.
            no: of those that say no, ≥ 0.
            unlisted: 1 − the probability of all listed tokens, of whatever they say, ≥ 0.

        Raises:
            SchemaError: a figure is negative or not finite, or no verdict is listed.

        Source: arXiv 2303.16634 (G-Eval), Eq. 1, with the verdicts' probabilities renormalised.
        """
        figures = {"yes": yes, "no": no, "unlisted": unlisted}
        for name, figure in figures.items():
            if not 0 <= figure < math.inf:
                raise SchemaError(
                    f"{name}={figure!r} is no probability: give a number from 0"
                )
        mass = yes + no
        if mass == 0:
            raise SchemaError(
                "yes and no are both 0: there is no verdict to take a share of"
            )
        met = yes / mass
        return cls(
            met=met,
            low=min(yes / (mass + unlisted), met),
            high=max(min((yes + unlisted) / (mass + unlisted), 1.0), met),
            mass=min(mass, 1.0),
        )
