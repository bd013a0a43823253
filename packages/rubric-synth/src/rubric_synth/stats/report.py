"""Statistics of a dataset, as `stats.json` holds them, and how numbers are gathered."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import Field

from rubric_judge.ui.page.charts import nice_step
from rubric_synth.config import Frozen, Stage
from rubric_synth.lookup.recall import ContextCounts
from rubric_synth.run.dataset.folder import Usage

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray


class Histogram(Frozen):
    """Counts of the numbers between each edge and the next."""

    edges: tuple[float, ...]
    """Rising edges, one more than the counts."""
    counts: tuple[int, ...]
    """Counts of the numbers from each edge up to the next, the next excluded."""
    has_tail: bool = False
    """Whether the last count holds all that lies above its lower edge."""
    is_whole: bool = False
    """Whether each count is of one whole number."""


class Spread(Frozen):
    """Range, mean and percentiles of some numbers."""

    min: float
    """Least number."""
    p5: float
    """Number that 5 % lie below."""
    median: float
    """Number that half lie below."""
    mean: float
    """Mean of the numbers."""
    p95: float
    """Number that 95 % lie below."""
    max: float
    """Greatest number."""
    histogram: Histogram
    """Histogram of the numbers."""


class Coverage(Frozen):
    """Which share of a task's terms occurs in one of its texts."""

    tasks: int
    """Tasks that have such terms."""
    mean: float
    """Mean share over these tasks."""
    complete_frac: float
    """Share of these tasks all of whose terms occur."""
    histogram: Histogram
    """Histogram of the shares."""


class DatasetStatistics(Frozen):
    """Statistics of a dataset folder: numbers, names and ids, no text of a passage or criterion."""

    documents_collected: int
    """Documents that the dataset was made of."""
    documents_accepted: int
    """Documents with at least one task."""
    documents_rejected: int
    """Documents without a task."""
    documents_pending: int
    """Documents that have not been worked on yet."""
    tasks: dict[str, int]
    """Tasks by split."""
    documents: dict[str, int]
    """Documents by split."""
    task_kinds: dict[str, int]
    """Tasks by the checks that a program can execute: code, quantitative or open."""
    criteria_per_task: dict[int, int]
    """Tasks by their number of criteria."""
    criteria: dict[str, int]
    """Tasks by criterion id; the most frequent."""
    weights: dict[str, int]
    """Criteria by weight; the most frequent."""
    verification: dict[str, int]
    """Criteria by the first word of their verification method; "free text" where none executes."""
    total_weight: Spread
    """W, the sum of a rubric's weights."""
    effective_criteria: Spread
    """M_eff = W² / Σ w_j²."""
    question_words: Spread
    """Words of questions."""
    passage_words: Spread
    """Words of passages."""
    reference_words: Spread
    """Words of reference answers."""
    criterion_words: Spread
    """Words of all parts of a criterion."""
    coverage: dict[str, Coverage]
    """Shares of keywords and required elements that occur in the passage and in the reference
    answer."""
    genres: dict[str, int]
    """Tasks by kind of document; the most frequent."""
    depths: dict[str, int]
    """Tasks by technical depth; the most frequent."""
    reasoning_modes: dict[str, int]
    """Tasks by mode of reasoning; the most frequent."""
    concepts: dict[str, int]
    """Tasks by central concept; the most frequent."""
    rejected: dict[str, int]
    """Left-out documents and drafts, by reason."""
    rejected_by_stage: dict[Stage, dict[str, int]]
    """The same, by stage and reason."""
    context: ContextCounts | None = Field(
        default=None, exclude_if=lambda counts: counts is None
    )
    """Counts over the contexts of the tasks; None for a closed-book dataset."""
    usage: Usage
    """Calls, tokens and costs, by stage and in total."""
    controls: dict[str, float]
    """Mean reward of answers that should or should not score well."""
    control_tasks: int
    """Tasks behind these means: all, or a sample with a fixed seed."""
    control_judge: str
    """Name of the judge that scored the controls."""
    control_failures: int = 0
    """Answers that the judge could not score: the means leave them out."""
    written_answers: dict[str, int] = Field(default_factory=dict[str, int])
    """Questions that somebody has written an answer to, by control: its mean is over these."""
    strange_answers: int = 0
    """Written answers beside the tasks that belong to none of them."""
    copied_answers: int = 0
    """Written right answers that repeat a dozen words in a row of passage or reference answer."""
    unread_criteria: int = 0
    """Criteria in free text or unit tests, where that judge looks for words alone; 0 otherwise."""
    unreadable_rejections: int = 0
    """Damaged lines of rejected.jsonl, which were skipped."""


