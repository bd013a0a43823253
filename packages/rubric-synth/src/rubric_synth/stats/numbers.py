"""Numbers and names gathered one at a time, in little memory."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Final

from rubric_synth.stats.report import Coverage, Histogram, Spread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy import float64
    from numpy.typing import NDArray

_BINS: Final = 24
_WHOLE_BINS: Final = 30
_STEPS: Final = (1.0, 2.0, 5.0, 10.0)
_SHARE_BINS: Final = 10
_FUZZ: Final = 1e-9
_MOST_NAMES: Final = 20_000
_SHOWN_NAMES: Final = 40


class Numbers:
    """Numbers of one kind."""

    def __init__(self) -> None:
        """Begin without one."""
        self._values = array("d")

    def add(self, value: float) -> None:
        """Take one number."""
        self._values.append(value)

    def spread(self) -> Spread:
        """Return where they lie; there is at least one."""
        import numpy as np  # heavy

        values = np.frombuffer(self._values, dtype=np.float64)
        p5, median, p95, p99 = (float(q) for q in np.percentile(values, [5, 50, 95, 99]))
        return Spread(
            min=float(values.min()),
            p5=p5,
            median=median,
            mean=float(values.mean()),
            p95=p95,
            max=float(values.max()),
            histogram=_histogram(values, p99),
        )


class Shares:
    """Shares in [0, 1] of tasks that have anything to share."""

    def __init__(self) -> None:
        """Begin without one."""
        self._counts = [0] * _SHARE_BINS
        self._sum = 0.0
        self._tasks = self._complete = 0

    def add(self, part: int, whole: int) -> None:
        """Take one task's share; none where there is nothing to share."""
        if not whole:
            return
        share = part / whole
        self._counts[min(int(share * _SHARE_BINS), _SHARE_BINS - 1)] += 1
        self._sum += share
        self._tasks += 1
        self._complete += part == whole

    def coverage(self) -> Coverage:
        """Return their mean and histogram; 0 where no task had any."""
        tasks = max(self._tasks, 1)
        edges = tuple(number / _SHARE_BINS for number in range(_SHARE_BINS + 1))
        return Coverage(
            tasks=self._tasks,
            mean=self._sum / tasks,
            complete_frac=self._complete / tasks,
            histogram=Histogram(edges=edges, counts=tuple(self._counts)),
        )


class Names:
    """How often each name occurs; of very many different ones, the rare are forgotten."""

    def __init__(self) -> None:
        """Begin without one."""
        self._counts: Counter[str] = Counter()

    def add(self, names: Iterable[str]) -> None:
        """Count each name once."""
        self._counts.update(names)
        if len(self._counts) > 2 * _MOST_NAMES:
            self._counts = Counter(dict(self._counts.most_common(_MOST_NAMES)))

    def most(self, limit: int = _SHOWN_NAMES) -> dict[str, int]:
        """Return the most frequent, the first of them first."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return dict(ordered[:limit])


def _histogram(values: NDArray[float64], p99: float) -> Histogram:
    import numpy as np

    low, high = float(values.min()), float(values.max())
    is_whole = bool((values == np.floor(values)).all())
    if is_whole and high - low < _WHOLE_BINS:
        edges = np.arange(low, high + 2)
    else:
        step = _nice((p99 - low) / _BINS, at_least=1.0 if is_whole else 0.0)
        first = math.floor(low / step) * step
        bins = max(1, math.floor((p99 - first) / step + _FUZZ) + 1)
        edges = first + step * np.arange(bins + 1)
    inside = np.minimum(values, (edges[-2] + edges[-1]) / 2)
    counts, _ = np.histogram(inside, bins=edges)
    return Histogram(
        edges=tuple(float(f"{edge:.6g}") for edge in edges),
        counts=tuple(int(count) for count in counts),
        has_tail=high >= edges[-1],
        is_whole=is_whole and edges[1] - edges[0] == 1,
    )


def _nice(step: float, *, at_least: float) -> float:
    """Return the least of 1, 2, 5, 10, 20 … and their tenths that is no less than the step."""
    step = max(step, at_least)
    if step <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in _STEPS if factor * power >= step * (1 - _FUZZ))
