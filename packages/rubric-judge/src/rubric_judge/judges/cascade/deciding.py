"""The decisions of a cascade for one group: which cells the strong judge is asked for."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rubric_core.arrays import BoolArray, FloatArray
from rubric_judge.judges.cascade import value
from rubric_judge.judges.cascade.posterior import Posterior, Readings, posterior
from rubric_judge.judges.cascade.value import Costs, Moments

Stop = Literal["target", "budget", "spread", "all"]
"""Why no more is asked: the expected correlation is reached, the budget is spent, the responses are
not expected to differ, or there is nothing left to ask for."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Rule:
    """When a group has been judged well enough."""

    target: float
    """Expected correlation of the group's advantages with the fully judged ones."""
    budget: float
    """Most that may be spent, as a share of what it costs to ask for every cell."""
    least_spread: float
    """Standard deviation of the rewards below which a group is given up; 0 for none."""
    costs: Costs
    """Prices of the strong judge."""


class GroupDecision:
    """Chooses cells round after round, as the strong judge's verdicts come in."""

    def __init__(
        self,
        readings: Readings,
        alpha_M: FloatArray,
        rule: Rule,
        *,
        first_GM: BoolArray | None = None,
    ) -> None:
        """Take the cheap judge's readings; nothing is known of the strong one's.

        Args:
            readings: of the group.
            alpha_M: shares of the rubric's weight, shape [M].
            rule: when to stop.
            first_GM: cells that are asked for whatever they are worth: audits, and those of which
                the cheap judge said nothing. The budget pays for them, and does not cut them.
        """
        self._readings = readings
        self._alpha_M = alpha_M
        self._rule = rule
        shape = readings.mean_GM.shape
        self._first_GM = np.zeros(shape, bool) if first_GM is None else first_GM
        self.known_GM = np.full(shape, math.nan)
        """The strong judge's verdicts; nan where it was not asked."""
        self._whole = value.price(np.ones(shape, bool), rule.costs)
        self.spent = 0.0
        """Price of all that was asked for, in the unit of the costs."""
        self.stop: Stop | None = None
        """Why no more is asked; None while it goes on."""

    @property
    def read_GM(self) -> FloatArray:
        """Expected value of each cell by the cheap judge's reading alone."""
        return self._readings.mean_GM

    @property
    def posterior(self) -> Posterior:
        """Expected value of each cell, by all that is known."""
        return posterior(self._readings, self.known_GM)

    @property
    def moments(self) -> Moments:
        """Known and unknown spread of the rewards."""
        known = self.posterior
        return value.moments(
            known.mean_GM,
            known.variance_GM,
            self._alpha_M,
            sum_variance_M=known.sum_variance_M,
            together=self._readings.together,
        )

    @property
    def correlation(self) -> float:
        """Correlation expected between the group's advantages and the fully judged ones."""
        return value.expected_correlation(self.moments)

    @property
    def spent_frac(self) -> float:
        """Share of what it costs to ask for every cell."""
        return self.spent / self._whole

    @property
    def values_GM(self) -> FloatArray:
        """The values to judge by: of a group that is given up, the same for all responses."""
        mean_GM = self.posterior.mean_GM
        if self.stop == "spread":
            return np.broadcast_to(mean_GM.mean(axis=0), mean_GM.shape)
        return mean_GM

    def choose(self) -> BoolArray:
        """Return the cells to ask for next, shape [G, M]; none once `stop` says why."""
        first_GM = self._first_GM & np.isnan(self.known_GM)
        self._first_GM = np.zeros_like(first_GM)
        known = self.moments
        wanted_GM = self._worth_more(known, first_GM)
        chosen_GM = first_GM | wanted_GM
        if chosen_GM.any():
            self.stop = None
            self.spent += value.price(chosen_GM, self._rule.costs)
        return chosen_GM

    def learn(self, known_GM: FloatArray) -> None:
        """Take the strong judge's verdicts, nan where it was not asked."""
        self.known_GM = np.where(np.isnan(known_GM), self.known_GM, known_GM)

    def keep(self, is_kept_G: BoolArray) -> None:
        """Go on with some of the responses; what was spent on the others stays spent."""
        readings = self._readings
        self._readings = replace(readings, mean_GM=readings.mean_GM[is_kept_G])
        self.known_GM = self.known_GM[is_kept_G]
        self._first_GM = self._first_GM[is_kept_G]

    def _worth_more(self, known: Moments, first_GM: BoolArray) -> BoolArray:
        rule = self._rule
        nothing_GM = np.zeros_like(first_GM)
        responses = len(first_GM)
        worth_GM = value.worth(
            self.posterior.variance_GM,
            self._alpha_M,
            together=self._readings.together,
        )
        open_GM = np.where(first_GM, 0.0, worth_GM)
        spread = math.sqrt(known.spread / (responses - 1)) if responses > 1 else 0.0
        if np.all(first_GM | ~np.isnan(self.known_GM)):
            self.stop = "all"
            return nothing_GM
        if spread < rule.least_spread:
            self.stop = "spread"
            return nothing_GM
        needed = 0.0
        if responses > 1:  # one alone has no advantage
            needed = value.needed_worth(known, target=rule.target, responses=responses)
            needed -= float((worth_GM - open_GM).sum())
        if needed <= _ROUNDING * known.spread:
            self.stop = "target"
            return nothing_GM
        costs = rule.costs
        budget = rule.budget * self._whole - self.spent - value.price(first_GM, costs)
        wanted_GM = value.choose_cells(
            open_GM, needed=needed, costs=costs, budget=budget + _ROUNDING
        )
        if not wanted_GM.any():
            self.stop = "budget"
        return wanted_GM
