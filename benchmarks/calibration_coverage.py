"""Whether what `rubric-judge calibrate` promises holds, on judges of known error.

Each check plants a judge and labels many times over. Of a 95 % interval it counts how often the
truth is held; the violation is what that share lacks to 93 %, over the nominal 95 %. Intervals of
few documents are wide on purpose: a share above 97 % is no violation, and widths are told.
Of a cascade it counts how often the true risk is above α; the violation is what that share has
above the promised δ, over δ. The same holds for the calls that a cascade may put to its last judge.
Labels of one model's answers must be refused for another's.

    uv run python benchmarks/calibration_coverage.py [--quick] [--json PATH]

All 2,000 repetitions are held to just that. The fewer of --quick may stray from it by chance: there
a share is a violation only beyond three standard errors. Rewards have a fifth of the repetitions
and agreement a fiftieth, always with four standard errors beside the two points: of 400 repetitions
a share from 88.6 % on is no violation, of 40 one from 79.2 % on.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from planted.cascade import DELTA, KNOWN, check_cascade
from planted.ppi import DESIGNS as CORRECTED
from planted.ppi import check_ppi
from planted.rewards import Coverage, check_rewards
from record import finish
from rich.console import Console
from rich.table import Table

from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_judge.quality.labels.rows import LabelSource
from rubric_judge.quality.labels.sampling import draw
from rubric_judge.quality.reliability.intervals import Intervals
from rubric_judge.quality.reliability.rates import Rates, confusion, youden
from rubric_judge.statistics.estimate import Estimate

CLAIM = (
    "95 % intervals hold the truth in at least 93 % of studies, whoever the judge is; a "
    "cascade's risk is above α in at most δ of calibrations, and half of its last calls are saved"
)
TARGET = 0.0
NOMINAL, SLACK = 0.95, 0.02
REPETITIONS, QUICK = 2000, 500
REWARDED, AGREED = 5, 10
"""Repetitions over those of rewards, and those over the ones of agreement, which are slow."""
CALLS = 0.5
"""Share of the responses that a cascade may put to the last judge, at α = .1."""

Check: TypeAlias = Callable[[int, np.random.Generator], float]
"""From a number of repetitions to a violation, 0 for none."""


@dataclass(frozen=True)
class Planted:
    """A judge of known error and the labels that it is held against."""

    documents: int
    most: int
    """Responses of a document: from 1 to this many."""
    met: float
    """Share that people call met."""
    tpr: float
    fpr: float
    together: float
    """Intraclass correlation of the judge's decisions within a document."""


DESIGNS = {
    "60 single labels": Planted(60, 1, 0.4, 0.8, 0.3, 0.0),
    "150 single labels, a good judge": Planted(150, 1, 0.5, 0.93, 0.1, 0.0),
    "25 documents": Planted(25, 8, 0.4, 0.75, 0.3, 0.1),
    "60 documents": Planted(60, 8, 0.5, 0.8, 0.2, 0.2),
    "60 documents, J = 0": Planted(60, 8, 0.3, 0.4, 0.4, 0.2),
    "100 documents, rarely met": Planted(100, 8, 0.15, 0.7, 0.15, 0.1),
}
QUANTITIES = ("TPR", "FPR", "J", "bias")


@dataclass(frozen=True)
class Drawn:
    """Responses of which some are drawn by a judge's scores, and few meet the last criterion."""

    responses: int
    labels: int
    """Of each criterion."""
    criteria: int
    met: float
    tpr: float
    fpr: float


DRAWS = {
    "1,000 responses, 200 drawn": Drawn(1000, 200, 8, 0.15, 0.6, 0.1),
}


