"""Judgements as arrays: **J** judges, **N** responses, **R** replicates, **M** criteria.

A judgement without scores is nan in every array, and is counted separately.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from rubric_core import (
    ConfigError,
    JudgeResult,
    JudgeView,
    Outcome,
    Pool,
    Pooling,
    RubricFileError,
    SchemaError,
    Task,
    criterion_scores_z,
)
from rubric_core.arrays import FloatArray
from rubric_judge.quality.labels.rows import LabelSource, holds_labels, read_labels
from rubric_judge.quality.responses import read_judgements
from rubric_judge.ui.page.tables import Part


class JudgementCost(Part):
    """Means over the judgements of one judge that say it, those without scores included.

    A judgement from a ledger says what it took when it was made. A listwise judge's call is divided
    among the responses of its group, but all of them wait for the whole call.
    """

    calls: float | None
    """Attempts; None where no judgement tells of tokens, as of a program or a person."""
    prompt_tokens: float | None
    completion_tokens: float | None
    cached_tokens: float | None
    """Cached tokens of the prompt; None where no server reports them."""
    cost_usd: float | None
    seconds: float | None
    """Seconds from the first attempt to the answer."""

    @property
    def usd_per_1000(self) -> float | None:
        """Cost of a thousand judgements in US dollars."""
        return None if self.cost_usd is None else 1000 * self.cost_usd


def judgement_cost(results: Sequence[JudgeResult]) -> JudgementCost:
    """Average the cost of judgements.

    Args:
        results: judgements of one judge.
    """
    used = [result.usage for result in results if result.usage is not None]
    return JudgementCost(
        calls=_mean(result.attempts for result in results if used),
        prompt_tokens=_mean(usage.prompt_tokens for usage in used),
        completion_tokens=_mean(usage.completion_tokens for usage in used),
        cached_tokens=_mean(usage.cached_tokens for usage in used),
        cost_usd=_mean(usage.cost_usd for usage in used),
        seconds=_mean(result.latency_s for result in results),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


Cells = Mapping[Pool, tuple[Sequence[int], Sequence[int]]]
"""Positions (n, m) of the criteria of each pool."""


@dataclass(frozen=True, slots=True)
class Rating:
    """A judgement with its judge, who may be a person, and its response.

    A `JudgeResult` alone says neither: it knows no response, and its `judge` may be empty or that
    of two configurations of one model.
    """

    judge: str
    task_id: str
    line: int
    """The response: its line in the file of responses."""
    result: JudgeResult


@dataclass(frozen=True)
class Ratings:
    """All judgements of a study as arrays; nan where a judgement is missing or has no scores.

    No list of `JudgeResult`: statistics need every judge's scores of a response side by side, also
    where one has more replicates than another or none.
    """

    judges: tuple[str, ...]
    tasks_N: tuple[Task, ...]
    """The task of each response; responses of one task are one group."""
    lines_N: tuple[int, ...]
    """Line of each response in the file of responses."""
    z_JNRM: FloatArray
    """z_j = s_j / w_j; nan also for weight 0 and beyond the rubric's M."""
    outcomes_J: tuple[Counter[Outcome], ...]
    reasons_J: tuple[Counter[str], ...]
    costs_J: tuple[JudgementCost, ...]

    @cached_property
    def task_ids_N(self) -> tuple[str, ...]:
        """Task id of each response."""
        return tuple(task.task_id for task in self.tasks_N)

    @cached_property
    def alpha_NM(self) -> FloatArray:
        """α_j of each response's rubric, 0 beyond its M."""
        alpha_NM = np.zeros((len(self.tasks_N), self.z_JNRM.shape[3]))
        for n, task in enumerate(self.tasks_N):
            alpha_NM[n, : len(task.rubric)] = task.rubric.shares_M
        return alpha_NM

    @cached_property
    def rewards_JNR(self) -> FloatArray:
        """R = αᵀz: equal to the judgement's reward, and exact for its variance."""
        scored_JNR = ~np.isnan(self.z_JNRM).all(axis=3)
        rewards_JNR = np.einsum(
            "jnrm,nm->jnr", np.nan_to_num(self.z_JNRM), self.alpha_NM
        )
        return np.where(scored_JNR, rewards_JNR, np.nan)

    def cells(self, pooling: Pooling) -> Cells:
        """Return the positions (n, m) of the criteria with weight, by pool.

        A response occurs as often as its rubric has criteria of the pool.
        """
        cells: defaultdict[Pool, tuple[list[int], list[int]]] = defaultdict(
            lambda: ([], [])
        )
        for n, task in enumerate(self.tasks_N):
            for m, criterion in enumerate(task.rubric):
                if criterion.weight > 0:
                    n_C, m_C = cells[pooling.pool(criterion)]
                    n_C.append(n)
                    m_C.append(m)
        return dict(cells)

    @cached_property
    def cells_by_pool(self) -> Cells:
        """The positions by the pools of these tasks."""
        return self.cells(Pooling.of(self.tasks_N))


