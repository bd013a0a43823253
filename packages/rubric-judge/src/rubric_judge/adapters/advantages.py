"""Advantages by criterion for the trainers of other stacks, where each prompt has its own rubric.

Other stacks normalise rewards whose names are fixed for a whole run. Here the scores of a response
travel as one text, `rubric/judgement`, and the mathematics is that of `rubric_core.reward`. One
module for each stack, such as `verl_advantages`, puts it in the place of that stack's own.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core import ConfigError, Outcome, RewardShapeError, SchemaError
from rubric_core.arrays import FloatArray
from rubric_core.configuration import validated
from rubric_core.plugins.entry_points import plugin_names
from rubric_core.reward.estimates import estimated_advantages
from rubric_core.reward.estimators import (
    ADVANTAGES,
    AdvantageConfig,
    AdvantageEstimator,
    GroupAdvantages,
    JudgedGroups,
)
from rubric_judge.adapters.scoring import Judgement, stack_module
from rubric_judge.adapters.ties import tied_reward
from rubric_judge.quality.criteria.record import RECORD, JudgementRecord

KEY = f"rubric/{RECORD}"
"""Name of the record in what a stack carries beside a reward."""
PREFIX = "rubric_"
"""Prefix of the names that estimators have in stacks: `rubric_decoupled`, `rubric_group`."""

Record = JudgementRecord | str | None
"""A judgement's scores by criterion, also as its JSON; None for a response that nobody judged."""
Estimator = AdvantageEstimator | Mapping[str, object] | str
"""An estimator, its settings, such as `{"estimator": "group", "std": "none"}`, or its name."""

_SAME = 1e-9
"""Largest difference between shares of one rubric, which JSON keeps to the last bit."""
_FEWEST = 2
_HOOK = "rubric_hook"


class BatchAdvantages(NamedTuple):
    """The advantages of N rows of a trainer's batch."""

    advantages_N: FloatArray
    """0 where there is no judgement, and in groups that do not differ."""
    rewards_N: FloatArray
    """The judge's rewards in a trainer's bits (`ties`); nan where there is no judgement."""

    @property
    def judged_N(self) -> list[bool]:
        """Whether each row has a reward; one that has none is to be left out of the loss."""
        return (~np.isnan(self.rewards_N)).tolist()


class _Settings(BaseModel):
    """The estimator as a configuration, for its errors."""

    model_config = ConfigDict(extra="forbid")

    advantage: AdvantageConfig


def estimator_of(estimator: Estimator) -> AdvantageEstimator:
    """Return an estimator of advantages by its name or settings.

    Raises:
        ConfigError: no such estimator is installed, or a setting that it does not have.
    """
    if isinstance(estimator, AdvantageEstimator):
        return estimator
    settings = {"estimator": estimator} if isinstance(estimator, str) else estimator
    return validated(_Settings, {"advantage": settings}, source="estimator").advantage


def stack_estimators() -> dict[str, str]:
    """Return the installed estimators' names by the names that stacks are given for them."""
    return {f"{PREFIX}{name}": name for name in plugin_names(ADVANTAGES)}


def is_ours(estimator: object) -> bool:
    """Return whether a stack's name of an estimator is one of `stack_estimators`."""
    return str(estimator) in stack_estimators()


def undivided(estimator: AdvantageEstimator, *, divides: bool) -> AdvantageEstimator:
    """Return the estimator under a stack's own switch of division by a group's deviation.

    Args:
        estimator: `group` is changed; no other has a deviation of rewards to divide by.
        divides: False for R − b alone, leave-one-out in its plain form.
    """
    if divides or not isinstance(estimator, GroupAdvantages):
        return estimator
    return estimator.model_copy(update={"std": "none"})


