"""The part of a run that the policy's side may know: no task file, no judge, no penalty.

The driver writes it, and the trainer, the policy and the engines read it in their processes.
"""

import json
from pathlib import Path  # pydantic resolves it at runtime
from typing import Self

from pydantic import Field, ValidationError

from rubric_core import Thoughts
from rubric_core.files import read_file
from rubric_train_openrlhf.cluster.settings import run_file
from rubric_train_openrlhf.config.sections import OnDivergence
from rubric_train_openrlhf.config.train import PolicySettings, TrainConfig
from rubric_train_openrlhf.errors import ClusterError
from rubric_train_openrlhf.run.writing import write_text


class PolicyRun(PolicySettings):
    """A run as its policy's side sees it."""

    out: Path
    """Run folder."""
    namespace: str
    """Ray's namespace, where the judge coordinator is found."""
    heldout: bool
    """Whether there are held-out questions."""
    judge_calls: int
    """Most judge calls under way from the process of one engine."""
    end_token_ids: tuple[int, ...]
    """Tokens that end a response, whatever vLLM takes from the model's files beside them."""
    saved_dtype: str | None
    """Number format of the policies that are saved; None is that of training."""
    thoughts: Thoughts = "cut"
    """How its thoughts are told from its answers."""
    watch: OnDivergence | None = Field(default=None, exclude_if=lambda watch: not watch)
    """Whether the judge's side wants the answers of every step and pass again, to audit or monitor
    them, and what an alarm of it does."""

    @classmethod
    def of(
        cls,
        config: TrainConfig,
        *,
        namespace: str,
        end_token_ids: tuple[int, ...] = (),
        saved_dtype: str | None = None,
    ) -> Self:
        """Take from a configuration what the policy's side may know; the model's folder says more.

        Args:
            config: of the run.
            namespace: of the run's named actors in Ray.
            end_token_ids: of the model.
            saved_dtype: of the model, where the configuration leaves it to that.
        """
        dtype = config.checkpoint.dtype
        return cls(
            out=config.out.absolute(),
            namespace=namespace,
            heldout=config.data.validation is not None,
            judge_calls=config.judge.workers * config.judge.micro_batch,
            thoughts=config.model.told_thoughts,
            watch=_watch(config),
            end_token_ids=end_token_ids,
            saved_dtype=saved_dtype if dtype == "auto" else dtype,
            **{name: getattr(config, name) for name in PolicySettings.model_fields},
        )

    def write(self, path: Path) -> None:
        """Write the file that `read_policy_run` reads.

        Raises:
            DiskWriteError: the file could not be written.
        """
        # Python's own JSON has a word for infinity, which is how a norm is left unclipped.
        write_text(path, json.dumps(self.model_dump(mode="json"), indent=2) + "\n")


def _watch(config: TrainConfig) -> OnDivergence | None:
    if config.audit is not None:
        return config.audit.on_divergence
    return "log" if config.is_monitored else None


def read_policy_run() -> PolicyRun:
    """Read the run that this process belongs to.

    Raises:
        ClusterError: there is none, or its file is damaged.
    """
    path = run_file()
    try:
        return PolicyRun.model_validate(json.loads(read_file(path)))
    except (OSError, ValueError, ValidationError) as error:
        raise ClusterError(
            f"{str(path)!r} cannot be read as the run of this process "
            f"({type(error).__name__}); on several nodes `out` must be on a file system that "
            "all of them see"
        ) from error
