"""Estimates: a number with its interval, and how files and tables hold it."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

Unit = Literal["document", "task", "response"]
TooFew = Literal["too few to say"]
TOO_FEW: TooFew = "too few to say"
"""Stands in place of an interval where there are too few items to estimate their spread."""
_ROUNDING = 1e-9
"""Largest amount by which rounding may put a lower limit above the upper one."""


def _reason(known: dict[str, object]) -> TooFew | None:
    is_bare = known.get("value") is not None and known.get("low") is None
    return TOO_FEW if is_bare else None


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Estimate:
    """A number and its interval; None, and never nan, if the data give no number.

    Raises:
        ValidationError: a number is nan or infinite, one limit is there without the other, limits
            without a value or in the wrong order, or fewer than no values.
    """

    value: float | None
    low: float | None = None
    """Lower limit; None, as the upper one, where the data are too few for an interval."""
    high: float | None = None
    n: int | None = Field(default=None, ge=0, exclude_if=lambda n: n is None)
    """Number of values that it is of; None where several units are counted beside it."""
    unit: Unit | None = None
    """The unit that the interval takes for independent; None without an interval."""
    no_interval: TooFew | None = Field(default_factory=_reason, repr=False)
    """Why a value has no interval."""

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval has two limits, or none")
        if self.low is not None and self.high is not None:
            if self.value is None:
                raise ValueError("limits need a value")
            if self.low > self.high + _ROUNDING:
                raise ValueError("the lower limit is above the upper one")
        return self

    @property
    def number(self) -> float:
        """The value of an estimate that has one.

        Raises:
            ValueError: the data gave no number.
        """
        if self.value is None:
            raise ValueError("the data give no number")
        return self.value

    def text(self, form: str = ".2f") -> str:
        """Write the estimate for people, with a true minus sign; None is a dash."""
        value = "–" if self.value is None else _signed(self.value, form)
        if self.low is not None and self.high is not None and self.low < self.high:
            value = f"{value} [{_signed(self.low, form)}, {_signed(self.high, form)}]"
        elif self.no_interval:
            value = f"{value} [{self.no_interval}]"
        return value.replace("-", "−")

    def __format__(self, form: str) -> str:
        return self.text(form or ".2f")


def _signed(value: float, form: str) -> str:
    """Write a number; one that rounds to zero has no sign."""
    text = format(value, form)
    return text if any(digit in "123456789" for digit in text) else text.lstrip("-+")


UNKNOWN = Estimate(value=None)


class MeanRecord(BaseModel):
    """The estimate of a mean over n values, as files hold it."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    mean: float
    ci_low: float | None = None
    """Lower limit; None where one question, or one document, leaves the spread unknown."""
    ci_high: float | None = None
    n: int

    @property
    def estimate(self) -> Estimate:
        """The mean, its interval and n."""
        return Estimate(self.mean, self.ci_low, self.ci_high, self.n)
