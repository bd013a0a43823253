"""Reading of all that a report is made of; evaluations are checked against their digests."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rubric_core import Task, read_tasks
from rubric_eval.comparison import EvalComparison
from rubric_eval.errors import EvalConfigError, EvalFolderError
from rubric_eval.findings.evaluations import Evaluation, read_evaluations
from rubric_eval.findings.excerpts import Entry, excerpts
from rubric_eval.findings.studies import Reliability, Training, read_studies
from rubric_eval.hacking.results import HackingPanel
from rubric_eval.records.digests import Stored, read_stored


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
        ConfigError: tasks are named that may not be shown, or a calibration is not valid.
    """
    if not sources.folders:
        raise EvalFolderError("no evaluation is named; give the folder of one")
    tasks = _tasks(sources)
    heldout, transfer = read_evaluations(
        sources.folders, accept_edited=sources.accepts_edited
    )
    if tasks is not None:
        if heldout is None:
            raise EvalFolderError(
                f"{sources.tasks} holds tasks, but no held-out evaluation is named; leave out "
                "--tasks"
            )
        asked = heldout.measured[0].ids
        missing = [id_ for id_ in asked if id_ not in tasks]
        if missing:
            raise EvalFolderError(
                f"{sources.tasks} lacks {len(missing)} of the {len(asked)} questions of "
                f"{heldout.folder.root}, the first is {missing[0]}; name the file that was "
                "evaluated"
            )
    folders = [each.folder for each in (heldout, transfer) if each is not None]
    comparison = read_stored(
        (folder.comparison for folder in folders),
        EvalComparison,
        of=folders,
        command="rubric-eval compare",
    )
    panel: Stored[HackingPanel] | None = None
    if heldout is not None:
        panel = read_stored(
            (heldout.folder.hacking,),
            HackingPanel,
            of=(heldout.folder,),
            command="rubric-eval hacking",
        )
    studies = read_studies(sources.training, sources.reliability)
    return Reading(
        heldout=heldout,
        transfer=transfer,
        comparison=comparison,
        panel=panel,
        tasks=tasks,
        training=studies.training,
        reliability=studies.reliability,
        excerpts=excerpts(
            heldout, transfer, tasks=tasks, is_revealed=sources.is_revealed
        ),
        is_revealed=sources.is_revealed,
    )


def _tasks(sources: ReportSources) -> Mapping[str, Task] | None:
    """Read the tasks, if they are named and may be shown."""
    if sources.tasks is None:
        return None
    if not sources.is_revealed:
        raise EvalConfigError(
            "--tasks holds passages and rubrics, which are shown with --reveal-grounding "
            "alone; give both or neither",
            location="tasks",
        )
    return {task.task_id: task for task in read_tasks(sources.tasks)}
