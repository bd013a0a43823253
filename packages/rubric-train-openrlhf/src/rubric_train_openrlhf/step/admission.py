"""Which criteria a calibration admits to the reward of a run, and at what weight."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

import rubric_core as core
from rubric_core import JudgeResult, RewardError, Rubric, RubricError, Task, read_tasks
from rubric_core.arrays import FloatArray
from rubric_core.files import read_file
from rubric_judge.calibration.record import Calibration, CriterionCalibration, read_calibration
from rubric_judge.capabilities import fingerprint
from rubric_judge.load import load_replicas
from rubric_train_openrlhf.config.sections import JudgingConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import ResumeError, TrainConfigError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import AdmissionFile
from rubric_train_openrlhf.run.writing import write_text

_KEY: Final = "judge.calibration"
_SHOWN: Final = 8
"""Criteria that a message names."""
_LEAST_J: Final = 0.01
"""A correction divides by TPR − FPR: below this, noise would count a hundredfold."""


@dataclass(frozen=True)
class Admission:
    """What each criterion's weight is multiplied by; all that is not named is 1."""

    factors: Mapping[str, float] = field(default_factory=dict[str, float])
    """By criterion id; 0 masks."""
    rates: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, "tuple[float, float]"]
    )
    """TPR and FPR that binary scores are corrected for, by criterion id."""

    def rubric(self, rubric: Rubric) -> Rubric:
        """The rubric that rewards are computed by."""
        return core.admitted_rubric(rubric, self.factors) if self.factors else rubric

    def result(self, result: JudgeResult) -> JudgeResult:
        """A judgement as it counts."""
        return core.admitted_result(result, self.factors) if self.factors else result

    def corrected_z(self, z_M: FloatArray, rubric: Rubric) -> FloatArray:
        """Criterion scores, corrected for the judge's errors where that was asked for."""
        if not self.rates:
            return z_M
        rates_M2 = np.array([self.rates.get(name, (np.nan, np.nan)) for name in rubric.ids])
        return core.unbiased_z(z_M, rates_M2[:, 0], rates_M2[:, 1])

    def withheld_frac(self, rubrics: Sequence[Rubric]) -> float:
        """Mean share of the rubrics' weight that is kept from the reward."""
        kept = [self.rubric(one).total_weight / one.total_weight for one in rubrics]
        return 1.0 - math.fsum(kept) / len(kept)

    @property
    def changed(self) -> dict[str, float]:
        """Factors other than 1, the masked first."""
        return {
            name: factor
            for name, factor in sorted(self.factors.items(), key=lambda one: one[::-1])
            if factor != 1
        }

    def keep(self, folder: RunFolder) -> None:
        """Write what is admitted to the run folder, or see that it is what the run began with.

        Raises:
            ResumeError: it is not.
            DiskWriteError: it could not be written.
        """
        if not self.factors:
            return
        content = AdmissionFile(factors=self.changed, rates=dict(self.rates))
        text = content.model_dump_json(indent=2) + "\n"
        if not folder.admission.exists():
            write_text(folder.admission, text)
        elif read_file(folder.admission) != text.encode():
            raise ResumeError.told("admits_others", key=_KEY, path=folder.path)


def read_admission(
    config: JudgingConfig, tasks: Iterable[Task], *, judge_fingerprint: str | None
) -> Admission:
    """Read what the configured calibration admits of some tasks' criteria.

    Args:
        config: of the judge; without a calibration all is admitted.
        tasks: of the run, held-out ones too.
        judge_fingerprint: of the judge that will judge; None does not look.

    Raises:
        TrainConfigError: no such file, none of these criteria in it, one that was not calibrated
            under `refuse`, a rubric of which nothing is left, or rates that cannot be corrected.
        ConfigError: no calibration, or one of another judge or of another version of a rubric.
    """
    if config.calibration is None:
        return Admission()
    tasks = tuple(tasks)
    path = config.calibration
    calibration = _read(path)
    if judge_fingerprint is None:
        judge_fingerprint = calibration.judge_fingerprint
    calibration.require(judge_fingerprint, tasks, source=str(path))
    known = {one.criterion: one for one in calibration.criteria}
    weighty = dict.fromkeys(one.id for task in tasks for one in task.rubric if one.weight > 0)
    missing = [name for name in weighty if name not in known]
    counts = {"path": path, "n": len(missing), "of": len(weighty), "named": _named(missing)}
    if missing and len(missing) == len(weighty):
        raise TrainConfigError.told("no_criterion_calibrated", **counts)
    if missing and config.uncalibrated == "refuse":
        raise TrainConfigError.told("criteria_not_calibrated", **counts)
    left = 0.0 if config.uncalibrated == "mask" else 1.0
    factors = {name: known[name].factor if name in known else left for name in weighty}
    admission = Admission(factors, _rates(config, known, factors))
    _check_rubrics(admission, tasks)
    return admission


