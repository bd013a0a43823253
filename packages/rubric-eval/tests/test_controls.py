from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rubric_eval import (
    EvalShapeError,
    SelectionLeakError,
    best_temperature,
    blind_pairing,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_core import Task
    from rubric_eval import Heldout


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    documents=st.lists(st.integers(0, 5), min_size=2, max_size=12),
    seed=st.integers(0, 3),
)
def test_every_response_meets_another_document_and_every_task_is_used_once(
    make_task: Callable[..., Task], documents: list[int], seed: int
) -> None:
    assume(2 * max(Counter(documents).values()) <= len(documents))
    tasks = [make_task(i, document=document) for i, document in enumerate(documents)]
    partner = blind_pairing(tasks, seed=seed)
    assert sorted(partner) == list(range(len(tasks)))
    assert all(tasks[i].doc_hash != tasks[j].doc_hash for i, j in enumerate(partner))


def test_the_same_seed_pairs_alike(make_task: Callable[..., Task]) -> None:
    tasks = [make_task(i) for i in range(20)]
    assert blind_pairing(tasks, seed=1) == blind_pairing(tasks, seed=1)
    assert blind_pairing(tasks, seed=1) != blind_pairing(tasks, seed=2)


def test_a_document_with_most_of_the_tasks_cannot_be_paired(
    make_task: Callable[..., Task],
) -> None:
    with pytest.raises(EvalShapeError, match="2 of 3 tasks"):
        blind_pairing(
            [make_task(0, document=0), make_task(1, document=0), make_task(2)]
        )


def test_the_best_temperature_is_that_of_the_highest_mean(
    make_heldout: Callable[..., Heldout],
) -> None:
    validation = {
        1.0: make_heldout((0.4,)),
        0.7: make_heldout((0.6,)),
        0.5: make_heldout((0.5,)),
    }
    assert best_temperature(validation, test_task_ids=["t0"]) == 0.7


def test_of_equal_temperatures_the_higher_is_taken(
    make_heldout: Callable[..., Heldout],
) -> None:
    validation = {0.5: make_heldout((0.4,)), 1.0: make_heldout((0.4,))}
    assert best_temperature(validation, test_task_ids=[]) == 1.0


def test_choosing_on_test_questions_is_refused(
    make_heldout: Callable[..., Heldout],
) -> None:
    with pytest.raises(
        SelectionLeakError, match="1 test questions, first 'q1'"
    ) as caught:
        best_temperature({1.0: make_heldout((0.4, 0.5))}, test_task_ids=["q1", "q9"])
    assert caught.value.task_ids == ("q1",)


def test_no_temperature_is_refused() -> None:
    with pytest.raises(EvalShapeError, match="no temperature"):
        best_temperature({}, test_task_ids=[])
