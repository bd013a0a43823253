"""Weights of Harbor's tests: folders of judge files, and each criterion's part of `reward`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from rubric_core.errors import RubricFileError
from rubric_core.formats.draft import Points
from rubric_core.formats.rewardkit import (
    MEAN,
    SUM,
    linear_aggregation,
    read_judge_file,
)
from rubric_core.formats.row import Row

REWARD = "reward"
"""The `[[reward]]` that counts at the top; others make other numbers."""
_WHOLE = 100.0
"""Sum of the weights of a rubric out of several files, so that each of them is a percentage."""


@dataclass(slots=True)
class JudgeGroup:
    """One folder of tests: judge files, folders and the weights of both."""

    path: Path
    judges: dict[str, Row] = field(default_factory=dict[str, Row])
    groups: dict[str, "JudgeGroup"] = field(default_factory=dict[str, "JudgeGroup"])
    programs: set[str] = field(default_factory=set[str])
    reward: Row | None = None

    def count(self) -> int:
        """Return how many judge files are in it, at any depth."""
        return len(self.judges) + sum(group.count() for group in self.groups.values())

    def without_empty(self) -> "JudgeGroup":
        """Return a copy without the folders that hold no judge file; these count as programs."""
        kept: dict[str, JudgeGroup] = {}
        programs = set(self.programs)
        for name, group in self.groups.items():
            if group.count():
                kept[name] = group.without_empty()
                continue
            programs |= {name, *group.programs}
            if group.reward is not None:
                group.reward.leave_out("reward", "program")
        return JudgeGroup(self.path, self.judges, kept, programs, self.reward)

    def all_judges(self) -> Iterator[Row]:
        """Return the judge files in it, at any depth."""
        inner = (group.all_judges() for group in self.groups.values())
        return chain(self.judges.values(), *inner)

    def all_programs(self) -> set[str]:
        """Return the names of the programs in it, at any depth."""
        inner = (group.all_programs() for group in self.groups.values())
        return self.programs.union(*inner)


def weighted_criteria(group: JudgeGroup, spec: Row | None) -> Iterator[Points]:
    """Return all criteria, each with its part of `reward`; a single file's as they stand.

    Args:
        group: all tests of a task.
        spec: what `reward_of` returns of it.

    Raises:
        RubricFileError: a weight of no part, or one that is negative in a mean.
    """
    is_mean = group.count() > 1
    return _parts(group, spec, _WHOLE if is_mean else 1.0, is_mean=is_mean)


def _parts(
    group: JudgeGroup, spec: Row | None, share: float, *, is_mean: bool
) -> Iterator[Points]:
    """Yield the criteria of a group.

    Args:
        group: a folder of tests.
        spec: the `[[reward]]` that weighs its parts, if there is one.
        share: what all its criteria together are of the whole.
        is_mean: whether weighted means are divided by their weights; see `read_judge_file`.
    """
    weights = _weights(group, spec)
    how = MEAN if spec is None else linear_aggregation(spec, "aggregation")
    if how == MEAN and min(weights.values()) < 0:
        problem = f"a weight is negative, which only {SUM!r} may have"
        raise RubricFileError(problem, path=group.path)
    total = sum(weights.values()) if how == MEAN else 1.0
    for name, weight in weights.items():
        part = share * weight / total if total else 0.0
        if name in group.groups:
            inner = group.groups[name]
            inner_spec = reward_of(inner, is_root=False)
            yield from _parts(inner, inner_spec, part, is_mean=is_mean)
        else:
            row = group.judges[name]
            aggregation = linear_aggregation(row, "scoring.aggregation")
            yield from read_judge_file(
                row, share=part, is_mean=is_mean, aggregation=aggregation
            )


def reward_of(group: JudgeGroup, *, is_root: bool) -> Row | None:
    """Return the `[[reward]]` that weighs a group, if it has one.

    At the top it is the one named `reward`: others make other numbers, and are left out. A folder
    below may have one alone.

    Raises:
        RubricFileError: two tables that count.
    """
    row = group.reward
    if row is None or row.get("reward") is None:
        return None
    chosen = None
    for place, spec in enumerate(row.rows("reward")):
        if is_root and spec.get("name") != REWARD:
            row.leave_out(f"reward.{place}", "reward")
            continue
        if chosen is not None:
            raise row.error("must have one table that counts", "reward")
        spec.maybe_text("name")
        chosen = spec
    return chosen


def _weights(group: JudgeGroup, spec: Row | None) -> dict[str, float]:
    """Return the weight of each judge file and folder in a group."""
    weights = dict.fromkeys(group.groups, 1.0)
    for name, row in group.judges.items():
        weights[name] = (
            1.0 if row.get("judge.weight") is None else row.number("judge.weight")
        )
    if spec is None or spec.get("weights") is None:
        return weights
    own_weights = spec.inner("weights")
    for name in own_weights.fields:
        part = name.replace(".", "_")
        number = own_weights.number(name)
        if part in weights:
            weights[part] = number
        elif name not in group.programs:
            known = ", ".join(map(repr, sorted({*weights, *group.programs})))
            raise own_weights.error(
                f"is no part of these tests, which are {known}", name
            )
    return weights
