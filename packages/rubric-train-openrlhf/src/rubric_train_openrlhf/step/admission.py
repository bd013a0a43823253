"""Admission of criteria to the reward of a run, and their weights, by a calibration."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import rubric_core as core
from rubric_core import (
    JudgeResult,
    Pool,
    Pooling,
    RewardError,
    Rubric,
    RubricError,
    Task,
    known_pool,
    read_tasks,
)
from rubric_core.arrays import FloatArray
from rubric_core.files import read_file
from rubric_core.schema.pools import own_pool
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.judges.load import load_replicas
from rubric_judge.quality.calibration.record import (
    Calibration,
    CriterionCalibration,
    read_calibration,
)
from rubric_judge.ui.page.tables import counted
from rubric_train_openrlhf.config.sections import JudgingConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import ResumeError, TrainConfigError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import AdmissionFile
from rubric_train_openrlhf.run.writing import write_text

_KEY = "judge.calibration"
_SHOWN = 8
"""Number of criteria that a message names at most."""
_LEAST_J = 0.01
"""A correction divides by TPR − FPR: below this, noise would count a hundredfold."""


@dataclass(frozen=True)
class Admission:
    """Factors of the criteria's weights; a criterion that is not named has factor 1."""

    factors: Mapping[Pool, float] = field(default_factory=dict[Pool, float])
    """Factors by pools of criteria that were calibrated together; a criterion is looked up by its
    id, else by its kind, and 0 masks it."""
    rates: Mapping[Pool, tuple[float, float]] = field(
        default_factory=dict[Pool, "tuple[float, float]"]
    )
    """TPR and FPR that binary scores are corrected for, by the same pools."""

    def rubric(self, rubric: Rubric) -> Rubric:
        """Return the rubric that rewards are computed by."""
        if not self.factors:
            return rubric
        return core.admitted_rubric(rubric, self._of(rubric))

    def result(self, result: JudgeResult, rubric: Rubric) -> JudgeResult:
        """Return the part of a judgement that counts under a rubric."""
        if not self.factors:
            return result
        return core.admitted_result(result, self._of(rubric))

    def _of(self, rubric: Rubric) -> dict[str, float]:
        """Return the factors of a rubric's criteria, by id."""
        factors: dict[str, float] = {}
        for criterion in rubric:
            pool = known_pool(criterion, self.factors)
            if pool is not None:
                factors[criterion.id] = self.factors[pool]
        return factors

    def corrected_z(self, z_M: FloatArray, rubric: Rubric) -> FloatArray:
        """Return criterion scores, corrected for the judge's errors if that is configured."""
        if not self.rates:
            return z_M
        unknown = (np.nan, np.nan)
        rates_M: list[tuple[float, float]] = []
        for criterion in rubric:
            # Rates of the pool that admits the criterion, not of another one that it belongs to.
            pool = known_pool(criterion, self.factors)
            rates_M.append(self.rates.get(pool, unknown) if pool else unknown)
        rates_M2 = np.array(rates_M)
        return core.unbiased_z(z_M, rates_M2[:, 0], rates_M2[:, 1])

    def withheld_frac(self, rubrics: Sequence[Rubric]) -> float:
        """Return the mean share of the rubrics' weight that is kept from the reward."""
        admitted = [
            self.rubric(rubric).total_weight / rubric.total_weight for rubric in rubrics
        ]
        return 1.0 - math.fsum(admitted) / len(admitted)

    @property
    def changed(self) -> dict[str, float]:
        """Factors other than 1 by the names of their pools, masked ones first."""
        named = [
            (factor, pool.name) for pool, factor in self.factors.items() if factor != 1
        ]
        return {name: factor for factor, name in sorted(named)}

    def keep(self, folder: RunFolder) -> None:
        """Write the admission to the run folder, or check that it is the one the run began with.

        Raises:
            ResumeError: it is another one.
            DiskWriteError: it cannot be written.
        """
        if not self.factors:
            return
        rates = {pool.name: rates for pool, rates in self.rates.items()}
        content = AdmissionFile(factors=self.changed, rates=rates)
        text = content.model_dump_json(indent=2) + "\n"
        if not folder.admission.exists():
            write_text(folder.admission, text)
        elif read_file(folder.admission) != text.encode():
            raise ResumeError(
                f"{_KEY} admits other criteria, or others by as much, than when the run in "
                f"{str(folder.path)!r} was started: bring the old file back, or choose "
                "another `out`",
                path=folder.path,
            )


