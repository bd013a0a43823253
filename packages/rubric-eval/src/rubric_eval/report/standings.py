"""What a model reached, in the numbers that a table shows."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from rubric_eval.intervals import Interval, mean_interval

if TYPE_CHECKING:
    from rubric_eval.records import Measured


@dataclass(frozen=True)
class Standing:
    """One model under one judge, or on one benchmark."""

    measured: Measured
    interval: Interval
    """Of the mean over questions."""

    zero_frac: float
    """Share of judged answers with reward 0, or of items that were not right."""

    @property
    def mean(self) -> float:
        """Mean over questions of the mean over the answers to each."""
        return self.interval.mean


def standing(measured: Measured) -> Standing:
    """Sum up the values of one model."""
    values = [value for values in measured.values_NK for value in values if value is not None]
    return Standing(
        measured=measured,
        interval=mean_interval(question_means(measured)),
        zero_frac=sum(value == 0 for value in values) / max(len(values), 1),
    )


def question_means(measured: Measured) -> list[float | None]:
    """Mean over the usable answers to each question; None where there is none."""
    usable = ([value for value in values if value is not None] for values in measured.values_NK)
    return [fmean(values) if values else None for values in usable]
