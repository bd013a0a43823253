import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.objective import Surrogate, clipped_surrogate

POSITIVE = st.floats(1e-6, 1e6)
SIGNED = st.floats(-100, 100)


def _surrogate(ratio: float, advantage: float, **bounds: float | None) -> Surrogate:
    bounds = {"clip_low": 0.2, "clip_high": 0.2} | bounds
    return clipped_surrogate(
        torch.tensor([[ratio]], dtype=torch.float64),
        torch.tensor([advantage], dtype=torch.float64),
        **bounds,
    )


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "clipped"),
    [
        (1.5, 1.0, -1.2, True),
        (1.1, 1.0, -1.1, False),
        (0.5, 1.0, -0.5, False),
        (1.5, -1.0, 1.5, False),
        (0.5, -1.0, 0.8, True),
        (0.5, -2.0, 1.6, True),
        (3.0, 0.0, 0.0, False),
    ],
)
def test_surrogate_of_worked_examples(
    ratio: float, advantage: float, loss: float, *, clipped: bool
) -> None:
    value = _surrogate(ratio, advantage)
    assert float(value.loss_BT) == pytest.approx(loss)
    assert bool(value.clipped_BT) is clipped
    assert not bool(value.dual_clipped_BT)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss"),
    [(1.5, 2.0, -2.56), (0.5, -1.0, 0.9), (1.25, 1.0, -1.25)],
)
def test_band_may_be_asymmetric(ratio: float, advantage: float, loss: float) -> None:
    value = _surrogate(ratio, advantage, clip_low=0.1, clip_high=0.28)
    assert float(value.loss_BT) == pytest.approx(loss)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "dual_clipped"),
    [
        (10.0, -1.0, 3.0, True),
        (10.0, -0.5, 1.5, True),
        (2.0, -1.0, 2.0, False),
        (10.0, 1.0, -1.2, False),
    ],
)
def test_dual_clip_bounds_the_loss_of_bad_responses(
    ratio: float, advantage: float, loss: float, *, dual_clipped: bool
) -> None:
    value = _surrogate(ratio, advantage, dual_clip=3.0)
    assert float(value.loss_BT) == pytest.approx(loss)
    assert bool(value.dual_clipped_BT) is dual_clipped


def test_dual_clip_lowers_the_loss_where_the_printed_formula_would_raise_it() -> None:
    # The paper's max(ℓ, −cA) at r = 1, A = −1 would be 3; the bound must leave the loss at 1.
    assert float(_surrogate(1.0, -1.0, dual_clip=3.0).loss_BT) == 1.0


@given(ratio=POSITIVE, advantage=SIGNED)
def test_surrogate_never_promises_more_than_the_plain_one(
    ratio: float, advantage: float
) -> None:
    assert float(_surrogate(ratio, advantage).loss_BT) >= -ratio * advantage


@given(advantage=SIGNED)
def test_no_bound_acts_at_ratio_one(advantage: float) -> None:
    value = _surrogate(1.0, advantage, dual_clip=3.0)
    assert float(value.loss_BT) == -advantage
    assert not bool(value.clipped_BT)
    assert not bool(value.dual_clipped_BT)


@given(ratio=POSITIVE, advantage=SIGNED)
def test_dual_clip_far_away_is_no_dual_clip(ratio: float, advantage: float) -> None:
    far = _surrogate(ratio, advantage, dual_clip=1e7)
    assert torch.equal(far.loss_BT, _surrogate(ratio, advantage).loss_BT)


@given(ratio=POSITIVE, advantage=SIGNED)
def test_band_that_holds_every_ratio_leaves_the_plain_surrogate(
    ratio: float, advantage: float
) -> None:
    value = _surrogate(ratio, advantage, clip_low=1.0, clip_high=1e7)
    assert float(value.loss_BT) == -ratio * advantage


@pytest.mark.parametrize("dual_clip", [None, 3.0])
@given(ratio=POSITIVE, advantage=SIGNED)
@example(ratio=1.0, advantage=5e-324)  # the smallest number: half of it is 0
def test_flags_say_where_the_gradient_is_zero(
    dual_clip: float | None, ratio: float, advantage: float
) -> None:
    r = torch.tensor([[ratio]], dtype=torch.float64, requires_grad=True)
    value = clipped_surrogate(
        r,
        torch.tensor([advantage], dtype=torch.float64),
        clip_low=0.2,
        clip_high=0.2,
        dual_clip=dual_clip,
    )
    (gradient,) = torch.autograd.grad(value.loss_BT.sum(), r)
    bounded = bool(value.clipped_BT | value.dual_clipped_BT)
    assert float(gradient) == (0.0 if bounded else -advantage)


def test_advantages_broadcast_over_the_tokens_of_their_response() -> None:
    ratio = torch.ones(2, 3, dtype=torch.float64)
    value = clipped_surrogate(
        ratio,
        torch.tensor([1.0, -2.0], dtype=torch.float64),
        clip_low=0.2,
        clip_high=0.2,
    )
    assert value.loss_BT.tolist() == [[-1.0] * 3, [2.0] * 3]


def test_advantages_per_token_are_refused() -> None:
    with pytest.raises(ObjectiveShapeError, match="one value per response"):
        clipped_surrogate(
            torch.ones(2, 3), torch.ones(2, 3), clip_low=0.2, clip_high=0.2
        )