_WHOLE_BINS = 30
_STEPS = (1.0, 2.0, 5.0, 10.0)
_SHARE_BINS = 10
_FUZZ = 1e-9
_MOST_NAMES = 20_000


def spread(numbers: array[float]) -> Spread:
    """Return range, mean and percentiles of at least one number."""
    import numpy as np  # heavy

    # As the page writes them, so that a number on an edge is where it is read to be.
    values = np.array([float(f"{number:.6g}") for number in numbers])
    percentiles = np.percentile(values, [5, 50, 95, 99])
    p5, median, p95, p99 = (float(percentile) for percentile in percentiles)
    return Spread(
        min=float(values.min()),
        p5=p5,
        median=median,
        mean=float(values.mean()),
        p95=p95,
        max=float(values.max()),
        histogram=_histogram(values, p99),
    )


def coverage(shares: array[float]) -> Coverage:
    """Return mean and histogram of shares in [0, 1]; 0 where there are none."""
    tasks = max(len(shares), 1)
    counts = Counter(min(int(share * _SHARE_BINS), _SHARE_BINS - 1) for share in shares)
    histogram = Histogram(
        edges=tuple(number / _SHARE_BINS for number in range(_SHARE_BINS + 1)),
        counts=tuple(counts[number] for number in range(_SHARE_BINS)),
    )
    return Coverage(
        tasks=len(shares),
        mean=sum(shares) / tasks,
        complete_frac=shares.count(1.0) / tasks,
        histogram=histogram,
    )


class Names:
    """Counter of names that forgets the rare ones where there are very many."""

    def __init__(self) -> None:
        """Begin without a name."""
        self._counts: Counter[str] = Counter()

    def add(self, names: Iterable[str]) -> None:
        """Count each name once."""
        self._counts.update(names)
        if len(self._counts) > 2 * _MOST_NAMES:
            self._counts = Counter(dict(self._counts.most_common(_MOST_NAMES)))

    def most(self, limit: int = 40) -> dict[str, int]:
        """Return the counts of the most frequent names, the most frequent first."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return dict(ordered[:limit])


def _histogram(values: NDArray[float64], p99: float) -> Histogram:
    import numpy as np

    low = float(values.min())
    high = float(values.max())
    is_whole = bool((values == np.floor(values)).all())
    if is_whole and high - low < _WHOLE_BINS:
        edges = np.arange(low, high + 2)
    else:
        least = 1.0 if is_whole else 0.0
        step = nice_step(max((p99 - low) / 24, least) or 1.0, _STEPS)
        first = math.floor(low / step) * step
        bins = max(1, math.floor((p99 - first) / step + _FUZZ) + 1)
        edges = first + step * np.arange(bins + 1)
    edges = np.array([float(f"{edge:.6g}") for edge in edges])
    inside = np.minimum(values, (edges[-2] + edges[-1]) / 2)
    counts, _ = np.histogram(inside, bins=edges)
    return Histogram(
        edges=tuple(map(float, edges)),
        counts=tuple(int(count) for count in counts),
        has_tail=high >= edges[-1],
        is_whole=is_whole and edges[1] - edges[0] == 1,
    )
