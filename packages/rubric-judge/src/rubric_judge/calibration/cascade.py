"""A cascade's thresholds from people's labels: the very judge is run at each threshold in turn."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from rubric_core import (
    ConfigError,
    Judge,
    JudgeResult,
    JudgeView,
    Outcome,
    Pool,
    Pooling,
)
from rubric_judge.calibration.target import CascadeTarget
from rubric_judge.calibration.thresholds import GRID, RiskTest, risk_test
from rubric_judge.capabilities import fingerprint
from rubric_judge.cascade.judge import CascadeJudge
from rubric_judge.cascade.record import CascadeCalibration, Threshold
from rubric_judge.cascade.uncertainty import HALF, agree
from rubric_judge.config import CascadeConfig
from rubric_judge.labels.rows import Label
from rubric_judge.ledger.store import Ledger
from rubric_judge.pool.pool import JudgePool

_Group: TypeAlias = Pool | None
"""Criteria that share a threshold: those of one pool, or None for all of them."""
_Thresholds: TypeAlias = dict[_Group, float | None]


def _is_tie(shares: Sequence[float], target: CascadeTarget) -> bool:
    """Whether a verdict is to be compared, and as many raters say met as not."""
    met = sum(share >= HALF for share in shares)
    return target.tolerance is None and 2 * met == len(shares)


class _Labels:
    """People's shares z of each labelled criterion, and how their contradictions are averaged."""

    def __init__(
        self,
        labels: Iterable[Label],
        views: Sequence[tuple[int, JudgeView]],
        target: CascadeTarget,
        documents: Mapping[str, str],
    ) -> None:
        given: dict[int, dict[str, list[float]]] = {}
        by_line = dict(views)
        for label in labels:
            weight = by_line[label.line].rubric[label.criterion].weight
            if label.score is not None and weight:
                scores = given.setdefault(label.line, {}).setdefault(
                    label.criterion, []
                )
                scores.append(label.score / weight)
        self.shares = {
            line: {name: math.fsum(all_) / len(all_) for name, all_ in criteria.items()}
            for line, all_of_line in given.items()
            if (
                criteria := {
                    name: z for name, z in all_of_line.items() if not _is_tie(z, target)
                }
            )
        }
        """Mean of the raters, by line and criterion; without those that people have not decided."""
        if not self.shares:
            raise ConfigError(
                "the labels hold no score of a criterion with weight: label some responses",
                location="labels",
            )
        self.views = [by_line[line] for line in self.shares]
        self.target = target
        self.documents = documents
        pooling = Pooling.of(self.views)
        self.pools = {
            line: {name: pooling.pool(by_line[line].rubric[name]) for name in criteria}
            for line, criteria in self.shares.items()
        }
        """By line and criterion."""
        pools = {pool for of_line in self.pools.values() for pool in of_line.values()}
        self.groups: tuple[_Group, ...] = (None,)
        if target.per_criterion:
            named: list[Pool] = sorted(pools, key=lambda one: one.name)
            self.groups = tuple(named)

    def test(
        self, group: _Group, results: Sequence[JudgeResult], *, delta: float
    ) -> RiskTest:
        """Test whether the risk of a group of criteria is above α.

        Responses that the judge was not reached for are left out, as their reward is.
        """
        units: dict[object, list[float]] = {}
        for line, view, result in zip(self.shares, self.views, results, strict=True):
            unit = self._unit(line, view)
            losses = self._losses(group, line, view, result)
            if losses and result.outcome is not Outcome.UNAVAILABLE:
                units.setdefault(unit, []).append(math.fsum(losses) / len(losses))
        if not units:
            raise ConfigError(
                "the judges were not reached for any labelled response: run it again",
                location="judge",
            )
        if self.invalid_frac(group, results) == 1:
            raise ConfigError(
                "no labelled response was scored: every answer of the judges was invalid, so "
                "that nothing is known of them; see why with `rubric-judge score`",
                location="judge",
            )
        losses_N = np.array([math.fsum(all_) / len(all_) for all_ in units.values()])
        return risk_test(losses_N, risk=self.target.risk, delta=delta)

    def _unit(self, line: int, view: JudgeView) -> object:
        """Return what a response was drawn with."""
        if self.target.unit == "document":
            return self.documents.get(view.task_id, view.grounding.sha256)
        return view.task_id if self.target.unit == "task" else line

    def _losses(
        self, group: _Group, line: int, view: JudgeView, result: JudgeResult
    ) -> list[float]:
        # An invalid answer earns 0 for every criterion.
        return [
            not agree(
                result.scores.get(name, 0.0) / view.rubric[name].weight,
                share,
                tolerance=self.target.tolerance,
            )
            for name, share in self.shares[line].items()
            if group in (None, self.pools[line][name])
        ]

    def invalid_frac(self, group: _Group, results: Sequence[JudgeResult]) -> float:
        """Return the share of labelled responses, where reached, whose answer was invalid."""
        outcomes = [
            result.outcome
            for line, result in zip(self.shares, results, strict=True)
            if result.outcome is not Outcome.UNAVAILABLE
            and (group is None or group in self.pools[line].values())
        ]
        return sum(outcome is not Outcome.SCORED for outcome in outcomes) / len(
            outcomes
        )

    def escalated(
        self, group: _Group, results: Sequence[JudgeResult], last: str
    ) -> float:
        """Return the share of labelled criteria that the last judge decided, audits aside."""
        counted = [
            trace.decided_by[name] == last and name not in trace.audits
            for line, result in zip(self.shares, results, strict=True)
            if (trace := result.cascade) is not None
            and result.outcome is Outcome.SCORED
            for name in self.shares[line]
            if group in (None, self.pools[line][name])
        ]
        return sum(counted) / len(counted) if counted else 1.0


