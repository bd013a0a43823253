"""The calibration of a cascade, `cascade.json`, and the cascade that it is valid for."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from operator import not_
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rubric_core import ConfigError, Criterion, Judge, Pool, known_pool
from rubric_core.configuration import read_written
from rubric_core.schema.pools import pool_of_any
from rubric_judge.config import CascadeConfig, Uncertainty
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.models.model_config import Fraction, Positive, Settings, Share

_Correlation = Annotated[float, Field(ge=0, lt=1)]


class Threshold(Settings):
    """Threshold of uncertainty up to which a score is kept, with the risk measured at it."""

    # Left out where there is none: an older cascade's fingerprint holds no such key.
    pool: Pool | None = Field(default=None, exclude_if=not_)
    """Pool of the threshold; an older version has one for each id, whatever its criteria."""
    threshold: Share | None = None
    """Highest uncertainty at which a score is kept; None: every score is escalated."""
    n: Positive
    """Number of units (responses or tasks) that the threshold was tested on."""
    risk: Share
    """Share of their labels that the cascade's verdicts contradict."""
    bound: Share
    """Upper bound of the risk at the confidence."""
    escalated: Share
    """Share of the labelled criteria that reached the last judge for want of certainty."""
    last_risk: Share
    """Share of the labels that the last judge contradicts where it decides everything."""
    invalid_frac: Share = 0
    """Share of the labelled responses whose answer was invalid, which counts as 0."""


class ReliabilityMap(Settings):
    """The worth of a judge's reading of a criterion: the other judge's mean value, by reading."""

    pool: Pool | None = None
    """Pool of the criteria; None for all of them."""
    readings: tuple[Share, ...] = Field(min_length=1)
    """Readings of the first judge, as shares of the weight, in rising order."""
    values: tuple[Share, ...] = Field(min_length=1)
    """Mean value that the last judge gives there; it never falls."""
    counts: tuple[int, ...] = Field(min_length=1)
    """Labelled criteria that each value is of."""
    base: Share = 0.5
    """Mean value that the last judge gives, whatever the reading."""
    dispersion: Share = 1
    """Variance of the last judge's value, as a share of m (1 − m); 1 where it is met or unmet."""

    @model_validator(mode="after")
    def _is_map(self) -> Self:
        if not len(self.readings) == len(self.values) == len(self.counts):
            raise ValueError("readings, values and counts must be as many")
        for name in ("readings", "values"):
            numbers = getattr(self, name)
            if list(numbers) != sorted(numbers):
                raise ValueError(f"{name} must rise")
        return self

    def value(self, reading: float) -> float:
        """Return the value expected at a reading, between those of its neighbours."""
        right = bisect_right(self.readings, reading)
        if right == 0:
            return self.values[0]
        if right == len(self.readings):
            return self.values[-1]
        below = self.readings[right - 1]
        part = (reading - below) / (self.readings[right] - below)
        low = self.values[right - 1]
        return low + part * (self.values[right] - low)


class GroupCalibration(Settings):
    """The worth of the first judge's readings, for `decide: group`."""

    pooled: ReliabilityMap
    """Map of all criteria, for those that are in no pool of `criteria`."""
    criteria: dict[str, ReliabilityMap] = Field(default_factory=dict)
    """Maps by name of the pool: an id that repeats, or a kind."""
    alike: _Correlation = 0
    """Intraclass correlation of the last judge's values on a criterion of one task."""
    shared: _Correlation = 0
    """The same of whether both judges give one verdict."""
    together: _Correlation = 0
    """Correlation of the errors on two criteria of one response."""

    def map_of(self, criterion: Criterion) -> ReliabilityMap:
        """Return the map of a criterion: its id's, its kind's, or that of all."""
        pool = known_pool(criterion, self._by_pool.keys())
        return self.pooled if pool is None else self._by_pool[pool]

    @cached_property
    def _by_pool(self) -> dict[Pool, ReliabilityMap]:
        return {known.pool: known for known in self.criteria.values() if known.pool}


