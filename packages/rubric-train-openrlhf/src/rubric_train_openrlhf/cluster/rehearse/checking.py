"""The subject of a rehearsal, its checks, and the report of all their findings."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict

from rubric_core import RubricError, Task
from rubric_core.errors import shortened
from rubric_judge.ui.console.command import console, styled
from rubric_judge.ui.console.printing import Printed, print_cells
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.policy import ChatCodec

TWO_STEPS = "two steps"
"""The check that runs them."""


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    """The run would stop on the cluster, or train on something wrong; or it did not end here in
    time, which the remedy says, and then nothing is known of the cluster."""
    WARNING = "warning"
    """The run would go on, but perhaps not as meant."""
    UNCHECKED = "not checkable here"
    """Nothing on this machine can tell; the detail says why."""


@dataclass(frozen=True)
class Finding:
    """One thing that a check has to say; texts of tasks and keys never stand in it."""

    status: Status
    detail: str
    """The finding, with its value."""
    where: str = ""
    """Key of the configuration, or file and line."""
    remedy: str = ""
    """The remedy; empty if nothing needs to be done."""
    check: str = ""
    """Name of the check; set by whoever runs it."""
    seconds: float = 0.0
    """Time of the whole check."""


passed = partial(Finding, Status.PASSED)
failed = partial(Finding, Status.FAILED)
warning = partial(Finding, Status.WARNING)
unchecked = partial(Finding, Status.UNCHECKED)


class Report(BaseModel):
    """All that a rehearsal found: rehearse.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: str
    """The production configuration."""
    stand_ins: tuple[str, ...] = ()
    """Replacements of what is not on this machine, or was not chosen."""
    findings: tuple[Finding, ...]
    wall_s: float

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings that have to be repaired before the run."""
        return tuple(
            finding for finding in self.findings if finding.status is Status.FAILED
        )

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def has_run(self) -> bool:
        """Whether the two steps were tried."""
        return any(
            finding.status is not Status.UNCHECKED for finding in self.of(TWO_STEPS)
        )

    @property
    def counts(self) -> dict[str, int]:
        """Findings by status, those that occur."""
        counted = Counter(finding.status for finding in self.findings)
        return {status.value: counted[status] for status in Status if status in counted}

    def to_json(self) -> str:
        """Write the report as one JSON object, with the verdict and the counts first."""
        whole = {
            "passed": self.passed,
            "counts": self.counts,
            **self.model_dump(mode="json"),
        }
        return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"

    def of(self, check: str) -> Iterator[Finding]:
        """Findings of one check."""
        return (finding for finding in self.findings if finding.check == check)


Part = str | tuple[str, str]
"""Part of a printed text: plain, or with its style."""
_STYLE = dict(zip(Status, ("green", "bold red", "yellow", "cyan"), strict=True))
_LOG_COLUMNS = 140
"""Width of a table where there is no terminal."""


def print_report(report: Report, *, folder: Path) -> None:
    """Print what stood in, a table of all findings, and each failure once more with its remedy.

    Args:
        report: what was found.
        folder: of the rehearsal, to be named.
    """
    stdout = console()
    names = ("check", "result", "found", "s")
    if not stdout.is_terminal:
        stdout.width = _LOG_COLUMNS
    for stand_in in report.stand_ins:
        stdout.print(styled((f"stand-in: {stand_in}", "cyan")))
    rows: list[tuple[Printed, ...]] = []
    for name, findings in groupby(report.findings, key=attrgetter("check")):
        for number, finding in enumerate(findings):
            # Failures are printed below with their remedies.
            parts = _advised(finding)
            if finding.status is Status.FAILED:
                parts = [_said(finding)]
            first = ("", "") if number else (name, f"{finding.seconds:.1f}")
            status = styled((finding.status.value, _STYLE[finding.status]))
            rows.append((first[0], status, styled(*parts), first[1]))
    print_cells(stdout, f"rehearsal of {report.config}", names, rows)
    for failure in report.failures:
        stdout.print(styled(*_with_its_check(failure)))
    stdout.print(styled((f"report and logs: {folder}", "dim")))
    counts = [
        f"{n} {key}s" if key == Status.WARNING and n > 1 else f"{n} {key}"
        for key, n in report.counts.items()
    ]
    verdict, style = (
        ("passed", "bold green") if report.passed else ("FAILED", "bold red")
    )
    what = "" if report.has_run else ", without the two steps"
    said = f"rehearsal {verdict} in {report.wall_s:.0f} s{what}: "
    stdout.print(styled((said, style), ", ".join(counts)))


def print_failure(failure: Finding) -> None:
    """Print a failure, and what to do about it, on standard error."""
    console(stderr=True).print(styled(*_with_its_check(failure)))


def _with_its_check(failure: Finding) -> list[Part]:
    return [(f"✗ {failure.check}: ", "bold red"), *_advised(failure)]


def _advised(finding: Finding) -> list[Part]:
    remedy = (f"\n  → {finding.remedy}", "dim")
    return [_said(finding), remedy] if finding.remedy else [_said(finding)]


def _said(finding: Finding) -> str:
    """The detail after its key, which it may name itself."""
    if not finding.where or finding.where in finding.detail:
        return finding.detail
    return f"{finding.where}: {finding.detail}"


JudgeChoice = Literal["auto", "config", "claims", "lexical", "fake"]
"""Who judges: the configuration's judge, one that is a program, or an endpoint of ours that speaks
the protocol of the configuration's language model. `auto` takes the endpoint for a language model
that is elsewhere, and else the configuration's."""


