import pytest

from rubric_train_openrlhf.cluster.training.trained import Shares, update_order


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("updates", [1, 2, 4])
def test_an_update_takes_a_contiguous_share_whatever_the_ranks(
    updates: int, ranks: int
) -> None:
    n = 32
    order = update_order(n, Shares(updates=updates, ranks=ranks))
    assert sorted(order) == list(range(n))
    parts = [
        order[rank * n // ranks : (rank + 1) * n // ranks] for rank in range(ranks)
    ]
    size = n // ranks // updates
    for update in range(updates):
        taken = [
            row for part in parts for row in part[update * size : (update + 1) * size]
        ]
        assert taken == list(range(update * n // updates, (update + 1) * n // updates))