def batch_advantages(
    records: Sequence[Record],
    groups: Sequence[Hashable],
    *,
    estimator: Estimator = "decoupled",
    rollouts: Sequence[Hashable] | None = None,
) -> BatchAdvantages:
    """Return the advantages of a batch whose prompts have rubrics of their own.

    An invalid judgement counts with 0 for every criterion; an unavailable one, and a response that
    nobody judged, is left out of its group and gets 0.

    Args:
        records: the judgement of each of N rows.
        groups: key of each row's prompt, in any order; None for a row of padding.
        estimator: the estimator; "decoupled" normalises each criterion within its group.
        rollouts: key of each row's rollout where one rollout became several rows: it counts once,
            and all its rows get its advantage. None: each row is a rollout.

    Raises:
        RewardShapeError: not one group and rollout for each row, or groups of one response only.
        SchemaError: a record that cannot be read, a group of two tasks or rubrics, or rows of a
            rollout with two judgements.
        ConfigError, PluginError, RewardError: the estimator, or what it is given, cannot be used.
    """
    chosen = estimator_of(estimator)
    parsed = _parsed(records)
    members = _members(parsed, groups, rollouts)
    advantages_N = np.zeros(len(parsed))
    rewards_N = np.full(len(parsed), np.nan)
    if not members:
        return BatchAdvantages(advantages_N, rewards_N)
    judged = _judged_groups(parsed, members)
    advantages_PG = estimated_advantages(chosen, judged)
    for p, rows_G in enumerate(members.values()):
        for g, rows in enumerate(rows_G):
            advantages_N[rows] = advantages_PG[p, g]
            if judged.valid_PG[p, g]:
                rewards_N[rows] = tied_reward(float(judged.rewards_PG[p, g]))
    return BatchAdvantages(advantages_N, rewards_N)


def _parsed(records: Sequence[Record]) -> list[JudgementRecord | None]:
    parsed: list[JudgementRecord | None] = []
    for row, record in enumerate(records):
        if not isinstance(record, str):
            parsed.append(record)
            continue
        try:
            parsed.append(JudgementRecord.model_validate_json(record))
        except ValidationError as error:
            problem = error.errors(include_input=False, include_url=False)[0]["msg"]
            raise SchemaError(
                f"row {row}: {KEY!r} is no record of a judgement ({problem}): it is what an "
                "adapter writes under log_judgements=True",
                field=KEY,
            ) from None
    return parsed


_Rows = list[list[int]]
"""Rows of each rollout of a group."""


def _members(
    records: Sequence[JudgementRecord | None],
    groups: Sequence[Hashable],
    rollouts: Sequence[Hashable] | None,
) -> dict[Hashable, _Rows]:
    keys = range(len(records)) if rollouts is None else rollouts
    if not len(records) == len(groups) == len(keys):
        raise RewardShapeError(
            f"{len(records)} judgements, {len(groups)} groups and {len(keys)} rollouts: one each "
            "for a row is needed"
        )
    rows_of: defaultdict[Hashable, dict[Hashable, list[int]]] = defaultdict(dict)
    for row, (group, rollout) in enumerate(zip(groups, keys, strict=True)):
        if group is not None:
            rows_of[group].setdefault(rollout, []).append(row)
    for group, by_rollout in rows_of.items():
        for rollout, rows in by_rollout.items():
            if any(records[row] != records[rows[0]] for row in rows):
                raise SchemaError(
                    f"rows {rows} are of rollout {rollout!r} of group {group!r} and have more "
                    "than one judgement: give all of them that of the whole rollout",
                    field=KEY,
                )
    members = {group: list(rows.values()) for group, rows in rows_of.items()}
    if members and all(len(rows) < _FEWEST for rows in members.values()):
        raise RewardShapeError(
            f"each of the {len(members)} groups has one response, with nothing to compare it: "
            "sample at least two for a prompt"
        )
    return members