def admission_lines(config: TrainConfig) -> Iterator[str]:
    """Say what a run would mask, for a plan; nothing without a calibration.

    Raises:
        TrainConfigError, ConfigError: as `read_admission`; a calibration of another judge, too,
            where the judge can be made.
    """
    judging, data = config.judge, config.data
    paths = [path for path in (data.train, data.validation) if path is not None]
    if judging.calibration is None:
        return
    if not judging.calibration.is_file():
        file = f"{str(judging.calibration)!r}, and a run does not start without it"
        remedy = "correct the path, or write it with `rubric-judge calibrate`"
        yield f"admission: unknown, {_KEY} is missing: there is no file {file}; {remedy}"
        return
    if missing := [path for path in paths if not path.is_file()]:
        yield f"admission: unknown, the tasks {str(missing[0])!r} are not there yet"
        return
    tasks = [task for path in paths for task in read_tasks(path)]
    own = _fingerprint(judging)
    admission = read_admission(judging, tasks, judge_fingerprint=own)
    yield described(admission, [task.rubric for task in tasks])
    if not _read(judging.calibration).labels_any(tasks):
        yield "admission: none of these tasks was labelled; their criteria are matched by id alone"
    if own is None:
        why = "the judge cannot be made here: a run refuses a calibration of another judge"
        yield f"admission: identity not checked, since {why}"


def _fingerprint(config: JudgingConfig) -> str | None:
    """Return the judge's, without a call; None where it cannot be made here."""
    try:
        return fingerprint(load_replicas(config.spec)[0])
    except RubricError:  # a key, a package or a file of it is not on this machine
        return None


_BOUND: Final = (
    " on the labelled answers, which are no sample of a policy that has learned: a correction is"
    " right for answers like those that were labelled, and nothing shows that later ones are;"
    " label answers of a checkpoint and calibrate again, or leave `correction: none`"
)


def described(admission: Admission, rubrics: Sequence[Rubric]) -> str:
    """Say in a line what is masked, what counts less, and what becomes of M_eff."""
    changed = admission.changed
    masked = [name for name, factor in changed.items() if factor == 0]
    lowered = [f"{name} × {factor:g}" for name, factor in changed.items() if factor]
    before = float(np.mean([one.effective_criteria for one in rubrics]))
    after = float(np.mean([admission.rubric(one).effective_criteria for one in rubrics]))
    parts = [
        f"{len(masked)} of {len(admission.factors)} criteria masked{_named(masked)}",
        f"{len(lowered)} weighed down{_named(lowered)}",
        f"{admission.withheld_frac(rubrics):.0%} of the weight kept from the reward",
        f"mean M_eff {before:.2f} → {after:.2f}",
    ]
    corrected = len(admission.rates)
    parts += [f"{corrected} corrected for the judge's error rates{_BOUND}"] if corrected else []
    return f"admission: {'; '.join(parts)}"


def _named(names: Sequence[str]) -> str:
    if not names:
        return ""
    others = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" ({', '.join(names[:_SHOWN])}{others})"


def _read(path: Path) -> Calibration:
    try:
        return read_calibration(path)
    except OSError as error:
        raise TrainConfigError.told("no_calibration", path=path, error=error) from None


def _rates(
    config: JudgingConfig, known: Mapping[str, CriterionCalibration], factors: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """TPR and FPR of all that is admitted and was calibrated, where they are to be corrected for.

    Raises:
        TrainConfigError: a criterion without rates, or with J below `_LEAST_J`.
    """
    if config.correction == "none":
        return {}
    found: dict[str, tuple[float, float]] = {}
    for name, factor in factors.items():
        if not factor or name not in known:
            continue
        tpr, fpr = known[name].tpr.value, known[name].fpr.value
        if tpr is None or fpr is None or tpr - fpr < _LEAST_J:
            told = f"TPR {_figure(tpr)}, FPR {_figure(fpr)}"
            raise TrainConfigError.told("not_correctable", name=name, told=told, least=_LEAST_J)
        found[name] = (tpr, fpr)
    return found


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _check_rubrics(admission: Admission, tasks: Iterable[Task]) -> None:
    """Refuse tasks whose rubric has nothing left."""
    lost: list[str] = []
    why = ""
    for task in tasks:
        try:
            admission.rubric(task.rubric)
        except RewardError as error:
            lost, why = [*lost, task.task_id], why or str(error)
    if lost:
        raise TrainConfigError(f"{len(lost)} tasks, first {lost[0]!r}: {why}", location=_KEY)
