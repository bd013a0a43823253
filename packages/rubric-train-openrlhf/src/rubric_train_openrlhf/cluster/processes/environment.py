"""Environment variables of the processes of a run: of its driver, and of Ray's workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rubric_train_openrlhf.cluster.processes.paths import ClusterPaths
from rubric_train_openrlhf.cluster.processes.settings import (
    DIRECTORY,
    RUN_FILE,
    VISIBLE_GPUS,
    first_gpus,
)

if TYPE_CHECKING:
    from rubric_train_openrlhf.config import TrainConfig


def process_environment(config: TrainConfig) -> dict[str, str]:
    """Variables that every process of a run needs before it loads anything of the stack."""
    on_cpu = config.cluster.device == "cpu"
    variables = {
        RUN_FILE: str(ClusterPaths(config.out.absolute()).run),
        DIRECTORY: str(Path.cwd()),
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_NO_USAGE_STATS": "1",
        # A model is a folder; nothing of a run is looked up on a network.
        "HF_HUB_OFFLINE": "1",
        # The prompt files of two runs have one name, and this cache tells files by theirs.
        "HF_DATASETS_CACHE": str(ClusterPaths(config.out.absolute()).folder / "cache"),
        # OpenRLHF's own settings, which it makes only where it starts Ray itself.
        "NCCL_DEBUG": "WARN",
        "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": "1",
        # Ray would hide the GPUs of workers that ask for none, and warns that it will not.
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        # Under `uv run`, Ray would start every worker by `uv run` in a copy of the folder.
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    }
    threads = config.threads or (1 if on_cpu else None)
    if threads is not None:
        variables["OMP_NUM_THREADS"] = str(threads)
    if on_cpu:
        variables["DS_ACCELERATOR"] = "cpu"
        # Each engine would take the same cores for itself, and the policy others than those.
        variables["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        # Its worker would be a process beside that of the engine's core, to bind cores in.
        variables["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    return variables


def local_environment(config: TrainConfig) -> dict[str, str]:
    """Variables of a driver that starts a cluster of its own: it has not all of the machine.

    The GPUs that are kept for the judge's servers are the last ones.
    """
    cluster = config.cluster
    if cluster.device == "cpu" or not cluster.judge_gpus_per_node:
        return process_environment(config)
    gpus = first_gpus(cluster.gpus_per_node - cluster.judge_gpus_per_node)
    return {**process_environment(config), VISIBLE_GPUS: gpus}
