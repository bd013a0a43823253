from hypothesis import given
from hypothesis import strategies as st

from rubric_train_openrlhf.randomness import PromptOrder, derived_seed


def test_seeds_differ_by_everything_that_they_are_derived_from() -> None:
    seeds = {
        derived_seed(seed, step=step, purpose=purpose, part=part)
        for seed in (0, 1)
        for step in (0, 1, 2)
        for purpose in ("rollout", "validation", "sft")
        for part in (0, 1)
    }

    assert len(seeds) == 36
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_seed_is_the_same_on_every_machine() -> None:
    assert derived_seed(0, step=1, purpose="rollout") == derived_seed(
        0, step=1, purpose="rollout"
    )
    assert derived_seed(7, step=3, purpose="order", part=2) == 5893013085897086817


@given(n=st.integers(1, 20), seed=st.integers(0, 5), epoch=st.integers(0, 3))
def test_every_epoch_holds_every_prompt_once(n: int, seed: int, epoch: int) -> None:
    order = PromptOrder(n, seed=seed)

    assert sorted(order.take(n, start=epoch * n)) == list(range(n))


@given(n=st.integers(1, 9), start=st.integers(0, 30), taken=st.integers(1, 30))
def test_the_order_depends_on_the_position_alone(
    n: int, start: int, taken: int
) -> None:
    order = PromptOrder(n, seed=1)

    one_by_one = [
        order.take(1, start=place)[0] for place in range(start, start + taken)
    ]
    assert order.take(taken, start=start) == one_by_one


def test_epochs_are_in_different_orders() -> None:
    order = PromptOrder(20, seed=0)

    assert order.take(20, start=0) != order.take(20, start=20)
