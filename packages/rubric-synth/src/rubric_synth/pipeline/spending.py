"""What the calls of a dataset have cost, and what one more may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_judge import JudgeConfig
from rubric_judge.config import HybridConfig
from rubric_synth.calls import RunningTotals
from rubric_synth.engines.protocol import model_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_core import Usage
    from rubric_judge import ModelConfig
    from rubric_synth.calls import CallRecord, CallTotals
    from rubric_synth.config import SynthConfig
    from rubric_synth.rejection import Stage
    from rubric_synth.work import WorkFolder


class Prices:
    """The prices that a configuration gives, for calls that came without one."""

    def __init__(self, config: SynthConfig) -> None:
        """Look up the model's, and the judge's where it is a model."""
        judge = config.quality.judge
        reader = judge.judge if isinstance(judge, HybridConfig) else judge
        self._model = model_config(config)
        self._judge: ModelConfig | None = reader if isinstance(reader, JudgeConfig) else None

    def of(self, stage: Stage, usage: Usage) -> float | None:
        """Return what tokens cost; None where that is not known."""
        asked = self._judge if stage == "quality" else self._model
        if asked is None or asked.prices is None:
            return None
        return asked.prices.cost_usd(usage)


class Spending:
    """The account of all calls that were made for a dataset, over all runs."""

    def __init__(self, folder: WorkFolder, prices: Prices) -> None:
        """Start from what earlier runs have spent."""
        self._prices = prices
        self._sums: dict[Stage, RunningTotals] = {}
        for stage, totals in folder.spent(prices.of).items():
            self._sums[stage] = RunningTotals(**dict(totals))

    @property
    def by_stage(self) -> dict[Stage, CallTotals]:
        """What each stage has taken."""
        return {stage: sums.totals for stage, sums in self._sums.items()}

    @property
    def calls(self) -> int:
        """Answered calls."""
        return sum(sums.calls for sums in self._sums.values())

    @property
    def cost_usd(self) -> float:
        """Of the calls with a known price."""
        return sum(sums.cost_usd for sums in self._sums.values())

    @property
    def unpriced_calls(self) -> int:
        """Calls without one."""
        return sum(sums.unpriced_calls for sums in self._sums.values())

    @property
    def dearest_usd(self) -> float | None:
        """The mean of the stage whose calls cost most; None where no call has a price yet."""
        return max(_means(self._sums), default=None)

    def add(self, record: CallRecord) -> bool:
        """Add a call, and return whether its price is known."""
        usage = record.usage
        cost_usd = usage.cost_usd if usage else None
        if usage is not None and cost_usd is None:
            cost_usd = self._prices.of(record.stage, usage)
        if record.stage not in self._sums:
            self._sums[record.stage] = RunningTotals()
        self._sums[record.stage].add_call(record, cost_usd)
        return cost_usd is not None


def _means(by_stage: Mapping[Stage, RunningTotals]) -> list[float]:
    """Return what a call of each stage costs; what was paid in vain is part of it."""
    priced = ((totals, totals.calls - totals.unpriced_calls) for totals in by_stage.values())
    return [totals.cost_usd / calls for totals, calls in priced if calls > 0]