def _judged_groups(
    records: Sequence[JudgementRecord | None], members: Mapping[Hashable, _Rows]
) -> JudgedGroups:
    """Return groups of one size, padded with responses that are left out."""
    shares_P = [
        _shares(group, [records[rows[0]] for rows in rows_G])
        for group, rows_G in members.items()
    ]
    size = max(_FEWEST, *(len(rows_G) for rows_G in members.values()))
    criteria = max(1, *(len(shares) for shares in shares_P))
    z_PGM = np.full((len(members), size, criteria), np.nan)
    weights_PM = np.zeros((len(members), criteria))
    rewards_PG = np.full((len(members), size), np.nan)
    valid_PG = np.zeros((len(members), size), dtype=np.bool_)
    for p, (rows_G, shares) in enumerate(zip(members.values(), shares_P, strict=True)):
        weights_PM[p, : len(shares)] = list(shares.values())
        for g, rows in enumerate(rows_G):
            record = records[rows[0]]
            if record is None or record.outcome is Outcome.UNAVAILABLE:
                continue
            z_M = [record.z.get(criterion, 0.0) for criterion in shares]
            z_PGM[p, g, : len(shares)] = z_M
            rewards_PG[p, g] = min(
                float(np.dot(weights_PM[p, : len(shares)], z_M)), 1.0
            )
            valid_PG[p, g] = True
    # A group that nobody judged has no rubric; its weight is not read.
    weights_PM[weights_PM.sum(axis=1) == 0, 0] = 1.0
    return JudgedGroups(
        rewards_PG=rewards_PG, valid_PG=valid_PG, z_PGM=z_PGM, weights_PM=weights_PM
    )


def _shares(
    group: Hashable, records: Sequence[JudgementRecord | None]
) -> dict[str, float]:
    """Return the shares of a group's criteria, which all its judgements have in common."""
    judged = [record for record in records if record is not None]
    if not judged:
        return {}
    first = judged[0]
    for record in judged:
        if record.task_id != first.task_id:
            raise SchemaError(
                f"group {group!r} was judged as two tasks, {first.task_id!r} and "
                f"{record.task_id!r}: the responses of one prompt need one task, or the prompts "
                "need keys of their own",
                field=KEY,
            )
        unlike = sorted(first.shares.keys() ^ record.shares.keys())
        moved = [
            criterion
            for criterion, share in first.shares.items()
            if not unlike and abs(share - record.shares[criterion]) > _SAME
        ]
        if unlike or moved:
            raise SchemaError(
                f"group {group!r} was judged under two rubrics of task {first.task_id!r}, which "
                f"differ in {_listed(unlike or moved)}; the responses of one prompt need one "
                "rubric, or the prompts need keys of their own",
                field=KEY,
            )
        if record.outcome is Outcome.SCORED and record.z.keys() != record.shares.keys():
            missing = sorted(record.z.keys() ^ record.shares.keys())
            raise SchemaError(
                f"a judgement of task {record.task_id!r} has no score for {_listed(missing)}: "
                "every criterion with weight needs one",
                field=KEY,
            )
    return first.shares


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown  # noqa: PLR2004


@dataclass(frozen=True)
class JudgedBatch:
    """The judgements of the batch that a trainer computes advantages of at this moment."""

    records: Sequence[Record]
    """The judgement of each row."""
    rollouts: Sequence[Hashable] | None = None
    """As in `batch_advantages`."""
    is_padding: Sequence[bool] | None = None
    """Rows that a stack added to fill a batch; None where there are none."""

    def advantages(
        self, groups: Sequence[Hashable], estimator: Estimator
    ) -> BatchAdvantages:
        """Return the advantages of the batch by the keys of its prompts, as `batch_advantages`."""
        keys = list(groups)
        if self.is_padding is not None and len(self.is_padding) == len(keys):
            keys = [
                None if is_padding else key
                for key, is_padding in zip(keys, self.is_padding, strict=True)
            ]
        return batch_advantages(
            self.records, keys, estimator=estimator, rollouts=self.rollouts
        )

    def on_tokens(
        self,
        groups: Sequence[Hashable],
        estimator: str,
        rewards: Any,
        mask: Any,
        *,
        divides: bool,
    ) -> tuple[Any, Any]:
        """Return the advantages of a stack's tokens, and its returns, which are the same.

        Args:
            groups: key of each row's prompt.
            estimator: the estimator's name.
            rewards: the stack's tensor of N rows, whose type and device they have.
            mask: 1 for the tokens of the policy, N rows.
            divides: as in `undivided`.
        """
        chosen = undivided(estimator_of(estimator), divides=divides)
        values_N = self.advantages(groups, chosen).advantages_N
        rows = rewards.new_tensor(values_N).unsqueeze(-1) * mask
        return rows, rows


