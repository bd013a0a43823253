"""Figures of all criteria of a log: by criterion, or by prompt."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple

import numpy as np

from rubric_core import Outcome, Pooling, Task
from rubric_core.arrays import FloatArray
from rubric_core.reward.criteria import CellFigures, cell_figures, pooled_figures
from rubric_core.schema.pools import FEWEST_TASKS
from rubric_judge.quality.criteria.groups import Groups, JudgedAnswer, groups_of
from rubric_judge.quality.criteria.report import CriteriaReport, CriterionLife

By = Literal["criterion", "prompt"]
"""Meaning of a row of the table."""

_LEAST_FRAC = 0.05
"""Share of the prompts that an id must occur in to stand for itself, as in `Pooling`."""
_REST = "kind.none"
"""Pool of ids that do not repeat, where nothing is known of their kinds."""
_FLAT = [f.name for f in fields(CellFigures) if f.name != "squares_P"]
"""Figures with a value for each cell."""


class Cell(NamedTuple):
    """Names of one criterion of one group."""

    task_id: str
    criterion: str
    pool: str | None
    """Name of its pool, where the log says; else None."""


@dataclass
class Reader:
    """Collects the figures of a log, which is read once."""

    cells: list[CellFigures] = field(default_factory=list[CellFigures])
    shares: list[FloatArray] = field(default_factory=list[FloatArray])
    names: list[Cell] = field(default_factory=list[Cell])
    failures: list[FloatArray] = field(default_factory=list[FloatArray])
    """For each chunk, invalid and unavailable judgements of each cell's group, [2, N]."""
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    steps: set[int] = field(default_factory=set[int])
    tasks: set[str] = field(default_factory=set[str])
    groups: int = 0
    measured_tokens: int = 0
    """Judgements whose tokens are known."""
    repeats: defaultdict[object, list[JudgedAnswer]] = field(
        default_factory=lambda: defaultdict[object, list[JudgedAnswer]](list)
    )

    def read(self, answers: Iterable[JudgedAnswer]) -> None:
        """Add the answers of a log."""
        for groups in groups_of(self._noticed(answers)):
            self._add(groups)

    def _noticed(self, answers: Iterable[JudgedAnswer]) -> Iterator[JudgedAnswer]:
        """Yield all answers, and keep those of texts that may be judged several times."""
        for answer in answers:
            if answer.answer is not None:
                self.repeats[answer.answer].append(answer)
            yield answer

    def _add(self, groups: Groups) -> None:
        figures = cell_figures(groups.cells)
        weighted_PM = groups.cells.shares_PM > 0
        flat = {name: getattr(figures, name)[weighted_PM] for name in _FLAT}
        self.cells.append(CellFigures(**flat, squares_P=figures.squares_P))
        self.shares.append(groups.cells.shares_PM[weighted_PM])
        failures_2P = np.zeros((2, len(groups.answers_P)))
        for p, (names, group) in enumerate(
            zip(groups.names_P, groups.answers_P, strict=True)
        ):
            # A failed row may not know its task.
            first = next((answer for answer in group if answer.shares), group[0])
            outcomes = Counter(answer.outcome for answer in group)
            self.outcomes.update(outcomes)
            failures_2P[:, p] = outcomes[Outcome.INVALID], outcomes[Outcome.UNAVAILABLE]
            self.steps.add(first.step)
            self.tasks.add(first.task_id)
            self.measured_tokens += sum(a.tokens is not None for a in group)
            for name in names:
                pool = first.pools.get(name, name if first.pools else None)
                self.names.append(Cell(first.task_id, name, pool))
        self.groups += len(groups.answers_P)
        self.failures.append(np.repeat(failures_2P, weighted_PM.sum(axis=1), axis=1))


def measure(
    answers: Iterable[JudgedAnswer],
    *,
    source: str,
    by: By = "criterion",
    tasks: Iterable[Task] = (),
    noise: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
) -> CriteriaReport:
    """Measure every criterion of a log, or every prompt.

    Args:
        answers: judged answers; those of a step stand together.
        source: format of the log.
        by: what a row stands for: criteria of an id that repeats, or of a kind; or a prompt.
        tasks: tasks of the log, which say of what kind a criterion is; without them, the log
            itself, or the ids that repeat.
        noise: variance of a criterion's z over repeated judgements, by pool, as calibrated; the
            log's own repeats are taken where it has any.
        notes: what a reader should know of the log.

    Returns:
        The report; figures that the log does not determine are None.

    Raises:
        ConfigError: answers of one group were judged by different criteria.
    """
    reader = Reader()
    reader.read(answers)
    pool_of = _pool_names(reader.names, tasks)
    key: Callable[[Cell], str] = pool_of
    variances = _variances(reader.repeats.values(), pool_of) or dict(noise or {})
    if by == "prompt":
        key = _task_of
        variances = {}
    cells = _joined(reader.cells)
    shares = np.concatenate([np.zeros(0), *reader.shares])
    rows = _rows(reader, cells, shares, [key(cell) for cell in reader.names], variances)
    has_tokens = reader.measured_tokens > 0
    return CriteriaReport(
        source=source,
        by=by,
        steps=len(reader.steps - {0}),
        prompts=len(reader.tasks),
        groups=reader.groups,
        responses=reader.outcomes.total(),
        invalid=reader.outcomes[Outcome.INVALID],
        unavailable=reader.outcomes[Outcome.UNAVAILABLE],
        cells=int(cells.compared.sum()),
        constant_frac=_share_of(cells.constant, cells.compared),
        constant_weight_frac=_share_of(
            cells.constant * shares, shares * cells.compared
        ),
        idle_frac=_share_of(cells.idle, np.ones_like(cells.idle)),
        tokens=float(cells.tokens.sum()) if has_tokens else None,
        idle_tokens=float(cells.idle_tokens.sum()) if has_tokens else None,
        untold_tokens=reader.outcomes.total() - reader.measured_tokens,
        rows=tuple(
            sorted(rows, key=_most_gradient if by == "criterion" else _most_dead)
        ),
        notes=tuple(notes),
    )


