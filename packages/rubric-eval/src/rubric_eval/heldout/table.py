"""The paper's Table 1, the judges side by side, and rewards as labels would have them.

All are from the rows of a finished evaluation. Labels correct the rewards of the answers alone that
they were drawn from; of any other model the judge's mean stands, marked as uncorrected.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import stats

from rubric_core import RewardError, Task
from rubric_core.files import read_file
from rubric_eval.errors import EvalConfigError
from rubric_eval.records import run as records
from rubric_eval.records.digests import refusing_edits
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import EvalRun, Measured, Record, present_mean
from rubric_eval.scores.judged import JudgedReader, measured_rewards
from rubric_eval.scores.scoring import NamedJudge
from rubric_eval.statistics.scores import ModelScore, score
from rubric_judge.calibration.correction import (
    check_population,
    corrected_mean,
    labelled_population,
)
from rubric_judge.calibration.record import Calibration, RewardPair, read_calibration


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
    labelled: int = 0
    """Labelled answers of the model itself; 0 where the correction is refused."""
    population: str = ""
    """Whether the judge errs on these answers as on others that are labelled, with figures; empty
    where labels are of the one or the other alone."""
    refused: str = ""
    """Why there is no corrected reward and the raw one stands; empty where there is one."""


def calibration_of(
    path: Path, judges: Sequence[NamedJudge], tasks: Iterable[Task]
) -> bytes:
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
        raise EvalConfigError(
            f"--calibration {path}: it cannot be read ({error.strerror}): write it with "
            "`rubric-judge calibrate`",
            location="calibration",
        ) from None
    own = [_fingerprint(judge.entry) for judge in judges]
    chosen = calibration.judge_fingerprint
    calibration.require(chosen if chosen in own else own[0], tasks, source=str(path))
    return text


def corrected_rewards(
    folder: EvalFolder,
    judges: Iterable[records.JudgeEntry],
    measured: Iterable[Measured],
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
    named = {
        judge.name
        for judge in judges
        if _fingerprint(judge) == calibration.judge_fingerprint
    }
    return tuple(
        _corrected(folder, one, calibration) for one in measured if one.judge in named
    )


def _corrected(
    folder: EvalFolder, measured: Measured, calibration: Calibration
) -> CorrectedReward:
    """Correct a model's mean by the labels of its own answers, if there are enough."""
    answers = dict(zip(measured.ids, measured.answers_NK, strict=True))
    judged = [
        (value, answer, document)
        for values_K, answers_K, document in zip(
            measured.values_NK, measured.answers_NK, measured.clusters, strict=True
        )
        for value, answer in zip(values_K, answers_K, strict=True)
        if value is not None
    ]
    values = [value for value, _, _ in judged]
    hashes = [answer for _, answer, _ in judged]
    documents = [document for _, _, document in judged]
    names = {"model": measured.model, "judge": measured.judge or ""}
    row = partial(CorrectedReward, **names, raw=present_mean(measured.means_N) or 0.0)
    try:
        own = labelled_population(calibration, answers)
        corrected = corrected_mean(values, own, answers_N=hashes, documents_N=documents)
    except RewardError as error:
        answers_of = min(folder.answers(measured.model, 0).parent.glob("seed_*.jsonl"))
        path = f"EVAL/{answers_of.relative_to(folder.root)}"
        remedy = (
            "the judge's own mean stands, uncorrected. To correct it, label a draw of this model's "
            f"answers (rubric-judge label TASKS {path} --out LABELS) and calibrate on them"
        )
        return row(refused=f"{error}; {remedy}")
    known = set(hashes)
    others = [pair for pair in calibration.reward.pairs if pair.answer not in known]
    return row(
        labelled=corrected.labelled,
        population=_errors_elsewhere(values, others, own),
        **corrected.model_dump(include={"mean", "ci_low", "ci_high", "trust"}),
    )


