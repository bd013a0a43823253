"""What half precision makes of the same update, and what becomes of one that overflows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.cluster.training.trained import check_update
from rubric_train_openrlhf.errors import NonFiniteUpdateError

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import BothBackends

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # OpenRLHF pins the memory of its batches whether or not there is a GPU.
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set:UserWarning"),
]


def test_bfloat16_makes_a_difference_that_is_known(
    both: BothBackends, tmp_path: Path, record_property: Any
) -> None:
    """Half precision: weights that are rounded (OpenRLHF), or compute that is (local)."""
    half = both.config(tmp_path / "half", precision="bfloat16")
    exact = both.local(both.config(tmp_path / "single"))
    of_local = exact.gradient_error(both.local(half))
    of_cluster = exact.gradient_error(both.cluster(half))
    record_property("gradient_error_local_bf16", of_local)
    record_property("gradient_error_openrlhf_bf16", of_cluster)
    assert 1e-4 < of_local < 0.2
    assert 1e-4 < of_cluster < 0.2


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
def test_an_update_that_deepspeed_passes_over_is_told_by_its_norm(
    both: BothBackends, tmp_path: Path
) -> None:
    """A gradient overflows under a loss that is finite; the run must stop, not go on."""
    from rubric_train_openrlhf.cluster.training.learner import RubricLearner

    make_pass = RubricLearner.training_step

    def overflow(learner: Any, *parts: Any, **named: Any) -> Any:
        weight = next(learner.actor.model.module.parameters())
        hook = weight.register_hook(lambda gradient: gradient * math.inf)
        try:
            return make_pass(learner, *parts, **named)
        finally:
            hook.remove()

    both.monkeypatch.setattr(RubricLearner, "training_step", overflow)
    update = both.cluster(both.config(tmp_path / "run", precision="bfloat16"))
    assert math.isfinite(update.loss)
    with pytest.raises(NonFiniteUpdateError, match="grad_norm"):
        check_update({"loss": update.loss, "grad_norm": update.grad_norm}, step=1)