def _rows(
    reader: Reader,
    cells: CellFigures,
    shares: FloatArray,
    keys: Sequence[str],
    variances: Mapping[str, float],
) -> Iterator[CriterionLife]:
    """Yield a row for each key of the cells."""
    codes: dict[str, int] = {}
    for name in keys:
        codes.setdefault(name, len(codes))
    index = np.array([codes[name] for name in keys], dtype=np.intp)
    figures = pooled_figures(cells, shares, index, count=len(codes))
    failures = np.concatenate([np.zeros((2, 0)), *reader.failures], axis=1)
    invalid, unavailable = (
        np.bincount(index, weights=counts, minlength=len(codes)) for counts in failures
    )
    prompts: defaultdict[str, set[str]] = defaultdict(set)
    for name, cell in zip(keys, reader.names, strict=True):
        prompts[name].add(cell.task_id)
    has_tokens = reader.measured_tokens > 0
    for name, k in codes.items():
        variance = variances.get(name)
        yield CriterionLife(
            name=name,
            prompts=len(prompts[name]),
            groups=int(figures.groups[k]),
            scores=int(figures.responses[k]),
            invalid=int(invalid[k]),
            unavailable=int(unavailable[k]),
            share=float(figures.share[k]),
            mean=_known(figures.mean[k]),
            spread=_known(figures.spread[k]),
            saturated=_known(figures.saturated[k]),
            unmet=_known(figures.unmet[k]),
            constant=_known(figures.constant[k]),
            held_down=_known(figures.held_down[k]),
            gradient=_known(figures.gradient[k]),
            noise=None if variance is None else math.sqrt(variance),
            tokens=float(figures.tokens[k]) if has_tokens else None,
            idle_tokens=float(figures.idle_tokens[k]) if has_tokens else None,
        )


def _task_of(cell: Cell) -> str:
    return cell.task_id


def _most_gradient(row: CriterionLife) -> tuple[float, str]:
    """Order criteria by their part of the gradient, the greatest first."""
    return -(row.gradient or 0.0), row.name


def _most_dead(row: CriterionLife) -> tuple[float, str]:
    """Order prompts by how often they are dead; their other groups carry about equal gradient."""
    return -(row.constant or 0.0), row.name


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _share_of(part: FloatArray, whole: FloatArray) -> float | None:
    """Return what the sum of a part is of that of the whole; None where there is nothing."""
    total = float(whole.sum())
    return float(part.sum()) / total if total else None


def _joined(chunks: Sequence[CellFigures]) -> CellFigures:
    """Return the figures of all chunks, one after the other."""
    return CellFigures(
        **{
            f.name: np.concatenate([getattr(chunk, f.name) for chunk in chunks])
            if chunks
            else np.zeros(0)
            for f in fields(CellFigures)
        }
    )


def _pool_names(cells: Sequence[Cell], tasks: Iterable[Task]) -> Callable[[Cell], str]:
    """Choose the pool of each cell: by the tasks, by what the log says, or by ids that repeat."""
    by_id = {task.task_id: task for task in tasks}
    pooling = Pooling.of(by_id.values())
    named = {
        (task_id, criterion.id): pooling.pool(criterion).name
        for task_id, task in by_id.items()
        for criterion in task.rubric
    }
    with_id: defaultdict[str, set[str]] = defaultdict(set)
    for cell in cells:
        with_id[cell.criterion].add(cell.task_id)
    total = len({cell.task_id for cell in cells})
    least = max(FEWEST_TASKS, math.ceil(_LEAST_FRAC * total))
    if total < FEWEST_TASKS:
        least = 1
    repeated = {name for name, prompts in with_id.items() if len(prompts) >= least}

    def pool_of(cell: Cell) -> str:
        known = named.get((cell.task_id, cell.criterion)) or cell.pool
        if known is not None:
            return known
        return cell.criterion if cell.criterion in repeated else _REST

    return pool_of


def _variances(
    repeats: Iterable[Sequence[JudgedAnswer]], pool_of: Callable[[Cell], str]
) -> dict[str, float]:
    """Return the variance of z over judgements of the same text, by pool."""
    squares: defaultdict[str, float] = defaultdict(float)
    freedom: Counter[str] = Counter()
    for answers in repeats:
        scored = [a for a in answers if a.outcome is Outcome.SCORED]
        if len(scored) < 2:  # noqa: PLR2004  # nothing to compare
            continue
        first = scored[0]
        for name, share in first.shares.items():
            values = [a.z[name] for a in scored if name in a.z]
            if share <= 0 or len(values) < 2:  # noqa: PLR2004
                continue
            pool = pool_of(Cell(first.task_id, name, first.pools.get(name)))
            squares[pool] += float(np.var(values)) * len(values)
            freedom[pool] += len(values) - 1
    return {pool: squares[pool] / freedom[pool] for pool in freedom}
