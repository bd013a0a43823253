"""One update through OpenRLHF and DeepSpeed against the same update of the local backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import BothBackends, Update

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # OpenRLHF pins the memory of its batches whether or not there is a GPU.
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set:UserWarning"),
]

VALID_RESPONSES = 7
FIGURES = ("loss", "kl", "clip_frac", "ratio_mean", "grad_norm")

VARIANTS: dict[str, dict[str, Any]] = {
    "main": {},
    "sequence ratio": {
        "objective": {
            "ratio": "sequence",
            "aggregation": "sequence",
            "clip_low": 0.05,
            "clip_high": 0.01,
        }
    },
    "sequence mean": {"objective": {"aggregation": "sequence"}},
    "truncated weights": {"objective": {"importance": {"type": "tis", "cap": 1.0}}},
    "weights in a band": {
        "objective": {"importance": {"type": "icepop", "low": 0.9, "high": 1.1}}
    },
    "responses in a band": {
        "objective": {"importance": {"type": "seq_mask_tis", "low": 0.95, "high": 1.01}}
    },
    "dual clip": {"objective": {"dual_clip": 1.25}},
    "no divergence": {"objective": {"kl_coef": 0.0}},
    "two updates": {
        # So far that the second update meets the clip.
        "optim": {"updates_per_rollout": 2, "learning_rate": 0.3},
        "objective": {
            "importance": {"type": "tis", "cap": 1.0},
            "aggregation": "sequence",
        },
    },
}


@pytest.mark.parametrize("name", VARIANTS)
def test_one_update_in_float32_is_that_of_the_local_backend(
    name: str, both: BothBackends, main_update: Update, tmp_path: Path
) -> None:
    config = both.config(tmp_path / "run", **VARIANTS[name])
    ours, theirs = both.local(config), both.cluster(config)
    assert_same(ours, theirs)
    # A variant that does nothing on these responses would be equal for no reason.
    difference = main_update.gradient_error(ours)
    assert difference == 0 if name == "main" else difference > 0.1
    if config.objective.importance.type == "none":
        assert theirs.dropped_frac is None
    else:
        assert theirs.dropped_frac is not None
        assert 0 < theirs.dropped_frac < 1
    if config.objective.importance.type == "seq_mask_tis":
        dropped = theirs.dropped_frac * VALID_RESPONSES
        assert dropped == pytest.approx(round(dropped))  # whole responses


def test_one_update_of_an_untied_head_is_that_of_the_local_backend(
    with_untied_heads: BothBackends, tmp_path: Path
) -> None:
    config = with_untied_heads.config(tmp_path / "run")
    ours, theirs = with_untied_heads.local(config), with_untied_heads.cluster(config)
    assert_same(ours, theirs)
    assert ours.gradients["lm_head.weight"].norm() > 0


def assert_same(ours: Update, theirs: Update) -> None:
    assert abs(ours.loss) > 1e-3
    for name in FIGURES:
        assert getattr(theirs, name) == pytest.approx(getattr(ours, name), rel=1e-4), (
            name
        )
    assert ours.worst_error(theirs) <= 1e-4