class CascadeCalibration(Settings):
    """Thresholds of one cascade, found by learn-then-test, and the promise that comes with them.

    P(risk > α) ≤ δ,   risk = P(the cascade's verdict contradicts the label)
    """

    version: Literal[1]
    judges: tuple[str, ...]
    """Fingerprints of the judges, in order."""
    uncertainty: Uncertainty
    k: Positive
    audit_frac: Share
    tolerance: Fraction | None = None
    """A score contradicts a label when they are further apart, as shares of the weight; None: when
    they lie on different sides of half of it."""
    unit: Literal["document", "task", "response"]
    """Unit that was drawn independently."""
    risk: Fraction
    """α."""
    confidence: Fraction
    """1 − δ, of all thresholds together."""
    pooled: Threshold | None = None
    """Threshold for every criterion."""
    criteria: dict[str, Threshold] = Field(default_factory=dict)
    """Thresholds by name of the pool, instead of `pooled`; a criterion that is not here, nor its
    kind, is always escalated."""
    # Left out where there is none: an older cascade's fingerprint holds no such key.
    group: GroupCalibration | None = Field(default=None, exclude_if=not_)
    """The maps that `decide: group` needs; None of a cascade that decides by response."""

    @model_validator(mode="after")
    def _has_thresholds(self) -> Self:
        if (self.pooled is None) == (not self.criteria):
            given_fields = "neither" if self.pooled is None else "both"
            raise ValueError(
                f"give pooled or criteria, one of the two: it has {given_fields}"
            )
        for name, threshold in self.criteria.items():
            if threshold.pool is not None and threshold.pool.name != name:
                raise ValueError(f"the pool of {name!r} is {threshold.pool.name!r}")
        return self

    def threshold(self, criterion: Criterion) -> float | None:
        """Return the highest uncertainty at which the criterion's score is kept; None for none."""
        name = self.name(criterion)
        threshold = self.pooled if name is None else self.criteria[name]
        return threshold.threshold if threshold else None

    def name(self, criterion: Criterion) -> str | None:
        """Return the name of the threshold that is the criterion's among `criteria`."""
        pool = known_pool(criterion, self._pools)
        return None if pool is None else pool.name

    @cached_property
    def _pools(self) -> frozenset[Pool]:
        return frozenset(
            threshold.pool or pool_of_any(name)
            for name, threshold in self.criteria.items()
        )

    @property
    def bound(self) -> float:
        """Upper bound of the risk; the largest of the criteria where each has its threshold."""
        return max(
            threshold.bound
            for threshold in (self.pooled, *self.criteria.values())
            if threshold
        )

    def require(
        self, config: CascadeConfig, judges: Sequence[Judge], *, source: str
    ) -> None:
        """Refuse judges and settings that were not calibrated.

        Args:
            config: configuration of the cascade to use.
            judges: its judges, in order.
            source: name of the calibration in an error.

        Raises:
            ConfigError: names the mismatch and the remedy.
        """
        again = "calibrate this cascade, or use the one that was calibrated"
        if len(judges) != len(self.judges):
            count = f"it is of {len(self.judges)} judges, not of {len(judges)}"
            raise ConfigError(f"{source}: {count}: {again}", location="calibration")
        for number, (known, judge) in enumerate(
            zip(self.judges, judges, strict=True), start=1
        ):
            current = fingerprint(judge)
            if current != known:
                what = f"judge {number} was {known!r} and is {current!r}"
                raise ConfigError(f"{source}: {what}: {again}", location="calibration")
        for name in ("uncertainty", "k", "audit_frac"):
            known = getattr(self, name)
            current = getattr(config, name)
            if known != current:
                what = f"{name} was {known!r} and is {current!r}"
                raise ConfigError(f"{source}: {what}: {again}", location="calibration")
        if (self.group is None) == (config.decide == "group"):
            was = "response" if self.group is None else "group"
            what = f"decide was {was!r} and is {config.decide!r}"
            raise ConfigError(f"{source}: {what}: {again}", location="calibration")


_COMMAND = (
    "`rubric-judge calibrate TASKS RESPONSES --labels L --judge CASCADE --cascade --risk .1 "
    "--out FOLDER`"
)


def calibrated(config: CascadeConfig, judges: Sequence[Judge]) -> CascadeCalibration:
    """Read the calibration that a configuration names, and check that it is of these judges.

    Raises:
        ConfigError: none is named, it cannot be read, or it is of another cascade.
    """
    if config.calibration is None:
        raise ConfigError(
            f"calibration: a cascade needs thresholds: {_COMMAND} writes them",
            location="calibration",
        )
    source = str(config.calibration)
    try:
        what = f"this is no calibration of a cascade as {_COMMAND} writes one"
        others = {
            "judge_fingerprint": (
                f"this is one judge's calibration: give the cascade.json that {_COMMAND} writes"
            )
        }
        calibration = read_written(
            config.calibration, CascadeCalibration, what=what, others=others
        )
    except OSError as error:
        raise ConfigError(
            f"{source}: cannot be read ({error.strerror}): {_COMMAND} writes it",
            location="calibration",
        ) from None
    calibration.require(config, judges, source=source)
    return calibration
