"""What is rehearsed, and checks in order: one that fails holds back only what builds on it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import structlog

from rubric_core import RubricError
from rubric_train_openrlhf.cluster.rehearse.finding import (
    Finding,
    Status,
    failed,
    passed,
    unchecked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from rubric_core import Task
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


_log = structlog.get_logger()
_LONGEST_DETAIL = 600


@dataclass(frozen=True)
class Check:
    """One question about a subject."""

    name: str
    ask: Callable[[Subject], Iterable[Finding]]
    """Yields findings; none at all means that there is nothing to say, and counts as passed."""
    needs: tuple[str, ...] = ()
    """Checks without whose success this one says nothing."""


def run_checks(
    checks: Sequence[Check],
    subject: Subject,
    *,
    on_check: Callable[[str], object] | None = None,
    earlier: Sequence[Finding] = (),
) -> list[Finding]:
    """Ask every check that can be asked.

    Args:
        checks: in an order in which each comes after what it needs.
        subject: what is asked about.
        on_check: called with the name of each check before it runs.
        earlier: findings of checks that were run before these.

    Returns:
        The findings in the order of the checks, at least one for each.
    """
    missing = {found.check for found in earlier if found.status is Status.FAILED}
    findings: list[Finding] = []
    for check in checks:
        if on_check is not None:
            on_check(check.name)
        lacking = [name for name in check.needs if name in missing]
        started_s = time.perf_counter()
        found = [_waits_for(lacking[0])] if lacking else _asked(check, subject)
        seconds = time.perf_counter() - started_s
        if lacking or any(one.status is Status.FAILED for one in found):
            missing.add(check.name)
        findings += [
            one.model_copy(update={"check": check.name, "seconds": seconds}) for one in found
        ]
        _log.info("rehearse.check.finished", check=check.name, seconds=seconds)
    return findings


def _asked(check: Check, subject: Subject) -> list[Finding]:
    try:
        return list(check.ask(subject)) or [passed("nothing to object to")]
    except UnknownError as error:
        return [_waits_for(str(error))]
    except RubricError as error:
        return [failed(_short(error), where=str(getattr(error, "location", "") or ""))]
    # The named boundary of a rehearsal: what a model folder, a stack or a disk raises is not known
    # beforehand, and the other checks still have something to say.
    except Exception as error:  # noqa: BLE001
        return [
            failed(
                f"the check itself ended with {type(error).__name__}: {_short(error)}",
                remedy="repair what it names; the cluster would meet it too",
            )
        ]


def _waits_for(name: str) -> Finding:
    return unchecked(f"needs {name!r}")


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}…"