def main() -> None:
    """Run every check and print the worst violation."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} repetitions")
    options = parser.parse_args()
    repetitions = QUICK if options.quick else REPETITIONS
    found = {
        name: check(repetitions, np.random.default_rng(seed))
        for seed, (name, check) in enumerate(CHECKS)
    }
    cascade = check_cascade(repetitions, np.random.default_rng(20261))
    corrected = check_ppi(repetitions, np.random.default_rng(20231101453))
    rewarded = max(repetitions // REWARDED, 1)
    rewards = check_rewards(rewarded, np.random.default_rng(2026))
    found |= of_cascades(cascade, repetitions) | of_corrections(corrected, repetitions)
    found |= of_rewards(rewards, rewarded)
    value = max(found.values())
    result: dict[str, Any] = {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at most",
        "passed": value <= TARGET,
        "details": {
            "repetitions": repetitions,
            "coverage_allowed": [
                NOMINAL - slack(repetitions),
                NOMINAL + slack(repetitions),
            ],
            "violations": found,
            "cascade": cascade,
            "corrected": corrected,
            "rewards": {name: one._asdict() for name, one in rewards.items()},
        },
    }
    table = Table("check", "violation")
    for name, violation in found.items():
        if violation or name not in rewards:
            table.add_row(name, f"{violation:.4f}")
    table.add_row(f"the others of {len(rewards)} of rewards and agreement", "0.0000")
    Console(width=100).print(table)
    allowed = f"coverage within {slack(repetitions):.3f} of {NOMINAL}, {repetitions} repetitions"
    print(f"{value:.4f} (target {TARGET}; {allowed}): {result['passed']=}")
    finish(result, options.json)


def covers(
    planted: Planted, quantity: str, repetitions: int, rng: np.random.Generator
) -> float:
    """Return how far the coverage of one quantity is from its nominal one."""
    truth = {
        "TPR": planted.tpr,
        "FPR": planted.fpr,
        "J": planted.tpr - planted.fpr,
        "bias": planted.met * planted.tpr
        + (1 - planted.met) * planted.fpr
        - planted.met,
    }[quantity]
    return violation(
        [_holds(estimate(planted, quantity, rng), truth) for _ in range(repetitions)]
    )


def counted(quantity: str, repetitions: int, rng: np.random.Generator) -> float:
    """Return the same for a confusion matrix of independent decisions."""
    truth = {"TPR": 0.8, "FPR": 0.3, "J": 0.5}[quantity]
    held: list[bool] = []
    for _ in range(repetitions):
        positives = int(rng.binomial(80, 0.4))
        tp, fp = (
            int(rng.binomial(positives, 0.8)),
            int(rng.binomial(80 - positives, 0.3)),
        )
        rates = youden(tp, fp, positives - tp, 80 - positives - fp)
        held.append(
            _holds(dict(zip(QUANTITIES, rates[:3], strict=False))[quantity], truth)
        )
    return violation(held)


def estimate(planted: Planted, quantity: str, rng: np.random.Generator) -> Estimate:
    """Draw labels and a judge's scores, and estimate a quantity as the command does."""
    sizes = rng.integers(1, planted.most + 1, planted.documents)
    document_N = np.repeat(np.arange(planted.documents), sizes)
    label_N = (rng.random(len(document_N)) < planted.met).astype(np.float64)
    # A document makes both classes easier to call met, by a beta distribution with this mean.
    level_D = rng.random(planted.documents)
    called = np.where(
        label_N > 0,
        _of_document(planted.tpr, planted.together, level_D)[document_N],
        _of_document(planted.fpr, planted.together, level_D)[document_N],
    )
    judge_N = (rng.random(len(document_N)) < called).astype(np.float64)
    names = [str(one) for one in document_N]
    intervals = Intervals(names, names, resamples=1, confidence=NOMINAL, seed=0)
    if quantity == "bias":
        return intervals.bias(judge_N - label_N, np.arange(len(label_N)))
    rates = intervals.rates(confusion(judge_N[:, None, None], label_N[:, None]))
    return dict(zip(QUANTITIES, rates[:3], strict=False))[quantity]


def drawn(planted: Drawn, repetitions: int, rng: np.random.Generator) -> float:
    """Return the worst of TPR, FPR and J where the responses were drawn by the judge's score."""
    truth = {"TPR": planted.tpr, "FPR": planted.fpr, "J": planted.tpr - planted.fpr}
    found = [drawn_rates(planted, rng) for _ in range(repetitions)]
    return max(
        violation([_holds(one[place], truth[name]) for one in found])
        for place, name in enumerate(QUANTITIES[:3])
    )


def drawn_rates(
    planted: Drawn, rng: np.random.Generator, *, weighed: bool = True
) -> Rates:
    """Draw responses as `rubric-judge label --judgements` does, and estimate the rates."""
    label_N = (rng.random(planted.responses) < planted.met).astype(np.float64)
    says_N = rng.random(planted.responses) < np.where(
        label_N > 0, planted.tpr, planted.fpr
    )
    source = _source(planted.responses, planted.criteria)
    level_NM = rng.integers(0, 3, (planted.responses, planted.criteria))
    level_NM[:, -1] = 2 * says_N
    names_M = [f"c{m}" for m in range(planted.criteria)]
    levels = {
        line: dict(zip(names_M, level_M, strict=True))
        for line, level_M in enumerate(level_NM.tolist(), 1)
    }
    count = planted.labels * planted.criteria
    some = draw(source, levels, count=count, seed=int(rng.integers(2**31)))
    place_N = np.array([one.line - 1 for one in some])
    inclusion_N = np.array([one.inclusion for one in some])
    names = [str(one) for one in place_N]
    weights_N = inclusion_N.min() / inclusion_N if weighed else None
    intervals = Intervals(
        names, names, resamples=1, confidence=NOMINAL, seed=0, weights_N=weights_N
    )
    judge_NRM = says_N[place_N].astype(np.float64)[:, None, None]
    return intervals.rates(confusion(judge_NRM, label_N[place_N, None]))


