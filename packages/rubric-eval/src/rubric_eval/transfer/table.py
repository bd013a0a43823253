"""The paper's Table 2: accuracy of every model on every benchmark, and the average difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from rubric_eval.records.digests import refusing_edits
from rubric_eval.records.run import FROZEN
from rubric_eval.statistics import score_interval
from rubric_eval.transfer.reading import read_benchmarks
from rubric_eval.transfer.suites import benchmark_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rubric_eval.records import EvalFolder, EvalRun, Measured


class TransferCell(BaseModel):
    """One model on one benchmark."""

    model_config = FROZEN

    benchmark: str
    title: str
    n: int
    """Items."""

    accuracy: float
    """Of items with an answer, averaged over seeds."""

    ci_low: float | None
    ci_high: float | None
    """Wilson's interval for one seed, a BCa bootstrap over items for several; as `compare` has."""

    chance: float | None
    is_above_chance: bool | None
    """Whether the whole interval is; a gain from chance may be format alone."""

    no_answer_frac: float | None
    truncated_frac: float | None
    unavailable_frac: float
    tokens_mean: float | None


class TransferRow(BaseModel):
    """One model."""

    model_config = FROZEN

    model: str
    cells: tuple[TransferCell, ...]
    average: float
    """Mean accuracy over benchmarks."""

    average_delta: float | None
    """Mean difference from the first model over benchmarks, on items that both answered."""


class TransferTable(BaseModel):
    """Table 2, without tests: `rubric-eval compare` says which differences are more than luck."""

    model_config = FROZEN

    suite: str
    base: str
    """The first model, which differences are from."""

    confidence: float
    rows: tuple[TransferRow, ...]


def transfer_table(folder: EvalFolder, run: EvalRun, *, confidence: float = 0.95) -> TransferTable:
    """Read the table from an evaluation's items.

    Args:
        folder: of the evaluation.
        run: its manifest.
        confidence: of the intervals.

    Raises:
        EvalFolderError, RubricFileError: rows that do not fit; see `read_transfer`.
    """
    measured: dict[str, list[Measured]] = {}
    with refusing_edits() as edits:
        for one in read_benchmarks(folder, run, edits):
            measured.setdefault(one.model, []).append(one)
    base = run.models[0].name
    return TransferTable(
        suite=run.suite,
        base=base,
        confidence=confidence,
        rows=tuple(_row(name, measured, base, confidence) for name in measured),
    )


def _row(
    name: str, measured: Mapping[str, Sequence[Measured]], base: str, confidence: float
) -> TransferRow:
    cells = tuple(_cell(one, confidence) for one in measured[name])
    deltas = [_delta(a, b) for a, b in zip(measured[base], measured[name], strict=True)]
    known = [delta for delta in deltas if delta is not None]
    return TransferRow(
        model=name,
        cells=cells,
        average=sum(cell.accuracy for cell in cells) / len(cells),
        average_delta=sum(known) / len(known) if known and name != base else None,
    )


def _cell(one: Measured, confidence: float) -> TransferCell:
    interval = score_interval(
        _means(one),
        clusters_N=one.clusters,
        is_accuracy=True,
        answers=len(one.values_NK[0]),
        confidence=confidence,
    )
    benchmark = benchmark_of(one.benchmark)
    return TransferCell(
        benchmark=one.benchmark,
        title=benchmark.title if benchmark else one.benchmark,
        n=len(one.ids),
        accuracy=interval.mean,
        ci_low=interval.ci_low,
        ci_high=interval.ci_high,
        chance=one.chance,
        is_above_chance=None if one.chance is None else interval.is_above(one.chance),
        no_answer_frac=one.no_answer_frac,
        truncated_frac=one.truncated_frac,
        unavailable_frac=one.unavailable_frac,
        tokens_mean=one.tokens_mean,
    )


def _delta(a: Measured, b: Measured) -> float | None:
    pairs = zip(_means(a), _means(b), strict=True)
    differences = [y - x for x, y in pairs if x is not None and y is not None]
    return sum(differences) / len(differences) if differences else None


def _means(one: Measured) -> list[float | None]:
    means: list[float | None] = []
    for values_K in one.values_NK:
        known = [value for value in values_K if value is not None]
        means.append(sum(known) / len(known) if known else None)
    return means
