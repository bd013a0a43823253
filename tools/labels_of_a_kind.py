"""How many labels a kind of criterion needs before a judge is admitted to it.

    uv run python tools/labels_of_a_kind.py

Plants judges that agree with people so often, on criteria that so many responses meet, with two
labels a document, and calibrates each on more and more labels until nine studies in ten put the
whole interval of J above the default bound. Prints the table of docs/judge/calibrate.md.
"""

from collections.abc import Iterator

import numpy as np

from rubric_judge.quality.calibration.measure import Settings
from rubric_judge.quality.reliability.rates import Confusion, clustered_rates

AGREEMENTS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
MET = (0.5, 0.2, 0.1)
SIZES = (10, 16, 20, 30, 40, 60, 80, 100, 150, 200, 300, 400, 600, 800)
STUDIES, ADMITTED = 100, 0.9
OF_DOCUMENT = 2


def admitted_frac(labels: int, agreement: float, met: float) -> float:
    """Share of studies of so many labels that admit the judge."""
    rng = np.random.default_rng(0)
    shape = labels // OF_DOCUMENT, OF_DOCUMENT
    admitted = 0
    for _ in range(STUDIES):
        is_met = rng.random(shape) < met
        says = is_met == (rng.random(shape) < agreement)
        counts = (is_met & says, ~is_met & says, is_met & ~says, ~is_met & ~says)
        decided = Confusion(*(one.sum(axis=1).astype(float) for one in counts))
        low = clustered_rates(decided).youden_j.low
        admitted += low is not None and low > Settings().bound
    return admitted / STUDIES


def needed(agreement: float, met: float) -> str:
    """Return the fewest labels of `SIZES` that do."""
    enough = (n for n in SIZES if admitted_frac(n, agreement, met) >= ADMITTED)
    found = next(enough, None)
    return f"more than {SIZES[-1]}" if found is None else str(found)


def rows() -> Iterator[str]:
    """Return the lines of the table."""
    yield (
        "| judge agrees in | J | " + " | ".join(f"{met:.0%} met" for met in MET) + " |"
    )
    yield "|---|" + "---:|" * (len(MET) + 1)
    for agreement in AGREEMENTS:
        cells = " | ".join(needed(agreement, met) for met in MET)
        yield f"| {agreement:.0%} | {2 * agreement - 1:.2f} | {cells} |"


if __name__ == "__main__":
    for line in rows():
        print(line)
