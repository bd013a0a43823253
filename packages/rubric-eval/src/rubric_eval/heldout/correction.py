"""Rewards as labels would have them, beside those of a judge; refused where that is not so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from rubric_core import RewardError, Task
from rubric_core.files import read_file
from rubric_eval.errors import EvalConfigError
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import JudgeEntry, Measured, Record
from rubric_eval.scores.scoring import NamedJudge
from rubric_judge.calibration.correction import check_population, corrected_mean
from rubric_judge.calibration.record import Calibration, read_calibration


class CorrectedReward(Record):
    """Mean reward of one model by the calibrated judge, corrected for the judge's bias."""

    model: str
    judge: str
    raw: float
    """The judge's own mean."""
    mean: float | None = None
    """None where the correction is refused."""
    ci_low: float | None = None
    ci_high: float | None = None
    trust: float | None = None
    """λ: how much the judge is believed, 0 to 1."""
    labelled: int
    """Labelled responses of the calibration."""
    population: str
    """Whether these answers are like those that were labelled, with figures."""
    refused: str = ""
    """Why there is no corrected reward; empty where there is one."""


def calibration_of(path: Path, judges: Sequence[NamedJudge], tasks: Iterable[Task]) -> bytes:
    """Read a calibration, as its file is, once it is of one of an evaluation's judges.

    Args:
        path: calibration.json.
        judges: of the evaluation.
        tasks: that are asked.

    Raises:
        ConfigError: it cannot be read, is of none of these judges, or is of another version of a
            task's rubric.
    """
    try:
        text = read_file(path)
        calibration = read_calibration(path)
    except OSError as error:
        raise EvalConfigError.told("calibration_unreadable", path=path, error=error) from None
    own = [_fingerprint(judge.entry) for judge in judges]
    chosen = calibration.judge_fingerprint
    calibration.require(chosen if chosen in own else own[0], tasks, source=str(path))
    return text


def corrected_rewards(
    folder: EvalFolder, judges: Iterable[JudgeEntry], measured: Iterable[Measured]
) -> tuple[CorrectedReward, ...]:
    """Correct the rewards by the judge that the folder's calibration is of, if it holds one.

    Args:
        folder: of the evaluation.
        judges: of the evaluation.
        measured: rewards of each model by each judge.

    Raises:
        ConfigError: the folder's calibration is none.
    """
    if not folder.calibration.is_file():
        return ()
    calibration = read_calibration(folder.calibration)
    named = {one.name for one in judges if _fingerprint(one) == calibration.judge_fingerprint}
    return tuple(_corrected(folder, one, calibration) for one in measured if one.judge in named)


def _corrected(folder: EvalFolder, measured: Measured, calibration: Calibration) -> CorrectedReward:
    """Correct a model's mean over questions, unless its rewards are of another population."""
    pairs = calibration.reward.pairs
    found = [
        (mean, document)
        for mean, document in zip(measured.means_N, measured.clusters, strict=True)
        if mean is not None
    ]
    means_N, documents_N = zip(*found, strict=True) if found else ((), ())
    values = [value for values_K in measured.values_NK for value in values_K if value is not None]
    raw = sum(means_N) / len(means_N) if means_N else 0.0
    names = {"model": measured.model, "judge": measured.judge or ""}
    row = partial(CorrectedReward, **names, raw=raw, labelled=len(pairs))
    try:
        population = check_population(values, pairs)
        corrected = corrected_mean(means_N, pairs, documents_N=documents_N)
    except RewardError as error:
        return row(population="", refused=str(error))
    if population.transfers:
        limits = corrected.model_dump(include={"mean", "ci_low", "ci_high", "trust"})
        return row(population=population.reason, **limits)
    answers = min(folder.answers(measured.model, 0).parent.glob("seed_*.jsonl"))
    refused = (
        "the calibration is of another population of answers: label some of this model's "
        f"(rubric-judge label TASKS EVAL/{answers.relative_to(folder.root)} --out LABELS) and "
        f"calibrate on them; {population.reason}"
    )
    return row(population=population.reason, refused=refused)


def _fingerprint(judge: JudgeEntry) -> str:
    """The judge's own, as a calibration names it."""
    return str(judge.identity.get("fingerprint", ""))