_batch: ContextVar[JudgedBatch | None] = ContextVar("rubric_batch", default=None)


@contextmanager
def judged_batch(batch: JudgedBatch) -> Generator[None]:
    """Hold a batch for the estimator that a stack calls, which gives it only rewards and keys."""
    token = _batch.set(batch)
    try:
        yield
    finally:
        _batch.reset(token)


def holds_batch() -> bool:
    """Return whether a hook holds the judgements of a batch already."""
    return _batch.get() is not None


def current_batch(*, stack: str, remedy: str) -> JudgedBatch:
    """Return the batch that advantages are computed of.

    Args:
        stack: name of the stack in an error.
        remedy: what to do where the stack called an estimator and nothing else.

    Raises:
        ConfigError: no hook holds a batch.
    """
    batch = _batch.get()
    if batch is None:
        raise ConfigError(
            f"{stack} called an estimator of advantages by criterion without judgements: {remedy}",
            location="estimator",
        )
    return batch


def hand_over(judgements: Sequence[Judgement], trainer: object) -> None:
    """Give a trainer the records of a batch, if it is one that takes them."""
    take = getattr(trainer, "take_judgements", None)
    if take is not None:
        take([judgement.record for judgement in judgements])


def record_in(values: object, row: int, *, holder: str, remedy: str) -> str:
    """Return the record among what a stack carries beside the reward of a row.

    Args:
        values: a mapping with the record under `rubric/judgement`.
        row: number of the row.
        holder: name of what should hold the record, in an error.
        remedy: what to do where it is missing.

    Raises:
        SchemaError: no record is there.
    """
    record: object = None
    if isinstance(values, Mapping):
        record = cast("Mapping[str, object]", values).get(KEY)
    if not isinstance(record, str):
        raise SchemaError(
            f"row {row}: {holder} holds no {KEY!r}: {remedy}, and let every row be judged by it",
            field=KEY,
        )
    return record


def is_hooked(function: object) -> bool:
    """Return whether a function is one that `Stack.hook` put in its place."""
    return hasattr(function, _HOOK)


class Stack(NamedTuple):
    """A stack whose inside a hook uses, and so of one series of releases."""

    name: str
    series: str
    """First numbers of its version, such as "1.16"."""

    @property
    def package(self) -> str:
        """The name of the distribution."""
        return self.name.lower()

    @property
    def install(self) -> str:
        """The requirement to give to pip."""
        return f"'{self.package}=={self.series}.*'"

    def module(self, name: str) -> Any:  # no stack is typed here
        """Import a module of the stack.

        Raises:
            MissingExtraError: it is not installed.
            ConfigError: another version is. One that is no installed package is let pass.
        """
        module = stack_module(name, install=self.install)
        self.check_version()
        return module

    def check_version(self) -> None:
        """Refuse a version that the hook was not written for.

        Raises:
            ConfigError: as `module`.
        """
        try:
            installed = version(self.package)
        except PackageNotFoundError:
            return
        if f"{installed}.".startswith(f"{self.series}."):
            return
        raise ConfigError(
            f"{self.package} {installed}: the hook for advantages by criterion was written for "
            f"{self.package} {self.series}, whose inside it uses: pip install {self.install}, or "
            "train on the reward of the adapter alone, which needs no hook",
            location=self.package,
        )

    def function(self, owner: Any, name: str) -> Any:
        """Return a function of a module or class of the stack.

        Raises:
            ConfigError: it has none of that name.
        """
        function = getattr(owner, name, None)
        if function is None:
            raise ConfigError(
                f"{owner.__name__} has no {name}: it is not that of {self.name} {self.series}, "
                "which the hook for advantages by criterion was written for: pip install "
                f"{self.install}",
                location=self.package,
            )
        return function

    def hook(self, owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        """Put a wrapper in the place of a function, once.

        Raises:
            ConfigError: as `function`.
        """
        function = self.function(owner, name)
        if not is_hooked(function):
            hooked = wraps(function)(wrapper(function))
            setattr(hooked, _HOOK, True)
            setattr(owner, name, hooked)
