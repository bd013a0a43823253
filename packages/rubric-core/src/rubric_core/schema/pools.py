"""Pools: groups of criteria whose measurements are put together, by id or by kind.

An id that a model or an importer writes may never occur again. Figures by id are then figures of
single criteria, too few to say anything and too many to look at. Kinds are few.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, Self

from pydantic import model_validator

from rubric_core.schema.kinds import TO_AVOID, CriterionKind
from rubric_core.schema.rubric import Criterion, Rubric
from rubric_core.schema.sealed import Identifier, Sealed

FEWEST_TASKS = 8
"""Number of tasks that an id must occur in to be measured by itself: an interval needs as many
documents. With fewer tasks in all, every id is measured by itself, as there are few."""
_LEAST_FRAC = 0.05
"""Share of the tasks that an id must occur in: with M criteria a task, at most 20 M ids do."""
_KINDS = "kind."
"""Prefix of the names of pools of a kind; no pool of an id has it."""


class Pool(Sealed):
    """Criteria whose measurements are put together: those of one id, or of one kind.

    Criteria of one id but of different kinds are in different pools, and so are a criterion that
    is met by saying something and one that is met by avoiding it.
    """

    id: Identifier | None = None
    """The id, where it repeats; None for all criteria of a kind."""
    kind: CriterionKind | None = None
    """The kind; None for criteria without a stated kind."""
    avoids: bool = False
    """Whether the criteria are met by avoiding a fault."""
    is_any: bool = False
    """Whether the pool holds all criteria of the id, of any kind, as files of older versions do."""

    if TYPE_CHECKING:  # pydantic makes it of all fields

        def __hash__(self) -> int: ...

    @model_validator(mode="after")
    def _check_any(self) -> Self:
        if self.is_any and (self.id is None or self.kind is not None or self.avoids):
            raise ValueError("is_any is of an id alone: it has another kind, or no id")
        return self

    @property
    def name(self) -> str:
        """The id; or `kind.cause`, `kind.none`, with `.avoided` where a fault is avoided."""
        if self.id is not None:
            return self.id
        kind = "none" if self.kind is None else self.kind.value
        avoided = ".avoided" if self.avoids else ""
        return f"{_KINDS}{kind}{avoided}"


# Cached, as pools are asked for with every score.
@lru_cache(maxsize=4096)
def _pool(
    name: str | None,
    kind: CriterionKind | None,
    avoids: bool,  # noqa: FBT001  # a key
    is_any: bool,  # noqa: FBT001  # a key
) -> Pool:
    return Pool(id=name, kind=kind, avoids=avoids, is_any=is_any)


def own_pool(criterion: Criterion) -> Pool:
    """Return the pool of a criterion's id, and of what it asks for."""
    return _pool(criterion.id, criterion.kind, _avoids(criterion), False)  # noqa: FBT003


def kind_pool(criterion: Criterion) -> Pool:
    """Return the pool of a criterion's kind."""
    return _pool(None, criterion.kind, _avoids(criterion), False)  # noqa: FBT003


def pool_of_any(name: str) -> Pool:
    """Return the pool of all criteria of an id."""
    return _pool(name, None, False, True)  # noqa: FBT003


def known_pool(criterion: Criterion, pools: Container[Pool]) -> Pool | None:
    """Return the first of a criterion's pools that `pools` holds: of the id, else of the kind."""
    candidates = own_pool(criterion), pool_of_any(criterion.id), kind_pool(criterion)
    for candidate in candidates:
        if candidate in pools:
            return candidate
    return None


def _avoids(criterion: Criterion) -> bool:
    return criterion.description.startswith(TO_AVOID)


class HasRubric(Protocol):
    """A task, or a view of one."""

    @property
    def task_id(self) -> str:
        """The task's id."""
        ...

    @property
    def rubric(self) -> Rubric:
        """The task's criteria."""
        ...


@dataclass(frozen=True)
class Pooling:
    """A choice of one pool for each criterion: its id's if the id repeats, else its kind's."""

    own: frozenset[Pool] = frozenset()
    """Pools of the ids that repeat."""

    @classmethod
    def of(cls, tasks: Iterable[HasRubric]) -> Self:
        """Choose the pools from the tasks that are measured.

        An id repeats if it occurs in at least 8 tasks and in 5 % of them, and asks for the same
        everywhere: one kind, or none, and said or avoided. An id that only numbers its kind
        (`cause_2`) says no more than the kind. With fewer than 8 tasks each id may have its own.

        Args:
            tasks: each counts once; criteria without weight do not count.
        """
        rubrics = {task.task_id: task.rubric for task in tasks}
        counts: Counter[Pool] = Counter()
        meanings: defaultdict[str, set[Pool]] = defaultdict(set)
        for rubric in rubrics.values():
            for criterion in rubric:
                if criterion.weight > 0:
                    counts[own_pool(criterion)] += 1
                    meanings[criterion.id].add(own_pool(criterion))
        least = max(FEWEST_TASKS, math.ceil(_LEAST_FRAC * len(rubrics)))
        if len(rubrics) < FEWEST_TASKS:
            least = 1
        own: set[Pool] = set()
        for name, pools in meanings.items():
            if len(pools) > 1 or name.startswith(_KINDS):
                continue
            pool = pools.pop()
            if counts[pool] >= least and not _only_numbers(name, pool.kind):
                own.add(pool)
        return cls(frozenset(own))

    def pool(self, criterion: Criterion) -> Pool:
        """Return the pool of a criterion."""
        own = own_pool(criterion)
        if own in self.own:
            return own
        return kind_pool(criterion)

    def pool_of(self, own: Pool) -> Pool:
        """Return the pool of criteria of one id that ask for the same."""
        if own in self.own:
            return own
        return _pool(None, own.kind, own.avoids, False)  # noqa: FBT003


def _only_numbers(name: str, kind: CriterionKind | None) -> bool:
    """Return whether an id is its kind with a number, such as `cause_2`."""
    return kind is not None and name.removeprefix(f"{kind.value}_").isdecimal()
