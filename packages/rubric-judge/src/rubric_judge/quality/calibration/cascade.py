"""Calibration of a cascade: runs it at one threshold after another, and tests each by labels."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import anyio
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
from rubric_judge.config import CascadeConfig
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.judges.cascade.judge import CascadeJudge
from rubric_judge.judges.cascade.parts import Parts
from rubric_judge.judges.cascade.record import CascadeCalibration, Threshold
from rubric_judge.judges.cascade.uncertainty import HALF, agree
from rubric_judge.judges.several import at_once
from rubric_judge.pool.ledger.store import Ledger
from rubric_judge.pool.pool import JudgePool
from rubric_judge.quality.calibration.probabilities import (
    Pair,
    group_calibration,
    pairs_of,
)
from rubric_judge.quality.calibration.target import CascadeTarget
from rubric_judge.quality.calibration.thresholds import GRID, RiskTest, risk_test
from rubric_judge.quality.labels.rows import Label

_Group = Pool | None
"""Criteria that share a threshold: those of one pool, or None for all of them."""
_Thresholds = dict[_Group, float | None]


def _is_tie(shares: Sequence[float], target: CascadeTarget) -> bool:
    """Tell whether verdicts are compared and as many raters say met as not."""
    met = sum(share >= HALF for share in shares)
    return target.tolerance is None and 2 * met == len(shares)


class _Labels:
    """Raters' mean share z of each labelled criterion, and the groups that share a threshold."""

    def __init__(
        self,
        labels: Iterable[Label],
        views: Sequence[tuple[int, JudgeView]],
        target: CascadeTarget,
        documents: Mapping[str, str],
    ) -> None:
        ratings: dict[int, dict[str, list[float]]] = {}
        by_line = dict(views)
        for label in labels:
            weight = by_line[label.line].rubric[label.criterion].weight
            if label.score is not None and weight:
                of_line = ratings.setdefault(label.line, {})
                of_line.setdefault(label.criterion, []).append(label.score / weight)
        self.shares: dict[int, dict[str, float]] = {}
        for line, of_line in ratings.items():
            means = {
                name: math.fsum(scores) / len(scores)
                for name, scores in of_line.items()
                if not _is_tie(scores, target)
            }
            if means:
                self.shares[line] = means
        """Mean of the raters, by line and criterion; ties of the raters are left out."""
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
        """Pool of each labelled criterion, by line and criterion."""
        self.groups: tuple[_Group, ...] = (None,)
        if target.per_criterion:
            pools = {
                pool for of_line in self.pools.values() for pool in of_line.values()
            }
            named: list[Pool] = sorted(pools, key=lambda pool: pool.name)
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
            # An invalid answer earns 0 for every criterion.
            losses = [
                not agree(
                    result.scores.get(name, 0.0) / view.rubric[name].weight,
                    share,
                    tolerance=self.target.tolerance,
                )
                for name, share in self.shares[line].items()
                if group in (None, self.pools[line][name])
            ]
            if losses and result.outcome is not Outcome.UNAVAILABLE:
                loss = math.fsum(losses) / len(losses)
                units.setdefault(unit, []).append(loss)
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
        means = [math.fsum(losses) / len(losses) for losses in units.values()]
        losses_N = np.array(means)
        return risk_test(losses_N, risk=self.target.risk, delta=delta)

    def _unit(self, line: int, view: JudgeView) -> object:
        """Return the key of the unit that a response was drawn with."""
        if self.target.unit == "document":
            return self.documents.get(view.task_id, view.grounding.sha256)
        return view.task_id if self.target.unit == "task" else line

    def invalid_frac(self, group: _Group, results: Sequence[JudgeResult]) -> float:
        """Return the share of labelled responses, where reached, whose answer was invalid."""
        outcomes = [
            result.outcome
            for line, result in zip(self.shares, results, strict=True)
            if result.outcome is not Outcome.UNAVAILABLE
            and (group is None or group in self.pools[line].values())
        ]
        invalid = sum(outcome is not Outcome.SCORED for outcome in outcomes)
        return invalid / len(outcomes)

    def escalated(
        self, group: _Group, results: Sequence[JudgeResult], last: str
    ) -> float:
        """Return the share of labelled criteria that the last judge decided, audits aside."""
        decided = 0
        escalated = 0
        for line, result in zip(self.shares, results, strict=True):
            trace = result.cascade
            if trace is None or result.outcome is not Outcome.SCORED:
                continue
            for name in self.shares[line]:
                if group in (None, self.pools[line][name]):
                    decided += 1
                    is_audit = name in trace.audits
                    escalated += trace.decided_by[name] == last and not is_audit
        return escalated / decided if decided else 1.0


