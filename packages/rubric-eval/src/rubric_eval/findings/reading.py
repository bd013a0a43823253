"""Reading of all that a report is made of; evaluations are checked against their digests."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from rubric_core import Task, read_tasks
from rubric_eval.comparison import EvalComparison
from rubric_eval.errors import EvalConfigError, EvalFolderError
from rubric_eval.findings.evaluations import Evaluation, read_evaluations
from rubric_eval.findings.excerpts import Entry, excerpts
from rubric_eval.findings.studies import (
    Reliability,
    Training,
    read_reliability,
    read_training,
)
from rubric_eval.hacking.results import HackingPanel
from rubric_eval.records.digests import read_derived
from rubric_eval.records.inputs import Derived, is_made_of


@dataclass(frozen=True)
class ReportSources:
    """Folders and files that a report is made from."""

    folders: tuple[Path, ...]
    """A held-out evaluation, a transfer evaluation, or one of each."""

    training: Path | None = None
    """Run folder of a trainer, for the curves."""

    reliability: Path | None = None
    """reliability.json of `rubric-judge reliability`, or its folder."""

    tasks: Path | None = None
    """File of the tasks that the questions come from, for their passages and rubrics."""

    is_revealed: bool = False
    """Whether the page may show judges' words, and passages and rubrics of the tasks."""

    accepts_edited: bool = False
    """Whether edited evaluations are reported all the same; the page then says so."""


_Derived = TypeVar("_Derived", bound=Derived)


@dataclass(frozen=True)
class Stored(Generic[_Derived]):
    """A file that an earlier command made of evaluations."""

    content: _Derived
    is_current: bool
    """Whether it was made of these very files."""


@dataclass(frozen=True)
class Reading:
    """All that a report is made of, before anything is measured."""

    heldout: Evaluation | None
    transfer: Evaluation | None
    comparison: Stored[EvalComparison] | None
    """The comparison of these evaluations; else one of their folders', for its settings."""

    panel: Stored[HackingPanel] | None
    tasks: Mapping[str, Task] | None
    training: Training | None
    reliability: Reliability | None
    excerpts: Entry
    """Answers to the questions on which models differ most."""

    is_revealed: bool
    """Whether judges' words, and passages and rubrics of the tasks, may be shown."""

    @cached_property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """The evaluations that are reported: held-out, transfer or both."""
        both = (self.heldout, self.transfer)
        return tuple(evaluation for evaluation in both if evaluation is not None)

    @property
    def edited(self) -> tuple[str, ...]:
        """Edits to evaluations' files that the user accepted."""
        return tuple(edit for each in self.evaluations for edit in each.edited)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about evaluations' files for the reader."""
        return tuple(note for each in self.evaluations for note in each.notes)


def read_sources(sources: ReportSources) -> Reading:
    """Read evaluations and what is shown with them.

    Raises:
        EvalEditedError, EvalFolderError: as `read_evaluations`, or there is no evaluation, or tasks
            are not those that were asked.
        RubricFileError: a file is damaged.
        ConfigError: tasks are named that may not be shown.
    """
    if not sources.folders:
        raise EvalFolderError("no evaluation is named; give the folder of one")
    heldout, transfer = read_evaluations(
        sources.folders, accept_edited=sources.accepts_edited
    )
    tasks = _tasks(sources, heldout)
    return Reading(
        heldout=heldout,
        transfer=transfer,
        comparison=_comparison(heldout, transfer),
        panel=_panel(heldout),
        tasks=tasks,
        training=sources.training and read_training(sources.training),
        reliability=sources.reliability and read_reliability(sources.reliability),
        excerpts=excerpts(
            heldout, transfer, tasks=tasks, is_revealed=sources.is_revealed
        ),
        is_revealed=sources.is_revealed,
    )


def _comparison(*evaluations: Evaluation | None) -> Stored[EvalComparison] | None:
    folders = [each.folder for each in evaluations if each is not None]
    outdated: Stored[EvalComparison] | None = None
    for path in (folder.comparison for folder in folders):
        content = read_derived(path, EvalComparison, command="rubric-eval compare")
        if content is None:
            continue
        if is_made_of(content.inputs, content.folders, beside=path, folders=folders):
            return Stored(content, is_current=True)
        outdated = outdated or Stored(content, is_current=False)
    return outdated


def _panel(heldout: Evaluation | None) -> Stored[HackingPanel] | None:
    if heldout is None:
        return None
    path = heldout.folder.hacking
    panel = read_derived(path, HackingPanel, command="rubric-eval hacking")
    if panel is None:
        return None
    folders = [heldout.folder]
    is_current = is_made_of(panel.inputs, [panel.folder], beside=path, folders=folders)
    return Stored(panel, is_current)


def _tasks(
    sources: ReportSources, heldout: Evaluation | None
) -> Mapping[str, Task] | None:
    """Read the tasks; refuse a file that lacks one of those asked, by hashes of content."""
    if sources.tasks is None:
        return None
    if not sources.is_revealed:
        raise EvalConfigError(
            "--tasks holds passages and rubrics, which are shown with --reveal-grounding "
            "alone; give both or neither",
            location="tasks",
        )
    if heldout is None:
        raise EvalFolderError(
            f"{sources.tasks} holds tasks, but no held-out evaluation is named; leave out --tasks"
        )
    tasks = {task.task_id: task for task in read_tasks(sources.tasks)}
    missing = [id_ for id_ in heldout.measured[0].ids if id_ not in tasks]
    if missing:
        raise EvalFolderError(
            f"{sources.tasks} lacks {len(missing)} of the {len(heldout.measured[0].ids)} "
            f"questions of {heldout.folder.root}, the first is {missing[0]}; name the file "
            "that was evaluated"
        )
    return tasks
