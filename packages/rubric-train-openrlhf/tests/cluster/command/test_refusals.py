"""What OpenRLHF cannot do is refused, with its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.cluster.command.refusals import check_expressible
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_train_openrlhf.config.train import TrainConfig

GSPO = {"ratio": "sequence", "aggregation": "sequence"}


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"model": {"type": "tiny", "documents": "d.jsonl"}}, "model.type"),
        ({"seed": 2**32 - 4}, "seed"),
        (
            {"objective": {"importance": {"type": "tis", "level": "sequence"}}},
            "objective.importance.level",
        ),
        (
            {"objective": {"importance": {"type": "icepop", "level": "sequence"}}},
            "objective.importance.level",
        ),
        (
            {"objective": GSPO | {"importance": {"type": "tis"}}},
            "objective.importance.type",
        ),
        ({"objective": GSPO | {"aggregation": "token"}}, "objective.aggregation"),
        ({"cluster": {"deepspeed": {"zero_stage": 1}}}, "cluster.deepspeed.zero_stage"),
    ],
)
def test_refused(
    make_config: Callable[..., TrainConfig], sections: dict[str, Any], key: str
) -> None:
    with pytest.raises(TrainConfigError, match=key) as caught:
        check_expressible(make_config(**sections))
    assert caught.value.location == key


def test_all_of_them_at_once(make_config: Callable[..., TrainConfig]) -> None:
    with pytest.raises(TrainConfigError, match=r"seed.*objective\.aggregation"):
        check_expressible(make_config(seed=2**32, objective={"ratio": "sequence"}))


@pytest.mark.parametrize(
    "objective",
    [
        {},
        GSPO,
        GSPO | {"dual_clip": 3.0, "kl_coef": 0.0},
        {"importance": {"type": "tis"}},
        {"importance": {"type": "seq_mask_tis"}, "aggregation": "sequence"},
    ],
)
def test_allowed(
    make_config: Callable[..., TrainConfig], objective: dict[str, Any]
) -> None:
    check_expressible(make_config(objective=objective))


@pytest.mark.parametrize(
    "sections",
    [
        {"cluster": {"deepspeed": {"zero_stage": 1, "grad_accumulation": "bfloat16"}}},
        {"cluster": {"deepspeed": {"zero_stage": 1, "offload_optimizer": True}}},
        {
            "cluster": {"deepspeed": {"zero_stage": 1, "attention": "sdpa"}},
            "precision": "float32",
        },
    ],
)
def test_zero_1_where_it_is_the_optimiser_of_the_others(
    make_config: Callable[..., TrainConfig], sections: dict[str, Any]
) -> None:
    check_expressible(make_config(**sections))
