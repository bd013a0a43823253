"""Files of a run that only this backend has, beside those of every run folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class ClusterPaths:
    """Names inside a run folder; on several nodes the folder is on a file system they share."""

    def __init__(self, out: Path) -> None:
        """Name the files; nothing is created."""
        self.folder = out / "cluster"
        self.run = self.folder / "run.json"
        """What the policy's side reads; names no task file."""
        self.train_prompts = self.folder / "train.prompts.jsonl"
        """Questions and task ids to train on."""
        self.heldout_prompts = self.folder / "heldout.prompts.jsonl"
        """Questions and task ids of the held-out passes."""
        self.warm_start = self.folder / "warm_start"
        """What the supervised start writes."""
        self.trainer_state = out / "checkpoints" / "trainer"
        """DeepSpeed's state, to go on from."""
        self.last_model = self.trainer_state / "last"
        """Where OpenRLHF saves the policy when it ends."""
        self.logs = out / "logs"
        """Output of Ray's processes."""
