"""The judge coordinator as an actor of Ray, from its start to its end."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# Ray's handles have no types.
from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import ray
import structlog
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rubric_train_openrlhf.cluster.judging.coordinator import JudgeCoordinator
from rubric_train_openrlhf.cluster.sampling.judge_calls import COORDINATOR, ask

if TYPE_CHECKING:
    from rubric_train_openrlhf.config import TrainConfig

_AT_ONCE = 100_000

_log = structlog.get_logger()


def start_coordinator(config: TrainConfig, *, namespace: str) -> Any:
    """Start the judge's side of a run in an actor of its own; `open_coordinator` waits for it.

    It stays on this node, where the task files and the run folder are, and is started again
    whenever it dies. It ends with the process that calls this.

    Args:
        config: of the run. The judge's keys are read from the environment of Ray's workers.
        namespace: of Ray, one for each run.

    Returns:
        Ray's handle of a `JudgeCoordinator`.
    """
    here = ray.get_runtime_context().get_node_id()
    options: dict[str, Any] = {
        "name": COORDINATOR,
        "namespace": namespace,
        "num_cpus": 0,
        "max_restarts": -1,
        "max_concurrency": _AT_ONCE,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=False),
    }
    return cast("Any", ray).remote(JudgeCoordinator).options(**options).remote(config)


def open_coordinator(coordinator: Any) -> None:
    """Wait until the judge's side can judge.

    Args:
        coordinator: of `start_coordinator`.

    Raises:
        TrainConfigError, RubricFileError, LeakError: as `read_book`.
        JudgeSetupError, ConfigError, PluginError: the judge cannot be built or does not answer.
        LedgerError: the ledger cannot be used.
        ClusterError: the actor does not come up.
    """
    ask(coordinator.open)


def stop_coordinator(coordinator: Any) -> None:
    """End the judge and then its coordinator; one that is dead already is as good."""
    try:
        ray.get(coordinator.aclose.remote(), timeout=30)
    except RayError as error:
        _log.warning("cluster.coordinator.not_closed", error=type(error).__name__)
    ray.kill(coordinator)
