"""Finished evaluations on disk, checked as a whole against their digests and against each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rubric_eval.comparison.folders import check_names, measured_of
from rubric_eval.errors import EvalFolderError
from rubric_eval.hacking.results import Judged, observed
from rubric_eval.heldout.table import stored_calibration
from rubric_eval.records.digests import refusing_edits
from rubric_eval.records.files import QuestionRow, read_finished_run, read_rows
from rubric_eval.records.inputs import EvalFolder, evaluation_files, hashed_inputs
from rubric_eval.records.run import EvalRun, InputFile, Measured
from rubric_eval.scores.judged import JudgedAnswers
from rubric_judge.quality.calibration.record import Calibration


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: its manifest and its numbers; no text of a model yet."""

    folder: EvalFolder
    inputs: tuple[InputFile, ...]
    """Files that the numbers are read from."""

    run: EvalRun
    measured: tuple[Measured, ...]
    """Values of each judge (held-out) or benchmark (transfer) in turn, models in order."""

    controls: tuple[Measured, ...]
    """Values of answers that no model wrote, judge by judge."""

    judged: dict[str, dict[str, Judged]]
    """Answers and rewards by judge and model."""

    calibration: Calibration | None = None
    """The judge's calibration by labels, if the evaluation holds one."""

    edited: tuple[str, ...] = ()
    """Edits to the evaluation's files that the user accepted."""

    notes: tuple[str, ...] = ()
    """Remarks about the files for the reader."""

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.root.resolve().name

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Names of the models; the first is the one that the others are compared with."""
        return tuple(entry.name for entry in self.run.models if not entry.is_control)

    @cached_property
    def groups(self) -> dict[str, dict[str, Measured]]:
        """Values of each model, by judge or by benchmark."""
        groups: dict[str, dict[str, Measured]] = {}
        for measured in self.measured:
            group = groups.setdefault(measured.judge or measured.benchmark, {})
            group[measured.model] = measured
        return groups

    @cached_property
    def questions(self) -> dict[str, QuestionRow]:
        """Held-out questions by id; empty for benchmarks."""
        if self.run.kind != "heldout":
            return {}
        return {
            row.task_id: row for row in read_rows(self.folder.questions, QuestionRow)
        }


def read_evaluations(
    paths: Sequence[Path], *, accept_edited: bool = False
) -> tuple[Evaluation | None, Evaluation | None]:
    """Read a held-out evaluation, a transfer evaluation, or one of each.

    Args:
        paths: folders, in any order.
        accept_edited: go on where files are not as their evaluation left them.

    Returns:
        The held-out and the transfer evaluation; None for one that is not among the folders.

    Raises:
        EvalEditedError: files are not as their evaluation left them, or contradict each other.
        EvalFolderError: a folder holds no evaluation or an unfinished one, two are of a kind,
            or two different models have one name.
        RubricFileError: a file is damaged.
        ConfigError: a calibration is not valid.
    """
    by_kind: dict[str, Evaluation] = {}
    for path in paths:
        evaluation = _read(path, accept_edited=accept_edited)
        earlier = by_kind.get(evaluation.run.kind)
        if earlier is not None:
            raise EvalFolderError(
                f"{earlier.folder.root} and {evaluation.folder.root} are both "
                f"{evaluation.run.kind} evaluations; a report shows one held-out and one "
                "transfer evaluation, so name one of them"
            )
        by_kind[evaluation.run.kind] = evaluation
    check_names(
        [evaluation.folder for evaluation in by_kind.values()],
        [evaluation.run for evaluation in by_kind.values()],
    )
    return by_kind.get("heldout"), by_kind.get("transfer")


def _read(path: Path, *, accept_edited: bool) -> Evaluation:
    folder = EvalFolder(path)
    judged: dict[str, dict[str, Judged]] = {}

    def keep(answers: JudgedAnswers) -> None:
        """Keep what signs of hacking are looked for in."""
        if not answers.model.is_control:
            by_model = judged.setdefault(answers.judge.name, {})
            by_model[answers.model.name] = observed(answers, run.seeds)

    with refusing_edits(is_accepted=accept_edited) as edits:
        run = read_finished_run(folder, edits=edits)
        measured = measured_of(folder, run, edits, keep)
    groups = [judge.name for judge in run.judges] or list(run.questions)
    measured.sort(key=lambda values: groups.index(values.judge or values.benchmark))
    of_models = tuple(values for values in measured if values.model not in run.controls)
    thought_notes = [values.thought_note for values in of_models if values.thought_note]
    return Evaluation(
        folder=folder,
        inputs=hashed_inputs(evaluation_files(folder), beside=folder.run),
        run=run,
        measured=of_models,
        controls=tuple(values for values in measured if values.model in run.controls),
        judged=judged,
        calibration=stored_calibration(folder),
        edited=edits.messages,
        notes=(*edits.notes, *dict.fromkeys(thought_notes)),
    )
