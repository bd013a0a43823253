"""Settings of a run's processes: their variables, which only this module reads, and their files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rubric_core.files import toml_beside
from rubric_train_openrlhf.errors import ClusterError

if TYPE_CHECKING:
    from rubric_train_openrlhf.config.train import TrainConfig


RUN_FILE = "RUBRIC_TRAIN_RUN"
"""Names the file that every process on the policy's side reads; Ray hands it to its workers."""
DIRECTORY = "RUBRIC_TRAIN_DIRECTORY"
"""Names the working directory of the driver; Ray hands it to its workers."""
LOAD_ALL = "RUBRIC_TRAIN_LOAD_ALL"
"""With `1`, a run on a CPU loads what the stack loads for other uses, too."""
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
_VARIABLES: dict[str, dict[str, str]] = toml_beside(__file__, "variables.toml")


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


def is_on_cpu() -> bool:
    """Whether this process is of a run without a GPU."""
    return os.environ.get("DS_ACCELERATOR") == _VARIABLES["on_cpu"]["DS_ACCELERATOR"]


def loads_all() -> bool:
    """Whether nothing is left out of what the stack loads."""
    return os.environ.get(LOAD_ALL) == "1"


def is_eager() -> bool:
    """Whether torch compiles nothing in this process."""
    return (
        os.environ.get("TORCH_COMPILE_DISABLE")
        == _VARIABLES["eager"]["TORCH_COMPILE_DISABLE"]
    )


def inherited() -> dict[str, str]:
    """The environment of this process, for one that it starts."""
    return dict(os.environ)


def set_default(name: str, value: str) -> None:
    """Set a variable of this process, and of those that it starts, where it is not set yet."""
    os.environ.setdefault(name, value)


class ClusterPaths:
    """Names inside a run folder; on several nodes the folder is on a file system they share."""

    def __init__(self, out: Path) -> None:
        """Name the files; nothing is created."""
        self.folder = out / "cluster"
        self.run = self.folder / "run.json"
        """The file that the policy's side reads; it names no task file."""
        self.train_prompts = self.folder / "train.prompts.jsonl"
        """Questions and task ids to train on."""
        self.heldout_prompts = self.folder / "heldout.prompts.jsonl"
        """Questions and task ids of the held-out passes."""
        self.warm_start = self.folder / "warm_start"
        """The folder that the supervised start writes."""
        self.trainer_state = out / "checkpoints" / "trainer"
        """DeepSpeed's state, to go on from."""
        self.last_model = self.trainer_state / "last"
        """Where OpenRLHF saves the policy when it ends."""
        self.logs = out / "logs"
        """Output of Ray's processes."""


class WarmStartPaths:
    """Files of a warm start, all in one folder."""

    def __init__(self, folder: Path) -> None:
        """Name the files; nothing is created."""
        self.folder = folder
        self.examples = folder / "examples.jsonl"
        """Training examples in OpenRLHF's layout."""
        self.trained = folder / "trained"
        """The model or the adapters that OpenRLHF saves."""
        self.model = folder / "model"
        """The model that GRPO starts from; it appears whole or not at all."""
        self.done = folder / "done.json"
        """Record of what the model was made of; written last."""
        self.log = folder / "train_sft.log"
        """Output of OpenRLHF."""


def process_environment(config: TrainConfig) -> dict[str, str]:
    """Variables that every process of a run needs before it loads anything of the stack."""
    on_cpu = config.cluster.device == "cpu"
    variables = {
        RUN_FILE: str(ClusterPaths(config.out.absolute()).run),
        DIRECTORY: str(Path.cwd()),
        # The prompt files of two runs have one name, and this cache tells files by theirs.
        "HF_DATASETS_CACHE": str(ClusterPaths(config.out.absolute()).folder / "cache"),
        **_VARIABLES["always"],
    }
    if threads := config.threads or (1 if on_cpu else None):
        variables["OMP_NUM_THREADS"] = str(threads)
    if on_cpu and config.cluster.engines.enforce_eager:
        variables |= _VARIABLES["eager"]
    return variables | (_VARIABLES["on_cpu"] if on_cpu else {})


def local_environment(config: TrainConfig) -> dict[str, str]:
    """Variables of a driver that starts a cluster of its own: it has not all of the machine.

    The GPUs that are kept for the judge's servers are the last ones.
    """
    cluster = config.cluster
    if cluster.device == "cpu" or not cluster.judge_gpus_per_node:
        return process_environment(config)
    n = cluster.gpus_per_node - cluster.judge_gpus_per_node
    visible = os.environ.get(VISIBLE_GPUS)
    names = visible.split(",") if visible else list(map(str, range(n)))
    return {**process_environment(config), VISIBLE_GPUS: ",".join(names[:n])}