@dataclass(frozen=True)
class Request:
    """A request for a rehearsal."""

    source: Path
    """The production configuration's file."""
    values: Mapping[str, object]
    """Its values, overrides included, unchecked."""
    folder: Path
    """Where the rehearsal writes."""
    overrides: tuple[str, ...] = ()
    judge: JudgeChoice = "auto"
    data: Path | None = None
    """Tasks to rehearse with, in place of the configuration's."""
    on_cluster: bool = False
    """Whether this machine is one of the cluster's: what is missing here is then missing there."""
    deadline_s: float = 600.0
    """Longest time for the run itself."""
    run: bool = True
    """Whether the two steps are run, or the checks before them alone."""


class EndedError(Exception):
    """A check ends with one last `Finding`, which this is raised with."""


def needs(check: str) -> Finding:
    """Say which check should have found out what this one needs."""
    return unchecked(f"needs {check!r}")


@dataclass
class Subject:
    """A request and what is known of it so far; each check fills in what later ones need."""

    request: Request
    config: TrainConfig | None = None
    """Once its sections are read; what they require of each other may still be wrong."""
    tasks: dict[str, tuple[Task, ...]] = field(
        default_factory=dict[str, "tuple[Task, ...]"]
    )
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
    """Descriptions of all replacements."""

    @property
    def known(self) -> TrainConfig:
        """The configuration.

        Raises:
            EndedError: a section of it could not be read.
        """
        if self.config is None:
            raise EndedError(needs("configuration"))
        return self.config

    @property
    def model_folder(self) -> Path | None:
        """Where the model is, or should be; None for one that is built.

        Raises:
            EndedError: it cannot be had; the check of the model says why.
        """
        try:
            return self.find_model()
        except RubricError:
            raise EndedError(needs("model")) from None

    def find_model(self) -> Path | None:
        """Find the model's folder; None for one that is built.

        Raises:
            RubricError: the model of an installed package cannot be had.
        """
        model = self.known.model
        return None if model.type == "tiny" else model.folder()

    @property
    def model_name(self) -> str:
        """Name of the model in a finding: its folder, or its type."""
        return str(self.model_folder or self.known.model.type)

    @property
    def train_tasks(self) -> tuple[Task, ...]:
        """The tasks to train on.

        Raises:
            EndedError: there is no usable one.
        """
        if not self.tasks.get("data.train"):
            raise EndedError(needs("training tasks"))
        return self.tasks["data.train"]

    @property
    def heldout_tasks(self) -> tuple[Task, ...]:
        """The held-out tasks, none where there is no usable one."""
        return self.tasks.get("data.validation", ())

    def place(self, task_id: str) -> str:
        """Where a task stands: its id, and its file and line."""
        at = self.places.get(task_id)
        return f"{task_id} ({at})" if at else task_id

    @property
    def absent(self) -> partial[Finding]:
        """Says what is not on this machine: a failure on the cluster, unknown anywhere else."""
        return failed if self.request.on_cluster else unchecked

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
    ask: Callable[[Subject], Finding | Iterable[Finding]]
    """Says one thing or several; none at all means that there is nothing to say: it passed."""
    needs: tuple[str, ...] = ()
    """Checks without whose success this one says nothing."""
    where: str = ""
    """Key of the configuration that it is about, for what names none itself."""


def run_checks(
    checks: Sequence[Check],
    subject: Subject,
    *,
    on_check: Callable[[str], object] = lambda _: None,
    earlier: Sequence[Finding] = (),
) -> list[Finding]:
    """Ask every check that can be asked; one that fails holds back only what builds on it.

    Args:
        checks: in an order in which each comes after what it needs.
        subject: what is asked about.
        on_check: called with the name of each check before it runs.
        earlier: findings of checks that were run before these.

    Returns:
        The findings in the order of the checks, at least one for each.
    """
    missing = {finding.check for finding in earlier if finding.status is Status.FAILED}
    findings: list[Finding] = []
    for check in checks:
        on_check(check.name)
        lacking = [name for name in check.needs if name in missing]
        started_s = time.perf_counter()
        results = [needs(lacking[0])] if lacking else _asked(check, subject)
        seconds = time.perf_counter() - started_s
        if lacking or any(result.status is Status.FAILED for result in results):
            missing.add(check.name)
        for result in results:
            where = result.where or check.where
            findings.append(
                replace(result, check=check.name, where=where, seconds=seconds)
            )
        _log.info("rehearse.check.finished", check=check.name, seconds=seconds)
    return findings


def _asked(check: Check, subject: Subject) -> list[Finding]:
    findings: list[Finding] = []
    try:
        said = check.ask(subject)
        findings.extend([said] if isinstance(said, Finding) else said)
    except EndedError as error:
        findings.append(error.args[0])
    except RubricError as error:
        return [failed(_short(error), where=str(getattr(error, "location", "") or ""))]
    # A model folder, a stack or a disk may raise anything, and the other checks still have
    # something to say.
    except Exception as error:  # noqa: BLE001
        return [
            failed(
                f"the check itself ended with {type(error).__name__}: {_short(error)}",
                remedy="repair what it names; the cluster would meet it too",
            )
        ]
    return findings or [passed("as it should be")]


def _short(error: Exception) -> str:
    return shortened(str(error), _LONGEST_DETAIL)
