"""What a run looks at before it starts anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.cluster.preparation import check_machine
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_train_openrlhf.config import TrainConfig

MANY: dict[str, Any] = {"gpus_per_node": 64, "deepspeed": {"forward_micro_batch": 1}}
"""More GPUs than any machine has that tests run on."""


@pytest.mark.parametrize(
    ("cluster", "location", "words"),
    [
        (MANY, "cluster.gpus_per_node", "takes 64 GPUs, and this machine has"),
        (
            {"nodes": 2, "deepspeed": {"forward_micro_batch": 4}},
            "cluster.nodes",
            "cluster.nodes=2: the Ray that a run starts is on this machine alone",
        ),
    ],
)
def test_a_machine_that_cannot_hold_the_run(
    make_config: Callable[..., TrainConfig], cluster: dict[str, Any], location: str, words: str
) -> None:
    config = make_config(cluster=cluster, optim={"micro_batch": 4})
    with pytest.raises(TrainConfigError, match=words) as caught:
        check_machine(config)
    assert caught.value.location == location


@pytest.mark.parametrize(
    "cluster",
    [
        MANY | {"ray": {"address": "auto"}},
        MANY | {"ray": {"dashboard": "http://head:8265"}},
        MANY | {"device": "cpu"},
    ],
)
def test_a_cluster_that_is_elsewhere_is_not_looked_for_here(
    make_config: Callable[..., TrainConfig], cluster: dict[str, Any]
) -> None:
    config = make_config(cluster=cluster, optim={"micro_batch": 4})
    check_machine(config)
    assert config.cluster.run_gpus == 64