def read_admission(
    config: JudgingConfig, tasks: Iterable[Task], *, judge_fingerprint: str | None
) -> Admission:
    """Read which of some tasks' criteria the configured calibration admits.

    Args:
        config: configuration of the judge; without a calibration all criteria are admitted.
        tasks: tasks of the run, including held-out ones.
        judge_fingerprint: fingerprint of the judge of the run; None skips its check.

    Raises:
        TrainConfigError: the file is missing, or has none of these criteria; under `refuse`, a
            criterion was not calibrated; nothing of a rubric is left; or rates cannot be corrected.
        ConfigError: the file is not a calibration, or one of another judge or of another version of
            a rubric.
    """
    if config.calibration is None:
        return Admission()
    tasks = tuple(tasks)
    path = config.calibration
    calibration = _read(path)
    if judge_fingerprint is None:
        judge_fingerprint = calibration.judge_fingerprint
    calibration.require(judge_fingerprint, tasks, source=str(path))
    known = calibration.by_pool
    pooling = Pooling.of(tasks)
    pools: dict[Pool, Pool | None] = {}
    for task in tasks:
        for criterion in task.rubric:
            own = own_pool(criterion)
            if criterion.weight > 0 and own not in pools:
                pools[own] = known_pool(criterion, known)
    missing = [own for own, pool in pools.items() if pool is None]
    named = _named(list(dict.fromkeys(pool.name for pool in missing)))
    if missing and len(missing) == len(pools):
        raise TrainConfigError(
            f"{path}: it has none of the {len(pools)} criteria of the tasks{named}: give the "
            "calibration of these tasks' rubrics",
            location="judge.calibration",
        )
    if missing and config.uncalibrated == "refuse":
        raise TrainConfigError(
            f"{path}: {len(missing)} of {len(pools)} criteria with weight were not "
            f"calibrated{named}: label and calibrate them, or say with judge.uncalibrated "
            "whether to `admit` or to `mask` them",
            location="judge.calibration",
        )
    uncalibrated_factor = 0.0 if config.uncalibrated == "mask" else 1.0
    factors = {pool: known[pool].factor for pool in pools.values() if pool is not None}
    for own in missing:
        factors[pooling.pool_of(own)] = uncalibrated_factor
    admission = Admission(factors, _rates(config, known, factors))
    _check_rubrics(admission, tasks)
    return admission


def admission_lines(config: TrainConfig) -> Iterator[str]:
    """Say which criteria a run would mask, for a plan; nothing without a calibration.

    Raises:
        TrainConfigError, ConfigError: as `read_admission`; if the judge can be made, also for a
            calibration of another judge.
    """
    judging = config.judge
    data = config.data
    paths = [path for path in (data.train, data.validation) if path is not None]
    if judging.calibration is None:
        return
    if not judging.calibration.is_file():
        file = f"{str(judging.calibration)!r}, and a run does not start without it"
        remedy = "correct the path, or write it with `rubric-judge calibrate`"
        yield f"admission: unknown, {_KEY} is missing: there is no file {file}; {remedy}"
        return
    missing = [path for path in paths if not path.is_file()]
    if missing:
        yield f"admission: unknown, the tasks {str(missing[0])!r} are not there yet"
        return
    tasks = [task for path in paths for task in read_tasks(path)]
    own = _fingerprint(judging)
    admission = read_admission(judging, tasks, judge_fingerprint=own)
    yield described(admission, [task.rubric for task in tasks])
    if not _read(judging.calibration).labels_any(tasks):
        matched = "their criteria are matched by id or kind alone"
        yield f"admission: none of these tasks was labelled; {matched}"
    if own is None:
        why = "the judge cannot be made here: a run refuses a calibration of another judge"
        yield f"admission: identity not checked, since {why}"