class CascadeRun:
    """The judges of a cascade at work on labelled responses, at one threshold after another.

    What a judge has answered is looked up in the ledger, where each of its k answers is a
    replicate: a threshold costs only the calls that no earlier one has made, and a calibration that
    was stopped goes on where it was.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        config: CascadeConfig,
        ledger: Ledger | None,
        *,
        workers: int = 8,
    ) -> None:
        """Take the judges.

        Args:
            judges: those of the configuration, in order.
            config: what is to be calibrated; its label queue gets nothing from here.
            ledger: where answers are looked up and kept; without one each threshold asks anew.
            workers: responses that are judged at once.
        """
        self.judges = tuple(judges)
        self.config = config.model_copy(update={"label_queue": None})
        self._ledger = ledger
        self._workers = workers

    async def judge(
        self, views: Sequence[JudgeView], calibration: CascadeCalibration
    ) -> tuple[list[JudgeResult], str]:
        """Judge every view at the calibration's thresholds; return also how the last is called."""
        cascade = CascadeJudge(self.judges, self.config, calibration, ask=self._ask)
        pool = JudgePool(cascade, workers=self._workers, micro_batch=1)
        return await pool.judge_all(views), cascade.names[-1]

    async def _ask(self, judge: Judge, view: JudgeView, sample: int) -> JudgeResult:
        if self._ledger is None:
            return await judge.judge(view)
        who = fingerprint(judge)
        key = self._ledger.key(view, judge=who, replicate=sample)
        if (known := self._ledger.find(key)) is not None:
            return known
        result = await judge.judge(view)
        self._ledger.record(key, view, result, judge=who, replicate=sample)
        return result


_NOTHING: Final = Threshold(n=1, risk=1, bound=1, escalated=1, last_risk=1)


