"""The paper's Table 1, the agreement of judges, and rewards corrected by labels.

All are made from the rows of a finished evaluation. Labels correct only the rewards of the answers
that they were drawn from; for any other model the judge's mean stands, marked as uncorrected.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations, product
from pathlib import Path

import numpy as np

from rubric_core import RewardError, Task
from rubric_core.files import read_file
from rubric_eval.errors import EvalConfigError
from rubric_eval.records import run as records
from rubric_eval.records.digests import refusing_edits
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import EvalRun, Measured, Record, present_mean
from rubric_eval.scores.judged import JudgedReader, measured_rewards
from rubric_eval.scores.scoring import NamedJudge
from rubric_eval.statistics.intervals import ModelScore, score
from rubric_judge.quality.calibration.correction import (
    corrected_mean,
    errors_elsewhere,
    labelled_population,
)
from rubric_judge.quality.calibration.record import (
    Calibration,
    read_calibration,
)
from rubric_judge.statistics.untyped import stats


class CorrectedReward(Record):
    """Mean reward of one model by the calibrated judge, corrected for the judge's bias."""

    model: str
    judge: str
    raw: float
    """The judge's own mean."""
    mean: float | None = None
    """Corrected mean; None if the correction is refused."""
    ci_low: float | None = None
    ci_high: float | None = None
    trust: float | None = None
    """λ: weight of the judge's rewards, 0 to 1."""
    labelled: int = 0
    """Number of labelled answers of the model itself; 0 if the correction is refused."""
    population: str = ""
    """Whether the judge errs on these answers as on others that are labelled, with figures; empty
    if labels are of only one of the two."""
    refused: str = ""
    """Why there is no corrected reward and the raw one stands; empty if there is one."""


def calibration_of(
    path: Path, judges: Sequence[NamedJudge], tasks: Iterable[Task]
) -> bytes:
    """Return the bytes of a calibration, after a check that it is of one of the judges.

    Args:
        path: calibration.json.
        judges: judges of the evaluation.
        tasks: tasks of the evaluation.

    Raises:
        ConfigError: the file cannot be read, is of none of these judges, or is of another version
            of a task's rubric.
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
    here = [_fingerprint(judge.entry) for judge in judges]
    calibrated = calibration.judge_fingerprint
    # Of none of them: the error names the first.
    judge = calibrated if calibrated in here else here[0]
    calibration.require(judge, tasks, source=str(path))
    return text


def stored_calibration(folder: EvalFolder) -> Calibration | None:
    """Read the calibration that an evaluation holds; None where it holds none.

    Raises:
        ConfigError: it is not valid.
    """
    if not folder.calibration.is_file():
        return None
    return read_calibration(folder.calibration)


def corrected_rewards(
    folder: EvalFolder,
    calibration: Calibration,
    judges: Iterable[records.JudgeEntry],
    measured: Iterable[Measured],
) -> tuple[CorrectedReward, ...]:
    """Correct the rewards by the judge that a calibration is of.

    Args:
        folder: folder of the evaluation, which a remedy names.
        calibration: labels of answers, with what the judge gave them.
        judges: judges of the evaluation.
        measured: rewards of each model by each judge.
    """
    calibrated = {
        judge.name
        for judge in judges
        if _fingerprint(judge) == calibration.judge_fingerprint
    }
    return tuple(
        _corrected(folder, rewards, calibration)
        for rewards in measured
        if rewards.judge in calibrated
    )


def _corrected(
    folder: EvalFolder, measured: Measured, calibration: Calibration
) -> CorrectedReward:
    """Correct a model's mean by the labels of its own answers, or say why it cannot be."""
    answers = dict(zip(measured.ids, measured.answers_NK, strict=True))
    values: list[float] = []
    hashes: list[str] = []
    documents: list[str] = []
    for values_K, answers_K, document in zip(
        measured.values_NK, measured.answers_NK, measured.clusters, strict=True
    ):
        for value, answer in zip(values_K, answers_K, strict=True):
            if value is not None:
                values.append(value)
                hashes.append(answer)
                documents.append(document)
    row = partial(
        CorrectedReward,
        model=measured.model,
        judge=measured.judge or "",
        raw=present_mean(measured.means_N) or 0.0,
    )
    try:
        own = labelled_population(calibration, answers)
        corrected = corrected_mean(values, own, answers_N=hashes, documents_N=documents)
    except RewardError as error:
        of_model = folder.answers(measured.model, 0).parent
        first_file = min(of_model.glob("seed_*.jsonl"))
        path = f"EVAL/{first_file.relative_to(folder.root)}"
        remedy = (
            "the judge's own mean stands, uncorrected. To correct it, label a draw of this model's "
            f"answers (rubric-judge label TASKS {path} --out LABELS) and calibrate on them"
        )
        return row(refused=f"{error}; {remedy}")
    of_this_model = set(hashes)
    others = [
        pair for pair in calibration.reward.pairs if pair.answer not in of_this_model
    ]
    return row(
        labelled=corrected.labelled,
        population=errors_elsewhere(values, others, own),
        **corrected.model_dump(include={"mean", "ci_low", "ci_high", "trust"}),
    )


