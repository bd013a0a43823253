"""Ids that repeat are measured by themselves, all other criteria by kind."""

from collections.abc import Sequence

import pytest

from rubric_core import (
    Criterion,
    CriterionKind,
    Grounding,
    Pool,
    Pooling,
    Rubric,
    SchemaError,
    Task,
    known_pool,
)
from rubric_core.schema.pools import own_pool, pool_of_any

CAUSE, LIMIT = CriterionKind.CAUSE, CriterionKind.LIMIT


def _tasks(rubrics: Sequence[Sequence[Criterion]]) -> list[Task]:
    return [
        Task(
            question=f"Question {place}?",
            grounding=Grounding(f"Passage {place}."),
            rubric=Rubric(criteria=tuple(criteria)),
        )
        for place, criteria in enumerate(rubrics)
    ]


def _one(name: str, kind: CriterionKind | None = None, **fields: str) -> Criterion:
    return Criterion(id=name, weight=1, kind=kind, **fields)


def test_free_ids_are_measured_by_kind_and_ids_that_repeat_by_themselves() -> None:
    tasks = _tasks(
        [[_one(f"own_{p}", CAUSE), _one(f"bare_{p}"), _one("tone")] for p in range(150)]
    )
    pooling = Pooling.of(tasks)

    names = {pooling.pool(one).name for task in tasks for one in task.rubric}
    assert names == {"kind.cause", "kind.none", "tone"}
    assert Pooling.of(reversed(tasks)) == pooling


@pytest.mark.parametrize(
    ("tasks", "holding", "is_own"),
    [(1, 1, True), (7, 1, True), (8, 7, False), (8, 8, True), (40, 7, False), (40, 8, True),
     (200, 9, False), (200, 10, True)],
)  # fmt: skip
def test_an_id_repeats_from_eight_tasks_and_one_in_twenty_on(
    tasks: int, holding: int, *, is_own: bool
) -> None:
    rubrics = [
        [_one("tone" if p < holding else f"other_{p}", LIMIT)] for p in range(tasks)
    ]
    pool = Pooling.of(_tasks(rubrics)).pool(_one("tone", LIMIT))

    assert pool.name == ("tone" if is_own else "kind.limit")


def test_many_ids_make_few_pools() -> None:
    kinds = list(CriterionKind)[:5]
    rubrics = [
        [_one(f"id_{p // 3}_{kind}", kind) for kind in kinds] for p in range(420)
    ]
    pooling = Pooling.of(tasks := _tasks(rubrics))

    assert len({one.id for task in tasks for one in task.rubric}) == 700
    assert len({pooling.pool(one) for task in tasks for one in task.rubric}) == 5


def test_one_id_of_several_kinds_is_not_one_criterion() -> None:
    rubrics = [[_one("c1", (CAUSE, LIMIT)[p % 2])] for p in range(40)]
    pooling = Pooling.of(_tasks(rubrics))

    assert {pooling.pool(one).name for (one,) in rubrics} == {
        "kind.cause",
        "kind.limit",
    }
    # Of one whose id repeats elsewhere with another meaning, the kind decides.
    own = Pooling.of(_tasks([[_one("c1", CAUSE)]] * 40))
    assert own.pool(_one("c1", CAUSE)).name == "c1"
    assert own.pool(_one("c1", LIMIT)).name == "kind.limit"


def test_what_is_avoided_is_not_measured_with_what_is_said() -> None:
    fault = _one("harm", description="To avoid: gives a dose.")
    said = _one("harm", description="Gives a dose.")
    pooling = Pooling.of(_tasks([[(fault, said)[p % 2]] for p in range(40)]))

    assert [pooling.pool(one).name for one in (fault, said)] == [
        "kind.none.avoided",
        "kind.none",
    ]
    assert Pooling.of(_tasks([[fault]] * 40)).pool(fault).name == "harm"


@pytest.mark.parametrize("name", ["cause_1", "cause_12"])
def test_an_id_that_only_numbers_its_kind_is_the_kind(name: str) -> None:
    pooling = Pooling.of(_tasks([[_one(name, CAUSE)]] * 40))

    assert pooling.pool(_one(name, CAUSE)).name == "kind.cause"
    assert (
        Pooling.of(_tasks([[_one(name, LIMIT)]] * 40)).pool(_one(name, LIMIT)).name
        == name
    )


def test_no_id_takes_the_name_of_a_kind() -> None:
    criterion = _one("kind.cause", LIMIT)

    assert Pooling.of(_tasks([[criterion]] * 40)).pool(criterion).name == "kind.limit"


def test_criteria_without_weight_decide_nothing() -> None:
    bare = Criterion(id="tone", weight=0, kind=LIMIT)
    tasks = _tasks([[_one("tone", CAUSE)]] * 20 + [[_one("other", CAUSE), bare]] * 20)

    assert Pooling.of(tasks).pool(_one("tone", CAUSE)).name == "tone"


def test_a_criterion_is_looked_up_by_id_then_by_kind_then_not_at_all() -> None:
    tone, free = _one("tone", CAUSE), _one("free", LIMIT)
    pools = {own_pool(tone), Pool(kind=LIMIT)}

    assert known_pool(tone, pools) == Pool(id="tone", kind=CAUSE)
    assert known_pool(free, pools) == Pool(kind=LIMIT)
    assert known_pool(_one("tone", LIMIT), pools) == Pool(kind=LIMIT)
    assert known_pool(_one("other", CAUSE), pools) is None
    assert known_pool(_one("other"), pools) is None
    assert known_pool(_one("tone"), {pool_of_any("tone")}) == pool_of_any("tone")


def test_a_pool_of_any_kind_has_none() -> None:
    with pytest.raises(SchemaError, match="is_any is of an id alone"):
        Pool(id="tone", kind=CAUSE, is_any=True)
    with pytest.raises(SchemaError, match="is_any is of an id alone"):
        Pool(is_any=True)
