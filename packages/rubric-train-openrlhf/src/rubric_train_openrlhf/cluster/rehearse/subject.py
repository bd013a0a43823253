"""What is rehearsed, and what the checks learn of it on their way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rubric_train_openrlhf.cluster.rehearse.finding import failed, unchecked

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rubric_core import Task
    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.policy import ChatCodec

JudgeChoice = Literal["auto", "config", "lexical", "fake"]
"""Who judges: the configuration's judge, the lexical one, or an endpoint of ours that speaks the
protocol of the configuration's language model. `auto` takes the endpoint for a language model that
is elsewhere, and else the configuration's."""


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    source: Path
    """The production configuration's file."""
    values: Mapping[str, object]
    """Its values, overrides included, unchecked."""
    folder: Path
    """Where the rehearsal writes."""
    judge: JudgeChoice = "auto"
    data: Path | None = None
    """Tasks to rehearse with, in place of the configuration's."""
    on_cluster: bool = False
    """Whether this machine is one of the cluster's: what is missing here is then missing there."""
    deadline_s: float = 600.0
    """Longest time for the run itself."""
    run: bool = True
    """Whether the two steps are run, or the checks before them alone."""


class UnknownError(LookupError):
    """A check asked for what no check before it could find out; says which would have."""


@dataclass
class Subject:
    """A request and what is known of it so far; each check fills in what later ones need."""

    request: Request
    config: TrainConfig | None = None
    """Once its sections are read; what they require of each other may still be wrong."""
    tasks: dict[str, tuple[Task, ...]] = field(default_factory=dict[str, "tuple[Task, ...]"])
    """Usable tasks by the key of their file: `data.train`, `data.validation`."""
    places: dict[str, str] = field(default_factory=dict[str, str])
    """File and line of each task that was read, by its id."""
    codec: ChatCodec | None = None
    """The model's own tokenizer, where its folder is on this machine."""
    rehearsed: TrainConfig | None = None
    """The configuration of the two steps, once they are about to run."""
    arguments: frozenset[bytes] = frozenset()
    """Arguments and variables that the processes of the two steps were seen with."""
    stand_ins: list[str] = field(default_factory=list[str])
    """What took the place of something."""

    @property
    def known(self) -> TrainConfig:
        """The configuration.

        Raises:
            UnknownError: a section of it could not be read.
        """
        if self.config is None:
            raise UnknownError("configuration")
        return self.config

    @property
    def train_tasks(self) -> tuple[Task, ...]:
        """The tasks to train on.

        Raises:
            UnknownError: there is no usable one.
        """
        if not self.tasks.get("data.train"):
            raise UnknownError("training tasks")
        return self.tasks["data.train"]

    def place(self, task_id: str) -> str:
        """Where a task stands: its id, and its file and line."""
        at = self.places.get(task_id)
        return f"{task_id} ({at})" if at else task_id

    def absent(self, what: str, *, where: str, remedy: str) -> Finding:
        """What is not on this machine: wrong on the cluster, nothing to tell anywhere else."""
        finding = failed if self.request.on_cluster else unchecked
        return finding(what, where=where, remedy=remedy)

    def stand_in(self, what: str) -> None:
        """Note once what took the place of what."""
        if what not in self.stand_ins:
            self.stand_ins.append(what)
