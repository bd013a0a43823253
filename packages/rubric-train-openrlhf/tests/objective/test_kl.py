from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.objective import K2, bounded_divergence, k3

if TYPE_CHECKING:
    from conftest import Responses


def _k3(
    u: float, *, dtype: torch.dtype = torch.float64, **clamps: float | None
) -> float:
    zero = torch.zeros((), dtype=dtype)
    return float(k3(zero, zero + u, **clamps))


@pytest.mark.parametrize(
    ("u", "divergence"),
    [
        (0.0, 0.0),
        (math.log(2), 1 - math.log(2)),
        (-math.log(2), math.log(2) - 0.5),
        (0.5, 0.14872127),
        (3.0, 16.0855369),
        (5.0, 142.4131591),
    ],
)
def test_k3_of_worked_examples(u: float, divergence: float) -> None:
    assert _k3(u) == pytest.approx(divergence, rel=1e-8)


@pytest.mark.parametrize(
    ("u", "divergence"), [(25.0, math.exp(20) - 21), (-25.0, 19.0)]
)
def test_k3_clamps_its_input_at_twenty(u: float, divergence: float) -> None:
    assert _k3(u) == pytest.approx(divergence, rel=1e-9)


def test_k3_without_an_input_clamp_is_the_plain_formula() -> None:
    assert _k3(25.0, input_clamp=math.inf) == pytest.approx(
        math.exp(25) - 26, rel=1e-12
    )


@pytest.mark.parametrize("u", [3.0, 5.0, 25.0])
def test_k3_output_clamp_bounds_the_divergence(u: float) -> None:
    assert _k3(u, output_clamp=10.0) == 10.0


def test_k3_output_clamp_leaves_small_divergences_alone() -> None:
    assert _k3(0.5, output_clamp=10.0) == _k3(0.5)


@given(
    st.floats(-30, 30, allow_subnormal=False),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_k3_is_never_negative(u: float, dtype: torch.dtype) -> None:
    assert _k3(u, dtype=dtype) >= 0


@given(st.floats(1e-7, 30), st.sampled_from([-1, 1]))
def test_k3_is_zero_only_without_a_difference(size: float, sign: int) -> None:
    assert _k3(sign * size) > 0
    assert _k3(0.0) == 0


@given(st.floats(1e-4, 1e-2), st.sampled_from([-1, 1]))
def test_k3_begins_as_half_the_square(size: float, sign: int) -> None:
    u = sign * size
    # The next term of the series is u³/6, the one after it u⁴/24.
    assert abs(_k3(u) - u**2 / 2 - u**3 / 6) <= u**4 / 20


def test_k3_keeps_its_digits_near_zero_in_single_precision() -> None:
    # e^u − 1 − u in float32 is 0 or negative up to u = 3e-4.
    assert _k3(1e-4, dtype=torch.float32) == pytest.approx(5e-9, rel=2e-3)


@pytest.mark.parametrize("u", [-1.5, -1e-3, 0.2, 2.0])
def test_k3_gradient_is_one_minus_e_to_u(u: float) -> None:
    logprob = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(
        k3(logprob, torch.tensor(u, dtype=torch.float64)), logprob
    )
    assert float(gradient) == pytest.approx(-math.expm1(u), rel=1e-12)


def test_k3_has_no_gradient_beyond_a_clamp() -> None:
    logprobs = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([25.0, 3.0], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(
        k3(logprobs, ref, output_clamp=10.0).sum(), logprobs
    )
    assert gradient.tolist() == [0.0, 0.0]


def test_k3_gradient_agrees_with_finite_differences(responses: Responses) -> None:
    assert torch.autograd.gradcheck(
        lambda x: k3(x, responses.ref), (responses.logprobs,)
    )


def test_mean_of_k3_under_the_policy_is_the_divergence() -> None:
    policy = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    reference = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)
    exact = (policy * (policy / reference).log()).sum()
    estimate = (policy * k3(policy.log(), reference.log())).sum()
    torch.testing.assert_close(estimate, exact)


def test_k3_of_unequal_shapes_is_refused() -> None:
    with pytest.raises(ObjectiveShapeError, match=r"\(2, 3\) and \(3,\)"):
        k3(torch.zeros(2, 3), torch.zeros(3))


@pytest.mark.parametrize(
    ("u", "divergence"), [(0.0, 0.0), (3.0, 4.5), (-3.0, 4.5), (25.0, 200.0)]
)
def test_k2_is_half_the_square_of_the_bounded_log_ratio(
    u: float, divergence: float
) -> None:
    zero = torch.zeros((), dtype=torch.float64)
    assert float(bounded_divergence(zero, zero + u, K2().of_log_ratio)) == divergence


def test_k2_is_the_beginning_of_k3() -> None:
    u = torch.linspace(-1e-3, 1e-3, 11, dtype=torch.float64)
    k2 = bounded_divergence(torch.zeros_like(u), u, K2().of_log_ratio)
    torch.testing.assert_close(k2, k3(torch.zeros_like(u), u), rtol=1e-3, atol=1e-30)
