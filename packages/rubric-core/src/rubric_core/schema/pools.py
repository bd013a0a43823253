"""Under which name what is measured of criteria is put together: ids are free, kinds are few.

An id that a model or an importer writes may never come again. Figures by id are then figures of
single criteria, too few to say anything and too many to look at.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, Self

from pydantic import model_validator

from rubric_core.schema.kinds import TO_AVOID, CriterionKind
from rubric_core.schema.rubric import Criterion, Rubric
from rubric_core.schema.sealed import Identifier, Sealed

FEWEST_TASKS: Final = 8
"""That an id stands in to be measured by itself: an interval needs as many documents. Of fewer
tasks every id is: there are few."""
_LEAST_FRAC: Final = 0.05
"""Share of the tasks likewise: of M criteria a task, at most 20 M ids are then kept."""
_KINDS: Final = "kind."
"""What the names of pools of a kind begin with, and no id's pool."""


class Pool(Sealed):
    """Criteria whose measurements are put together: those of one id, or of one kind.

    Criteria of one id and of different kinds are not one criterion; nor are one that is met by
    saying something and one that is met by avoiding it.
    """

    id: Identifier | None = None
    """Of an id that repeats; None for all criteria of a kind."""
    kind: CriterionKind | None = None
    """None: criteria of which nobody has said it."""
    avoids: bool = False
    """Whether it is met by avoiding a fault."""
    is_any: bool = False
    """All criteria of the id, whatever they ask for: what a file of an older version says."""

    if TYPE_CHECKING:  # pydantic makes it of all fields

        def __hash__(self) -> int: ...

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if self.is_any and (self.id is None or self.kind is not None or self.avoids):
            raise ValueError("is_any is of an id alone: it has another kind, or no id")
        return self

    @property
    def name(self) -> str:
        """The id; or `kind.cause`, `kind.none`, with `.avoided` where a fault is avoided."""
        if self.id is not None:
            return self.id
        avoided = ".avoided" if self.avoids else ""
        return f"{_KINDS}{self.kind.value if self.kind else 'none'}{avoided}"


# Made once each: they are asked for with every score.
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
    """Return the pool that something is known of: that of the id, else of the kind, else None."""
    candidates = own_pool(criterion), pool_of_any(criterion.id), kind_pool(criterion)
    return next((candidate for candidate in candidates if candidate in pools), None)


def _avoids(criterion: Criterion) -> bool:
    return criterion.description.startswith(TO_AVOID)


class HasRubric(Protocol):
    """A task, or a view of one."""

    @property
    def task_id(self) -> str:
        """Which task."""
        ...

    @property
    def rubric(self) -> Rubric:
        """Its criteria."""
        ...


@dataclass(frozen=True)
class Pooling:
    """Which pool each criterion belongs to: its id's where that repeats, else its kind's."""

    own: frozenset[Pool] = frozenset()
    """Pools of the ids that repeat."""

    @classmethod
    def of(cls, tasks: Iterable[HasRubric]) -> Self:
        """Decide it on the tasks that are measured.

        An id repeats where it stands in at least 8 tasks and in 5 % of them, and asks for the same
        everywhere: one kind, or none, and said or avoided. One that only numbers its kind
        (`cause_2`) says no more than the kind. Of fewer than 8 tasks each id may be its own.

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
        return cls(
            frozenset(
                pool
                for name, pools in meanings.items()
                if len(pools) == 1 and not name.startswith(_KINDS)
                for pool in pools
                if counts[pool] >= least and not _only_numbers(name, pool.kind)
            )
        )

    def pool(self, criterion: Criterion) -> Pool:
        """Return the pool of a criterion."""
        own = own_pool(criterion)
        return own if own in self.own else kind_pool(criterion)

    def pool_of(self, own: Pool) -> Pool:
        """Return the pool of criteria of one id that ask for the same."""
        return own if own in self.own else _pool(None, own.kind, own.avoids, False)  # noqa: FBT003


def _only_numbers(name: str, kind: CriterionKind | None) -> bool:
    return kind is not None and name.removeprefix(f"{kind.value}_").isdecimal()