class CascadeRun:
    """The judges of a cascade at work on labelled responses, at one threshold after another.

    The ledger holds each of a judge's k answers as a replicate: a threshold costs only the calls
    that no earlier one has made, and a calibration that was stopped continues where it stopped.
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
            judges: judges of the configuration, in order.
            config: the cascade to calibrate; its label queue gets nothing from here.
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
        """Judge every view at the calibration's thresholds; return also the last judge's name."""
        config = self.config.model_copy(update={"decide": "response"})
        cascade = CascadeJudge(self.judges, config, calibration, ask=self._ask)
        pool = JudgePool(cascade, workers=self._workers, micro_batch=1)
        return await pool.judge_all(views), cascade.names[-1]

    async def pairs(self, views: Sequence[JudgeView]) -> list[Pair]:
        """Ask both judges for all criteria; the ledger knows most of their answers."""
        cheap, strong = self.judges
        first = self.config.k if fingerprint(cheap) == fingerprint(strong) else 0
        limiter = anyio.CapacityLimiter(self._workers)

        async def ask(view: JudgeView) -> list[Pair]:
            async with limiter:
                parts = Parts(view.rubric)
                answers: list[JudgeResult] = []
                for sample in range(self.config.k):
                    turned = parts.turned(self.config, sample)
                    asked = view.model_copy(update={"rubric": turned})
                    answers.append(await self._ask(cheap, asked, sample))
                final = await self._ask(strong, view, first)
                return pairs_of(view, answers, final)

        asked_pairs = await at_once(partial(ask, view) for view in views)
        return [pair for pairs in asked_pairs for pair in pairs]

    async def _ask(self, judge: Judge, view: JudgeView, sample: int) -> JudgeResult:
        if self._ledger is None:
            return await judge.judge(view)
        who = fingerprint(judge)
        key = self._ledger.key(view, judge=who, replicate=sample)
        known = self._ledger.find(key)
        if known is not None:
            return known
        result = await judge.judge(view)
        self._ledger.record(key, view, result, judge=who, replicate=sample)
        return result


_NOTHING = Threshold(n=1, risk=1, bound=1, escalated=1, last_risk=1)


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
    tested is the one that will be used, audits included: nothing else is assumed.
    With `per_criterion`, δ is shared out equally, and the others' thresholds are those that passed.

    A cascade that decides for groups has no thresholds: the last judge alone is tested, and the
    first one's readings are held against its scores, criterion by criterion.

    Args:
        run: the judges.
        labels: as `read_labels` gives them; of several raters the mean counts.
        views: as `read_responses` gives them.
        target: the promise.
        documents: hash of each task's document; the hash of its passage where left out.
        on_threshold: told each threshold before it is tested.

    Raises:
        ConfigError: no label can be used, no judge was reached or answered validly, or the last
            judge alone was not shown to be within α; says by how much.

    Source: Angelopoulos et al., Learn then Test (arXiv 2110.01052), fixed-sequence testing.
    """
    labelled = _Labels(labels, views, target, documents or {})
    is_group = run.config.decide == "group"
    delta = (1 - target.confidence) / len(labelled.groups)
    passed: _Thresholds = {}
    thresholds: dict[_Group, Threshold] = {}
    rising = set(labelled.groups)
    for threshold in GRID[:1] if is_group else GRID:
        on_threshold(threshold)
        trial = {
            group: threshold if group in rising else passed[group]
            for group in labelled.groups
        }
        on_trial = {
            group: _NOTHING.model_copy(update={"threshold": threshold, "pool": group})
            for group, threshold in trial.items()
        }
        untested = _record(run, target, on_trial)
        results, last = await run.judge(labelled.views, untested)
        groups = [pool for pool in labelled.groups if pool in rising]
        for group in groups:
            test = labelled.test(group, results, delta=delta)
            if test.p_value > delta:
                if threshold is None:
                    raise _too_risky(group, test, target, delta)
                rising.discard(group)
                continue
            passed[group] = threshold
            first = thresholds.get(group)
            thresholds[group] = Threshold(
                threshold=threshold,
                pool=group,
                n=test.n,
                risk=test.risk,
                bound=test.bound,
                escalated=labelled.escalated(group, results, last),
                last_risk=test.risk if first is None else first.last_risk,
                invalid_frac=labelled.invalid_frac(group, results),
            )
        if not rising:
            break
    record = _record(run, target, thresholds)
    if not is_group:
        return record
    pairs = await run.pairs(labelled.views)
    group = group_calibration(pairs, Pooling.of(labelled.views))
    return record.model_copy(update={"group": group})


def _record(
    run: CascadeRun, target: CascadeTarget, thresholds: dict[_Group, Threshold]
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
        pooled=thresholds.get(None),
        criteria={
            pool.name: threshold
            for pool, threshold in thresholds.items()
            if pool is not None
        },
    )


def _too_risky(
    group: _Group, test: RiskTest, target: CascadeTarget, delta: float
) -> ConfigError:
    """Return the error that not even the last judge alone keeps to the risk."""
    judge = "the last judge"
    if group is not None:
        judge += f", on criterion {group.name!r},"
    fewest = math.ceil(math.log(delta) / math.log1p(-target.risk))
    risk = f"it contradicts {test.risk:.1%} of the labels of {test.n} {target.unit}s"
    bound = f"up to {test.bound:.1%} at this confidence"
    remedy = "label more"
    if test.n < fewest:
        remedy = f"label more (at least {fewest} {target.unit}s)"
    return ConfigError(
        f"--risk {target.risk:g}: {judge} alone is not shown to keep to it: {risk}, {bound}; "
        f"{remedy}, take a better judge, or allow a higher risk",
        location="risk",
    )