def _fingerprint(judge: records.JudgeEntry) -> str:
    """Return the judge's own fingerprint, by which a calibration names it."""
    return str(judge.identity.get("fingerprint", ""))


class JudgePair(Record):
    """Two judges on the same answers."""

    a: str
    b: str
    answers: int
    """Number of answers of all models that both judged."""
    mean_difference: float
    """Mean difference of rewards, a − b."""
    rank_correlation: float | None
    """Spearman's ρ over answers; None if one judge gives all answers the same reward."""
    same_order: bool
    """Whether both put the models in the same order, of those that both have judged."""


class HeldoutTable(Record):
    """Content of heldout.json: model × judge, only numbers and names."""

    confidence: float
    rows: tuple[ModelScore, ...]
    missing: tuple[tuple[str, str], ...]
    """Pairs (model, judge) without scores."""
    judge_pairs: tuple[JudgePair, ...]
    corrected: tuple[CorrectedReward, ...] = ()
    """Rewards corrected by labels, with valid intervals, if the judge is calibrated."""


def heldout_table(
    folder: EvalFolder, run: EvalRun, *, confidence: float = 0.95
) -> HeldoutTable:
    """Make the table of all models and judges that have scores.

    Args:
        folder: folder of the evaluation.
        run: its manifest.
        confidence: nominal coverage of the intervals, in (0, 1).

    Returns:
        Rows in the order of models, then judges.

    Raises:
        EvalFolderError, RubricFileError: rows do not fit; see `JudgedReader`.
    """
    calibration = stored_calibration(folder)
    with refusing_edits() as edits:
        reader = JudgedReader(folder, run, edits)
        measured = {
            (judged.model.name, judged.judge.name): measured_rewards(
                run, reader.questions, judged
            )
            for judged in reader.read()
        }
    rows = [score(rewards, confidence=confidence) for rewards in measured.values()]
    models = [model.name for model in run.models]
    judges = [judge.name for judge in run.judges]
    of_models = {
        (model, judge): rewards
        for (model, judge), rewards in measured.items()
        if model not in run.controls
    }
    pairs = tuple(judge_pairs(of_models, judges))
    corrected: tuple[CorrectedReward, ...] = ()
    if calibration is not None:
        values = of_models.values()
        corrected = corrected_rewards(folder, calibration, run.judges, values)
    return HeldoutTable(
        confidence=confidence,
        rows=tuple(rows),
        missing=tuple(key for key in product(models, judges) if key not in measured),
        judge_pairs=pairs,
        corrected=corrected,
    )


def judge_pairs(
    measured: Mapping[tuple[str, str], Measured], judges: Iterable[str]
) -> Iterator[JudgePair]:
    """Compare every two judges on the same answers; pairs without such an answer are left out.

    Args:
        measured: rewards by model and judge.
        judges: names of the judges.
    """
    for a, b in combinations(judges, 2):
        pair = _judge_pair(measured, a, b)
        if pair is not None:
            yield pair


def _judge_pair(
    measured: Mapping[tuple[str, str], Measured], a: str, b: str
) -> JudgePair | None:
    """Compare two judges on the same answers; None if no answer was judged by both."""
    models = [
        model for model, judge in measured if judge == a and (model, b) in measured
    ]
    both = [
        (first, second)
        for model in models
        for first, second in zip(
            chain.from_iterable(measured[model, a].values_NK),
            chain.from_iterable(measured[model, b].values_NK),
            strict=True,
        )
        if first is not None and second is not None
    ]
    if not both:
        return None
    of_models = {
        model: {judge: _mean(measured[model, judge]) for judge in (a, b)}
        for model in models
    }
    # A model that a judge has not judged at all has no place in its order.
    means = {model: own for model, own in of_models.items() if None not in own.values()}
    first_V, second_V = np.array(both).T
    rank_correlation = None
    if np.ptp(first_V) != 0 and np.ptp(second_V) != 0:
        correlation = stats.spearmanr(first_V, second_V)
        rank_correlation = float(correlation.statistic)
    return JudgePair(
        a=a,
        b=b,
        answers=len(both),
        mean_difference=float((first_V - second_V).mean()),
        rank_correlation=rank_correlation,
        same_order=_order(means, a) == _order(means, b),
    )


def _mean(measured: Measured) -> float | None:
    return present_mean(chain.from_iterable(measured.values_NK))


def _order(means: Mapping[str, Mapping[str, float | None]], judge: str) -> list[str]:
    """Return the models in the order of their mean reward by a judge, the lowest first."""
    return sorted(means, key=lambda model: means[model][judge] or 0.0)