def _fingerprint(config: JudgingConfig) -> str | None:
    """Return the judge's fingerprint without a call; None if the judge cannot be made here."""
    try:
        return fingerprint(load_replicas(config.spec)[0])
    except RubricError:  # its key, package or a file is missing on this machine
        return None


_BOUND = (
    " on the labelled answers, which are no sample of a policy that has learned: a correction is"
    " right for answers like those that were labelled, and nothing shows that later ones are;"
    " label answers of a checkpoint and calibrate again, or leave `correction: none`"
)


def described(admission: Admission, rubrics: Sequence[Rubric]) -> str:
    """Say in a line which criteria are masked or count less, and how M_eff changes."""
    changed = admission.changed
    masked = [name for name, factor in changed.items() if factor == 0]
    lowered = [f"{name} × {factor:g}" for name, factor in changed.items() if factor]
    before = float(np.mean([rubric.effective_criteria for rubric in rubrics]))
    after = float(
        np.mean([admission.rubric(rubric).effective_criteria for rubric in rubrics])
    )
    parts = [
        f"{len(masked)} of {len(admission.factors)} criteria masked{_named(masked)}",
        *_by_kind(admission, rubrics),
        f"{len(lowered)} weighed down{_named(lowered)}",
        f"{admission.withheld_frac(rubrics):.0%} of the weight kept from the reward",
        f"mean M_eff {before:.2f} → {after:.2f}",
    ]
    corrected = len(admission.rates)
    if corrected:
        parts.append(f"{corrected} corrected for the judge's error rates{_BOUND}")
    return f"admission: {'; '.join(parts)}"


def _by_kind(admission: Admission, rubrics: Sequence[Rubric]) -> Iterator[str]:
    """Say how many ids are looked up by their kind."""
    matches: set[tuple[str, Pool]] = set()
    for rubric in rubrics:
        for criterion in rubric:
            pool = known_pool(criterion, admission.factors)
            if pool is not None and pool.id is None:
                matches.add((criterion.id, pool))
    kinds = {pool for _, pool in matches}
    if matches:
        yield f"{counted(len(matches), 'id')} by {counted(len(kinds), 'kind')}"


def _named(names: Sequence[str]) -> str:
    if not names:
        return ""
    others = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" ({', '.join(names[:_SHOWN])}{others})"


def _read(path: Path) -> Calibration:
    try:
        return read_calibration(path)
    except OSError as error:
        raise TrainConfigError(
            f"cannot read the calibration {str(path)!r} ({error.strerror}): write it with "
            "`rubric-judge calibrate`",
            location="judge.calibration",
        ) from None


def _rates(
    config: JudgingConfig,
    known: Mapping[Pool, CriterionCalibration],
    factors: Mapping[Pool, float],
) -> dict[Pool, tuple[float, float]]:
    """Return TPR and FPR of the admitted and calibrated pools, if scores are to be corrected.

    Raises:
        TrainConfigError: a criterion has no rates, or J below `_LEAST_J`.
    """
    if config.correction == "none":
        return {}
    rates: dict[Pool, tuple[float, float]] = {}
    for pool, factor in factors.items():
        if not factor or pool not in known:
            continue
        tpr = known[pool].tpr.value
        fpr = known[pool].fpr.value
        if tpr is None or fpr is None or tpr - fpr < _LEAST_J:
            figures = f"TPR {_figure(tpr)}, FPR {_figure(fpr)}"
            raise TrainConfigError(
                f"criterion {pool.name!r} cannot be corrected ({figures}): its labels must be of "
                f"both kinds and TPR above FPR by {_LEAST_J:g}; mask it, label more, or set "
                "judge.correction to none",
                location="judge.correction",
            )
        rates[pool] = (tpr, fpr)
    return rates


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _check_rubrics(admission: Admission, tasks: Iterable[Task]) -> None:
    """Refuse tasks of whose rubric nothing is left."""
    lost: list[str] = []
    why = ""
    for task in tasks:
        try:
            admission.rubric(task.rubric)
        except RewardError as error:
            lost.append(task.task_id)
            why = why or str(error)
    if lost:
        raise TrainConfigError(
            f"{len(lost)} tasks, first {lost[0]!r}: {why}", location=_KEY
        )
