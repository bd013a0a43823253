"""At unchanged weights log-probabilities agree within rounding, or the run says where not."""

from __future__ import annotations

import pytest
import torch
from structlog.testing import capture_logs

from rubric_train_openrlhf.errors import PolicyMismatchError
from rubric_train_openrlhf.step.agreement import Agreement, Tolerance

MASK = torch.arange(40)[None] < torch.tensor([[40], [4], [1]])
OURS = torch.full((3, 40), -2.0)
SINGLE = Tolerance.of("float32")


def looked(
    theirs: torch.Tensor, tolerance: Tolerance = SINGLE, **kind: str
) -> Agreement:
    check = Agreement(
        "ToyForCausalLM", step=7, on_mismatch=kind.get("on_mismatch", "stop")
    )  # type: ignore[arg-type]
    check.look("the sampler", theirs, OURS, MASK, rows=[5, 2, 9], tolerance=tolerance)
    return check


def test_equal_probabilities_pass_whatever_stands_outside_of_the_mask() -> None:
    looked(OURS.masked_fill(~MASK, 77.0)).settle()


def test_rounding_passes() -> None:
    noise = torch.randn(OURS.shape, generator=torch.Generator().manual_seed(0))
    looked(OURS + 1e-4 * noise).settle()
    looked(OURS + 0.05 * noise, Tolerance.of("bfloat16")).settle()
    looked(OURS + 0.08 * noise, Tolerance.of("bfloat16", by_engine=True)).settle()


def test_one_row_of_many_is_enough_and_is_named_with_its_worst_token() -> None:
    theirs = OURS.clone()
    theirs[1, 2] = -3.5
    theirs[1, 1] = -2.25
    with pytest.raises(PolicyMismatchError) as told:
        looked(theirs).settle()

    text = str(told.value)
    assert "step 7: ToyForCausalLM" in text
    assert "response 2 " in text
    assert (
        "token 3 most, with log-probability -3.5000 by the sampler and -2.0000" in text
    )


def test_a_shift_that_each_short_row_hides_shows_over_all_of_them() -> None:
    rows = torch.full((400, 1), -2.0)
    check = Agreement("ToyForCausalLM", step=1, on_mismatch="stop")
    check.look(
        "the engine",
        rows + 0.3,
        rows,
        torch.ones(400, 1, dtype=torch.bool),
        rows=range(400),
        tolerance=Tolerance.of("bfloat16", by_engine=True),
    )
    with pytest.raises(PolicyMismatchError, match=r"0\.3 over all tokens"):
        check.settle()


def test_what_is_no_number_is_no_rounding() -> None:
    with pytest.raises(PolicyMismatchError):
        looked(OURS.masked_fill(MASK, float("nan"))).settle()


def test_a_run_may_go_on_with_a_warning() -> None:
    with capture_logs() as logs:
        looked(OURS - 1.0, on_mismatch="warn").settle()

    (said,) = logs
    assert (said["event"], said["architecture"]) == (
        "train.policies_differ",
        "ToyForCausalLM",
    )
