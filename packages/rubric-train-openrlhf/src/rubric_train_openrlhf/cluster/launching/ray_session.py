"""Ray for the length of a run, and the judge coordinator in it, as an actor.

The cluster is this machine's own, or one that is there already.
"""

import contextlib
import os
from collections.abc import Generator
from typing import Any, cast

import psutil
import ray
import structlog
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rubric_train_openrlhf.cluster import judging, orphans, settings
from rubric_train_openrlhf.cluster.launching.workers import CPU_SETUP_HOOK, SETUP_HOOK
from rubric_train_openrlhf.cluster.sampling.judge_calls import COORDINATOR
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import ClusterError

_CPU_STORE_BYTES = 2**29
"""Object store of a cluster without GPUs, whose batches are small."""
_OWN = "local"
"""Address of a cluster that Ray starts, whatever other one RAY_ADDRESS names."""
_TRIES = 5
"""Tries of half a minute each, which is as long as Ray waits for its own processes."""
_SPARE_CPUS = 8
"""CPUs for the trainer, the coordinator and the judges, which ask Ray for less than one each."""

_AT_ONCE = 100_000
"""Calls that the coordinator takes at once."""

_log = structlog.get_logger()


@contextlib.contextmanager
def ray_session(config: TrainConfig, *, namespace: str) -> Generator[None]:
    """Start or join a cluster; on leaving, end all that this run has on it.

    A cluster that was started here ends, and its logs are kept in the run folder. On one that was
    joined, Ray ends the actors and placement groups of this run when it leaves.

    Args:
        config: of the run.
        namespace: of the run's named actors.
    """
    joined = config.cluster.ray
    # A job runs on a machine of its cluster, which says where that is.
    address = joined.address if joined.dashboard is None else "auto"
    hook = CPU_SETUP_HOOK if config.cluster.device == "cpu" else SETUP_HOOK
    variables = settings.process_environment(config)
    environment = {"env_vars": variables, "worker_process_setup_hook": hook}
    options: dict[str, Any] = {"namespace": namespace, "runtime_env": environment}
    with contextlib.ExitStack() as held:
        if address is None:
            logs = settings.ClusterPaths(config.out).logs / "ray"
            folder = held.enter_context(
                orphans.temporary_folder(orphans.RAY, logs=logs)
            )
            options |= {"include_dashboard": False, "_temp_dir": str(folder)}
            options |= _own_cluster(config)
        held.callback(ray.shutdown)
        _start(address=address or _OWN, **options)
        yield


def _start(**options: Any) -> None:
    """Start or join Ray.

    Raises:
        ClusterError: it does not come up; says why.
    """
    is_own = options["address"] == _OWN
    for left in reversed(range(_TRIES if is_own else 1)):
        try:
            ray.init(**options)
        # Ray raises bare exceptions when it cannot start: it waits a fixed time for its own
        # processes, and a busy machine may need more than one try.
        except Exception as error:
            ray.shutdown()
            # Processes that the failed start left behind.
            for child in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            if not left:
                reason = str(error).partition("\n")[0]
                if is_own:
                    raise ClusterError(f"Ray does not start: {reason}") from error
                raise ClusterError(
                    f"no Ray at {options['address']!r}: {reason}; if it wants a token, as Ray 2.60 "
                    "and later may, set RAY_AUTH_MODE=token"
                ) from error
            _log.warning("cluster.ray.starts_again", error=type(error).__name__)
        else:
            return


def _own_cluster(config: TrainConfig) -> dict[str, Any]:
    """Resources of a cluster on this machine; on a CPU they are numbers that Ray counts by."""
    cluster = config.cluster
    needed = 2 * cluster.run_gpus + _SPARE_CPUS
    resources: dict[str, Any] = {
        "num_gpus": cluster.run_gpus,
        "num_cpus": cluster.ray.cpus or max(needed, os.cpu_count() or 1),
    }
    if cluster.device == "cpu":
        resources["object_store_memory"] = _CPU_STORE_BYTES
        resources["_node_ip_address"] = "127.0.0.1"
    return resources


def start_coordinator(config: TrainConfig, *, namespace: str) -> Any:
    """Start the judge's side of a run in an actor of its own; its method `open` waits for it.

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
    return (
        cast("Any", ray)
        .remote(judging.JudgeCoordinator)
        .options(**options)
        .remote(config)
    )


def stop_coordinator(coordinator: Any) -> None:
    """End the judge and then its coordinator; one that is dead already is as good."""
    try:
        ray.get(coordinator.aclose.remote(), timeout=30)
    except RayError as error:
        _log.warning("cluster.coordinator.not_closed", error=type(error).__name__)
    ray.kill(coordinator)
