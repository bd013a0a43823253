"""Readers of evaluation folders, checked as a whole, and of the scores and differences in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rubric_eval.comparison import (
    AverageDelta,
    CompareSettings,
    EvalComparison,
    ModelScore,
)
from rubric_eval.comparison.evaluations import compare_measured
from rubric_eval.comparison.folders import check_names, measured_of
from rubric_eval.comparison.pairing import scores
from rubric_eval.errors import EvalFolderError
from rubric_eval.hacking.results import Judged, observed
from rubric_eval.records.digests import read_derived, refusing_edits
from rubric_eval.records.files import QuestionRow, read_finished_run, read_rows
from rubric_eval.records.inputs import EvalFolder, is_made_of
from rubric_eval.records.run import EvalRun, Measured
from rubric_eval.scores.judged import JudgedAnswers, has_scores


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: its manifest and its numbers; no text of a model yet."""

    folder: EvalFolder
    run: EvalRun
    measured: tuple[Measured, ...]
    """Values of each judge (held-out) or benchmark (transfer) in turn, models in order."""

    controls: tuple[Measured, ...]
    """Values of answers that no model wrote, judge by judge."""

    judged: dict[str, dict[str, Judged]]
    """Answers and rewards by judge and model; for the second judge rewards alone."""

    edited: tuple[str, ...] = ()
    """Edits to the evaluation's files that the user accepted."""

    notes: tuple[str, ...] = ()
    """Remarks about the files for the reader."""

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
    """
    by_kind: dict[str, Evaluation] = {}
    for path in paths:
        evaluation = _read(EvalFolder(path), accept_edited=accept_edited)
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


def _read(folder: EvalFolder, *, accept_edited: bool) -> Evaluation:
    with refusing_edits(is_accepted=accept_edited) as edits:
        run = read_finished_run(folder, edits=edits)
        # A judge that was added later may not have judged any model yet.
        done = [
            judge
            for judge in run.judges
            if any(
                has_scores(folder, run, judge=judge.name, model=model.name)
                for model in run.models
            )
        ]
        judged: dict[str, dict[str, Judged]] = {}

        def keep(answers: JudgedAnswers) -> None:
            """Keep the data that signs of hacking are looked for in, of the first two judges."""
            if answers.judge not in done[:2] or answers.model.is_control:
                return
            observations = observed(answers, run.seeds)
            if answers.judge is not done[0]:
                observations.answers.clear()
            by_model = judged.setdefault(answers.judge.name, {})
            by_model[answers.model.name] = observations

        measured = measured_of(folder, run, edits, keep)
    groups = [judge.name for judge in run.judges] or list(run.questions)
    measured.sort(key=lambda values: groups.index(values.judge or values.benchmark))
    of_models = tuple(values for values in measured if values.model not in run.controls)
    controls = tuple(values for values in measured if values.model in run.controls)
    thought_notes = [values.thought_note for values in of_models if values.thought_note]
    notes = (*edits.notes, *dict.fromkeys(thought_notes))
    return Evaluation(
        folder, run, of_models, controls, judged, edited=edits.messages, notes=notes
    )


_Column = tuple[str, str | None]
"""Benchmark and judge."""


@dataclass(frozen=True)
class Findings:
    """Scores of all models, and their comparison where there are two of them."""

    scores: tuple[ModelScore, ...]
    comparison: EvalComparison | None
    settings: CompareSettings
    controls: tuple[ModelScore, ...] = ()
    """Scores of answers that no model wrote."""

    is_anew: bool = False
    """Whether everything was compared again, since comparison.json was made from other files."""

    @property
    def level(self) -> str:
        """Confidence of the intervals, as text."""
        return f"{100 * self.settings.confidence:g} %"

    @cached_property
    def columns(self) -> Mapping[_Column, Mapping[str, ModelScore]]:
        """Score of each model, by benchmark and judge."""
        columns: dict[_Column, dict[str, ModelScore]] = {}
        for score in self.scores:
            column = columns.setdefault((score.benchmark, score.judge), {})
            column[score.model] = score
        return columns

    @property
    def judges(self) -> Mapping[str, Mapping[str, ModelScore]]:
        """Held-out columns, by judge."""
        return {
            judge: column
            for (_, judge), column in self.columns.items()
            if judge is not None
        }

    def of_models(
        self, columns: Mapping[str, Mapping[str, ModelScore]]
    ) -> dict[str, list[ModelScore | None]]:
        """Return each model's score in each of these columns, by model."""
        models = dict.fromkeys(model for column in columns.values() for model in column)
        return {
            model: [column.get(model) for column in columns.values()]
            for model in models
        }

    @property
    def benchmarks(self) -> Mapping[str, Mapping[str, ModelScore]]:
        """Columns of benchmarks, by name."""
        return {
            name: column
            for (name, judge), column in self.columns.items()
            if judge is None
        }

    def average(self, a: str, b: str) -> AverageDelta | None:
        """Return the mean over benchmarks of a − b; None unless these two were compared."""
        averages = self.comparison.averages if self.comparison else ()
        for average in averages:
            if (average.a, average.b) == (a, b):
                return average
        return None


def findings(evaluations: Sequence[Evaluation]) -> Findings:
    """Score and compare models, or use the results of `compare` if they are of these very files.

    Args:
        evaluations: the evaluations that are reported.

    Returns:
        Scores of all models. A comparison.json whose inputs have changed since is not used, but
        its settings are, as far as its pairs of models are still there.

    Raises:
        ComparisonError: sides do not match.
        EvalShapeError: a model has no value.
        RubricFileError: comparison.json is no comparison.
    """
    folders = [evaluation.folder for evaluation in evaluations]
    stored: list[EvalComparison] = []
    for path in (folder.comparison for folder in folders):
        comparison = read_derived(path, EvalComparison, command="rubric-eval compare")
        if comparison is not None:
            if is_made_of(
                comparison.inputs, comparison.folders, beside=path, folders=folders
            ):
                controls = _control_scores(evaluations, comparison.settings)
                return Findings(
                    comparison.scores, comparison, comparison.settings, controls
                )
            stored.append(comparison)
    measured = [values for evaluation in evaluations for values in evaluation.measured]
    models = {values.model for values in measured}
    settings = stored[0].settings if stored else CompareSettings()
    paired = {name for pair in settings.pairs for name in pair}
    if not paired <= models:
        settings = settings.model_copy(update={"pairs": ()})
    controls = _control_scores(evaluations, settings)
    if len(models) == 1:
        return Findings(scores(measured, settings), None, settings, controls)
    compared = compare_measured(measured, settings)
    return Findings(compared.scores, compared, settings, controls, is_anew=bool(stored))


def _control_scores(
    evaluations: Sequence[Evaluation], settings: CompareSettings
) -> tuple[ModelScore, ...]:
    controls = [control for each in evaluations for control in each.controls]
    return scores(controls, settings)