async def calibrate_cascade(
    run: CascadeRun,
    labels: Iterable[Label],
    views: Sequence[tuple[int, JudgeView]],
    target: CascadeTarget,
    *,
    documents: Mapping[str, str] | None = None,
    on_threshold: Callable[[float | None], None] = lambda _: None,
) -> CascadeCalibration:
    """Find how unsure each judge may be, so that P(risk > α) ≤ δ.

    Thresholds are tested in the order of `GRID`, from "everything is escalated" on, each with the
    labels' p-value for "the risk is above α", until the first that is not rejected. The judge
    tested is the one that will be used, audits included: nothing is assumed of what else is asked.
    With `per_criterion`, δ is shared out equally, and the others' thresholds are those that passed.

    Args:
        run: the judges.
        labels: as `read_labels` gives them; of several raters the mean counts.
        views: as `read_responses` gives them.
        target: what is to be promised.
        documents: hash of each task's document; that of its passage where it is left out.
        on_threshold: told each threshold before it is tested.

    Raises:
        ConfigError: no label can be used, no judge was reached or answered validly, or the last
            judge alone was not shown to be within α; says by how much.

    Source: Angelopoulos et al., Learn then Test (arXiv 2110.01052), fixed-sequence testing.
    """
    given = _Labels(labels, views, target, documents or {})
    delta = (1 - target.confidence) / len(given.groups)
    passed: _Thresholds = {}
    found: dict[_Group, Threshold] = {}
    rising = set(given.groups)
    for threshold in GRID:
        on_threshold(threshold)
        trial = {
            group: threshold if group in rising else passed[group]
            for group in given.groups
        }
        results, last = await run.judge(
            given.views, _record(run, target, _untested(trial))
        )
        for group in [pool for pool in given.groups if pool in rising]:
            test = given.test(group, results, delta=delta)
            if test.p_value > delta:
                if threshold is None:
                    raise _too_risky(group, test, target, delta)
                rising.discard(group)
                continue
            passed[group] = threshold
            found[group] = Threshold(
                threshold=threshold,
                pool=group,
                n=test.n,
                risk=test.risk,
                bound=test.bound,
                escalated=given.escalated(group, results, last),
                last_risk=found[group].last_risk if group in found else test.risk,
                invalid_frac=given.invalid_frac(group, results),
            )
        if not rising:
            break
    return _record(run, target, found)


def _untested(trial: _Thresholds) -> dict[_Group, Threshold]:
    return {
        group: _NOTHING.model_copy(update={"threshold": threshold, "pool": group})
        for group, threshold in trial.items()
    }


def _record(
    run: CascadeRun, target: CascadeTarget, found: dict[_Group, Threshold]
) -> CascadeCalibration:
    return CascadeCalibration(
        version=1,
        judges=tuple(map(fingerprint, run.judges)),
        uncertainty=run.config.uncertainty,
        k=run.config.k,
        audit_frac=run.config.audit_frac,
        tolerance=target.tolerance,
        unit=target.unit,
        risk=target.risk,
        confidence=target.confidence,
        pooled=found.get(None),
        criteria={
            pool.name: threshold
            for pool, threshold in found.items()
            if pool is not None
        },
    )


def _too_risky(
    group: _Group, test: RiskTest, target: CascadeTarget, delta: float
) -> ConfigError:
    """Say why not even the last judge alone will do."""
    whom = "the last judge" + (
        "" if group is None else f", on criterion {group.name!r},"
    )
    fewest = math.ceil(math.log(delta) / math.log1p(-target.risk))
    seen = f"it contradicts {test.risk:.1%} of the labels of {test.n} {target.unit}s"
    bound = f"up to {test.bound:.1%} at this confidence"
    remedy = (
        f"label more (at least {fewest} {target.unit}s)"
        if test.n < fewest
        else "label more"
    )
    told = (
        f"--risk {target.risk:g}: {whom} alone is not shown to keep to it: {seen}, {bound}; "
        f"{remedy}, take a better judge, or allow a higher risk"
    )
    return ConfigError(told, location="risk")