@cache
def _source(responses: int, criteria: int) -> LabelSource:
    rubric = Rubric(
        criteria=tuple(Criterion(id=f"c{m}", weight=1.0) for m in range(criteria))
    )
    task = Task(question="Which?", grounding=Grounding("A passage."), rubric=rubric)
    view = task.judge_view("An answer.")
    return LabelSource({}, dict.fromkeys(range(1, responses + 1), view))


def of_rewards(found: dict[str, Coverage], repetitions: int) -> dict[str, float]:
    """Return what intervals that are wide on purpose lack to their nominal coverage."""
    return {
        name: max(NOMINAL - one.held - slack_of(name, repetitions), 0.0) / NOMINAL
        for name, one in found.items()
    }


def slack_of(name: str, repetitions: int) -> float:
    """Return the claimed 2 points, and what these repetitions may add by chance.

    There are hundreds of checks, so that four standard errors are allowed.
    """
    times = (
        repetitions // AGREED if name.startswith(("Krippendorff", "κ")) else repetitions
    )
    return SLACK + 4 * float(np.sqrt(NOMINAL * (1 - NOMINAL) / max(times, 1)))


def violation(held: list[bool]) -> float:
    """Return what a coverage lacks to 93 %, over the nominal 95 %."""
    return uncovered(sum(held) / len(held), len(held))


def uncovered(share: float, repetitions: int) -> float:
    """Return the same of a coverage that was counted already."""
    return max(NOMINAL - share - slack(repetitions), 0.0) / NOMINAL


def exceeded(share: float, promised: float, repetitions: int) -> float:
    """Return what a share has above the promised one, over that."""
    return max(share - promised - chance(promised, repetitions), 0.0) / promised


def slack(repetitions: int) -> float:
    """Return how far a coverage may be from 95 %: the claimed 2 points, or more by chance."""
    return max(SLACK, chance(NOMINAL, repetitions))


def chance(share: float, repetitions: int) -> float:
    """Return three binomial standard errors of a share, 0 of all repetitions."""
    return (
        3
        * float(np.sqrt(share * (1 - share) / repetitions))
        * (repetitions < REPETITIONS)
    )


def of_cascades(
    plants: dict[str, dict[str, float]], repetitions: int
) -> dict[str, float]:
    """Return the violations of cascades: the risk of each plant, and the calls of the known one."""
    risks = {
        name: exceeded(one["violations"], DELTA, repetitions)
        for name, one in plants.items()
    }
    calls = max(plants[KNOWN]["escalated"] - CALLS, 0.0) / CALLS
    named = {f"cascade, risk: {name}": risk for name, risk in risks.items()}
    return named | {"cascade, calls to the last judge": calls}


def of_corrections(shares: dict[str, float], repetitions: int) -> dict[str, float]:
    """Return the violations of corrected means, and of the refusals of other models' answers."""
    found = {
        f"corrected: {name}": uncovered(shares[name], repetitions) for name in CORRECTED
    }
    return found | {"corrected, another model's answers": 1 - shares["refused"]}


def _of_document(mean: float, together: float, level_D: np.ndarray[Any, Any]) -> Any:
    if not together:
        return np.full(len(level_D), mean)
    from scipy import stats

    spread = 1 / together - 1
    return stats.beta.ppf(level_D, mean * spread, (1 - mean) * spread)


def _holds(found: Estimate, truth: float) -> bool:
    return (
        found.low is not None
        and found.high is not None
        and found.low <= truth <= found.high
    )


CHECKS: list[tuple[str, Check]] = [
    *((f"counts: {name}", partial(counted, name)) for name in QUANTITIES[:3]),
    *(
        (f"{title}: {name}", partial(covers, design, name))
        for title, design in DESIGNS.items()
        for name in QUANTITIES
    ),
    *(
        (f"drawn by the score: {title}", partial(drawn, one))
        for title, one in DRAWS.items()
    ),
]


if __name__ == "__main__":
    main()
