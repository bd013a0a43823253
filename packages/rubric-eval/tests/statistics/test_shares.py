"""The interval of an accuracy."""

from __future__ import annotations

import pytest

from rubric_eval import EvalShapeError
from rubric_eval.statistics import accuracy_interval, mean_interval, wilson_interval

ITEMS = [f"d{number}" for number in range(8)]


def test_one_answer_an_item_has_wilsons_interval() -> None:
    shares = [1.0, 0.0, None, 1.0, 1.0, 0.0, 1.0, 1.0]
    assert accuracy_interval(shares, answers=1, clusters_N=ITEMS) == wilson_interval(5, 7)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_several_answers_that_are_all_alike_leave_it_open_by_how_many_clusters(
    share: float,
) -> None:
    one = accuracy_interval([share] * 8, answers=3, clusters_N=ITEMS)
    few = accuracy_interval([share] * 8, answers=3, clusters_N=["a"] * 4 + ["b"] * 4)

    assert (one.mean, one.n, few.n) == (share, 8, 8)
    assert one == wilson_interval(int(share) * 8, 8)
    assert (few.ci_low, few.ci_high) == (
        wilson_interval(int(share) * 2, 2).ci_low,
        wilson_interval(int(share) * 2, 2).ci_high,
    )


def test_several_answers_that_differ_are_drawn_by_cluster() -> None:
    shares = [0.5, 0.0, 1.0, 1.0, 0.5, 0.0, 1.0, 1.0]
    documents = ["a", "a", "b", "b", "c", "c", "d", "d"]
    found = accuracy_interval(shares, answers=2, clusters_N=documents)
    assert found == mean_interval(shares, clusters_N=documents)


def test_items_without_their_clusters_are_refused() -> None:
    with pytest.raises(EvalShapeError, match="8 items and 7 clusters"):
        accuracy_interval([0.0] * 8, answers=1, clusters_N=ITEMS[1:])
    with pytest.raises(EvalShapeError, match="all 8 values are missing"):
        accuracy_interval([None] * 8, answers=1, clusters_N=ITEMS)
