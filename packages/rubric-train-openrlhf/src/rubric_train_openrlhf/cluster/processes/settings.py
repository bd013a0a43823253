"""What a process of the cluster is told by its environment; the only reader of it here."""

from __future__ import annotations

import os
from pathlib import Path

from rubric_train_openrlhf.errors import ClusterError

RUN_FILE = "RUBRIC_TRAIN_RUN"
"""Names the file that every process on the policy's side reads; Ray hands it to its workers."""
DIRECTORY = "RUBRIC_TRAIN_DIRECTORY"
"""Names the working directory of the driver; Ray hands it to its workers."""
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


def run_file() -> Path:
    """Path of the run's file.

    Raises:
        ClusterError: this process was not started by `rubric-train run`.
    """
    path = os.environ.get(RUN_FILE)
    if path is None:
        raise ClusterError(
            f"{RUN_FILE} is not set: this process belongs to a run of the `openrlhf` backend; "
            "start one with `rubric-train run`"
        )
    return Path(path)


def directory() -> str:
    """Working directory of the driver; of this process where it is not told."""
    return os.environ.get(DIRECTORY, ".")


def first_gpus(n: int) -> str:
    """Name the first n GPUs that this process may use, for CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get(VISIBLE_GPUS)
    names = visible.split(",") if visible else [str(number) for number in range(n)]
    return ",".join(names[:n])


def inherited() -> dict[str, str]:
    """The environment of this process, for one that it starts."""
    return dict(os.environ)


def set_default(name: str, value: str) -> None:
    """Set a variable of this process, and of those that it starts, where it is not set yet."""
    os.environ.setdefault(name, value)