def collect(ratings: Iterable[Rating], tasks: Mapping[str, Task]) -> Ratings:
    """Put judgements into arrays.

    Args:
        ratings: in any order; a second judgement of a response by the same judge is a replicate.
        tasks: tasks by id.

    Returns:
        Responses in the order of their lines, judges in the order of their first judgement.

    Raises:
        ConfigError: there is no judgement.
        SchemaError: scores that are not the task's rubric's.
    """
    by_judge: defaultdict[str, defaultdict[tuple[int, str], list[JudgeResult]]]
    by_judge = defaultdict(lambda: defaultdict(list))
    for rating in ratings:
        by_judge[rating.judge][rating.line, rating.task_id].append(rating.result)
    responses = sorted({response for rated in by_judge.values() for response in rated})
    if not responses:
        raise ConfigError(
            "there is no judgement: give --judge with responses, or --judgements"
        )
    tasks_N = tuple(tasks[task_id] for _, task_id in responses)
    replicates = max(
        len(results) for rated in by_judge.values() for results in rated.values()
    )
    widest = max(len(task.rubric) for task in tasks_N)
    z_JNRM = np.full((len(by_judge), len(responses), replicates, widest), np.nan)
    for j, rated in enumerate(by_judge.values()):
        for n, response in enumerate(responses):
            rubric = tasks_N[n].rubric
            for r, result in enumerate(rated.get(response, [])):
                if result.outcome is Outcome.SCORED:
                    z_JNRM[j, n, r, : len(rubric)] = criterion_scores_z(result, rubric)
    results_J = [
        [result for results in rated.values() for result in results]
        for rated in by_judge.values()
    ]
    return Ratings(
        judges=tuple(by_judge),
        tasks_N=tasks_N,
        lines_N=tuple(line for line, _ in responses),
        z_JNRM=z_JNRM,
        outcomes_J=tuple(
            Counter(result.outcome for result in results) for results in results_J
        ),
        reasons_J=tuple(
            Counter(result.reason.value for result in results if result.reason)
            for results in results_J
        ),
        costs_J=tuple(map(judgement_cost, results_J)),
    )


def read_ratings(
    path: Path,
    tasks: Mapping[str, Task],
    *,
    views: Mapping[int, JudgeView] | None = None,
    notes: list[str] | None = None,
) -> Iterator[Rating]:
    """Read a judgement file, as `rubric-judge score` writes it, or a file of labels.

    Args:
        path: JSON Lines with `line`, `task_id`, `reward` and `result`. The judge is
            `result.judge`, or the file's name where that is empty; rewards follow from the scores
            and are not read. Or labels, of which a response with a score for every criterion with
            weight is a judgement by its rater.
        tasks: tasks by id.
        views: responses by line, to check labels by, where they are known.
        notes: gets a sentence on responses that a rater has labelled in part, which are left out.

    Raises:
        RubricFileError: a line that is not a judgement, or of an unknown task or another rubric.
        OSError: the file cannot be read.
    """
    if holds_labels(path):
        yield from _of_labels(
            path, LabelSource(tasks, views), [] if notes is None else notes
        )
        return
    for number, row in read_judgements(path):
        task = tasks.get(row.task_id)
        if task is None:
            raise RubricFileError(
                f"no task has the id {row.task_id!r}: give the task file it was judged under",
                path=path,
                line=number,
                field="task_id",
            )
        if row.result.outcome is Outcome.SCORED:
            try:
                task.rubric.check_scores(row.result.scores)
            except SchemaError as error:
                raise RubricFileError(str(error), path=path, line=number) from None
        yield Rating(row.result.judge or path.stem, row.task_id, row.line, row.result)


def _of_labels(path: Path, source: LabelSource, notes: list[str]) -> Iterator[Rating]:
    """Combine the labels of a rater on a response into a judgement."""
    scores_by_response: defaultdict[tuple[str, int, str], dict[str, float | None]] = (
        defaultdict(dict)
    )
    for label in read_labels(path, source):
        scores_by_response[label.rater, label.line, label.task_id][label.criterion] = (
            label.score
        )
    partial: Counter[str] = Counter()
    for (rater, line, task_id), scores in scores_by_response.items():
        rubric = source.tasks[task_id].rubric
        # Criteria without weight earn nothing, and are not labelled.
        whole = {
            criterion.id: scores.get(criterion.id) if criterion.weight else 0.0
            for criterion in rubric
        }
        known = {name: score for name, score in whole.items() if score is not None}
        if len(known) == len(rubric):
            yield Rating(
                rater, task_id, line, JudgeResult.scored(rubric, known, judge=rater)
            )
        else:
            partial[rater] += 1
    notes += [
        f"{path}: {count} responses that {rater!r} has labelled in part are left out"
        for rater, count in partial.items()
    ]


IntArray = NDArray[np.intp]
Statistic = Callable[[IntArray], float]
"""A number from the drawn rows (responses); nan where they determine none."""


def ratio(numerator_N: FloatArray, denominator_N: FloatArray) -> Statistic:
    """Return the statistic Σ numerator / Σ denominator over the drawn rows; nan for 0 / 0."""

    def statistic(rows: IntArray) -> float:
        below = float(denominator_N[rows].sum())
        return float(numerator_N[rows].sum()) / below if below else math.nan

    return statistic