def _errors_elsewhere(
    values: Sequence[float], others: Sequence[RewardPair], own: Sequence[RewardPair]
) -> str:
    """Say whether the judge errs on a model's answers as on others that are labelled."""
    if not others:
        return ""
    try:
        return check_population(values, others, own).reason
    except RewardError as error:
        return str(error)


def _fingerprint(judge: records.JudgeEntry) -> str:
    """The judge's own, as a calibration names it."""
    return str(judge.identity.get("fingerprint", ""))


class JudgePair(Record):
    """Two judges on the same answers."""

    a: str
    b: str
    answers: int
    """That both judged, of all models."""
    mean_difference: float
    """Of rewards, a − b."""
    rank_correlation: float | None
    """Spearman's ρ over answers; None where one judge gives all the same reward."""
    same_order: bool
    """Whether both put the models in the same order."""


class HeldoutTable(Record):
    """heldout.json: model × judge; numbers and names alone."""

    confidence: float
    rows: tuple[ModelScore, ...]
    missing: tuple[tuple[str, str], ...]
    """Models and judges that were not brought together: (model, judge)."""
    judge_pairs: tuple[JudgePair, ...]
    corrected: tuple[CorrectedReward, ...] = ()
    """Rewards as labels would have them, where the judge is calibrated; valid intervals."""


def heldout_table(
    folder: EvalFolder, run: EvalRun, *, confidence: float = 0.95
) -> HeldoutTable:
    """Make the table of all models and judges that were brought together.

    Args:
        folder: of the evaluation.
        run: its manifest.
        confidence: nominal coverage of the intervals, in (0, 1).

    Returns:
        Rows in the order of models, then judges.

    Raises:
        EvalFolderError, RubricFileError: rows that do not fit; see `JudgedReader`.
    """
    with refusing_edits() as edits:
        reader = JudgedReader(folder, run, edits)
        measured = {
            (judged.model.name, judged.judge.name): measured_rewards(
                run, reader.questions, judged
            )
            for judged in reader.read()
        }
    rows = {pair: score(one, confidence=confidence) for pair, one in measured.items()}
    judges = [judge.name for judge in run.judges]
    of_models = {
        pair: one for pair, one in measured.items() if pair[0] not in run.controls
    }
    return HeldoutTable(
        confidence=confidence,
        rows=tuple(rows.values()),
        missing=tuple(
            (model.name, judge.name)
            for model in run.models
            for judge in run.judges
            if (model.name, judge.name) not in rows
        ),
        judge_pairs=tuple(
            pair
            for a, b in combinations(judges, 2)
            if (pair := judge_pair(of_models, a, b))
        ),
        corrected=corrected_rewards(folder, run.judges, of_models.values()),
    )


def judge_pair(
    measured: dict[tuple[str, str], Measured], a: str, b: str
) -> JudgePair | None:
    """Set two judges side by side; None if no answer was judged by both.

    Args:
        measured: by model and judge.
        a: a judge.
        b: another one.
    """
    models = [
        model for model, judge in measured if judge == a and (model, b) in measured
    ]
    both = [
        (first, second)
        for model in models
        for first_K, second_K in zip(
            measured[model, a].values_NK, measured[model, b].values_NK, strict=True
        )
        for first, second in zip(first_K, second_K, strict=True)
        if first is not None and second is not None
    ]
    if not both:
        return None
    first_V, second_V = np.array(both).T
    return JudgePair(
        a=a,
        b=b,
        answers=len(both),
        mean_difference=float((first_V - second_V).mean()),
        rank_correlation=None
        if np.ptp(first_V) == 0 or np.ptp(second_V) == 0
        else float(cast("Any", stats).spearmanr(first_V, second_V).statistic),
        same_order=_order(measured, models, a) == _order(measured, models, b),
    )


def _order(
    measured: dict[tuple[str, str], Measured], models: Sequence[str], judge: str
) -> list[str]:
    means = {
        model: present_mean(chain.from_iterable(measured[model, judge].values_NK))
        or 0.0
        for model in models
    }
    return sorted(models, key=lambda model: means[model])
