"""Evaluation folders, read and checked, whole or not at all, and what their numbers say."""

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
    """Held-out: judge by judge, in each the models in order; transfer: benchmark by benchmark."""

    controls: tuple[Measured, ...]
    """Answers that no model wrote, judge by judge."""

    judged: dict[str, dict[str, Judged]]
    """By judge and model, answers and rewards: of the first judge whole, of the second rewards."""

    edited: tuple[str, ...] = ()
    """What was not as the evaluation left it, and was accepted so."""

    notes: tuple[str, ...] = ()
    """What else a reader should know of the files."""

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Names, the first being what the others are compared with."""
        return tuple(entry.name for entry in self.run.models if not entry.is_control)

    @cached_property
    def groups(self) -> dict[str, dict[str, Measured]]:
        """By judge, or by benchmark, the values of each model."""
        found: dict[str, dict[str, Measured]] = {}
        for one in self.measured:
            found.setdefault(one.judge or one.benchmark, {})[one.model] = one
        return found

    @cached_property
    def questions(self) -> dict[str, QuestionRow]:
        """What was asked, by id; empty for benchmarks."""
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
        The held-out one and the transfer one; None for what was not given.

    Raises:
        EvalEditedError: files are not as their evaluation left them, or contradict each other.
        EvalFolderError: no evaluation there, one that has not ended well, two of a kind, or one
            name for two different models.
        RubricFileError: a damaged file.
    """
    found: dict[str, Evaluation] = {}
    for path in paths:
        evaluation = _read(EvalFolder(path), accept_edited=accept_edited)
        if (other := found.get(evaluation.run.kind)) is not None:
            raise EvalFolderError(
                f"{other.folder.root} and {evaluation.folder.root} are both {evaluation.run.kind} "
                "evaluations; a report shows one held-out and one transfer evaluation, so "
                "name one of them"
            )
        found[evaluation.run.kind] = evaluation
    check_names(
        [one.folder for one in found.values()], [one.run for one in found.values()]
    )
    return found.get("heldout"), found.get("transfer")


def _read(folder: EvalFolder, *, accept_edited: bool) -> Evaluation:
    with refusing_edits(is_accepted=accept_edited) as edits:
        run = read_finished_run(folder, edits=edits)
        # A judge that came later may not have judged every model.
        done = [
            judge
            for judge in run.judges
            if any(
                has_scores(folder, run, judge=judge.name, model=model.name)
                for model in run.models
            )
        ]
        judged: dict[str, dict[str, Judged]] = {}

        def keep(one: JudgedAnswers) -> None:
            """Keep what signs of hacking are looked for in: what the first two judges gave."""
            if one.judge in done[:2] and not one.model.is_control:
                found = observed(one, run.seeds)
                if one.judge is not done[0]:
                    found.answers.clear()
                judged.setdefault(one.judge.name, {})[one.model.name] = found

        measured = measured_of(folder, run, edits, keep)
    groups = [judge.name for judge in run.judges] or list(run.questions)
    measured.sort(key=lambda one: groups.index(one.judge or one.benchmark))
    of_models = tuple(one for one in measured if one.model not in run.controls)
    controls = tuple(one for one in measured if one.model in run.controls)
    notes = (
        *edits.notes,
        *dict.fromkeys(model.thought_note for model in of_models if model.thought_note),
    )
    return Evaluation(
        folder, run, of_models, controls, judged, edited=edits.found, notes=notes
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
    """Scores of what no model wrote."""

    is_anew: bool = False
    """Whether comparison.json was of other files, so that everything was compared again."""

    @property
    def level(self) -> str:
        """Confidence of the intervals, as it is written."""
        return f"{100 * self.settings.confidence:g} %"

    @cached_property
    def columns(self) -> Mapping[_Column, Mapping[str, ModelScore]]:
        """By benchmark and judge, the score of each model."""
        found: dict[_Column, dict[str, ModelScore]] = {}
        for score in self.scores:
            found.setdefault((score.benchmark, score.judge), {})[score.model] = score
        return found

    @property
    def judges(self) -> Mapping[str, Mapping[str, ModelScore]]:
        """The held-out columns, by judge."""
        return {
            judge: found
            for (_, judge), found in self.columns.items()
            if judge is not None
        }

    def of_models(
        self, columns: Mapping[str, Mapping[str, ModelScore]]
    ) -> dict[str, list[ModelScore | None]]:
        """By model, its score in each of these columns."""
        models = dict.fromkeys(model for column in columns.values() for model in column)
        return {
            model: [column.get(model) for column in columns.values()]
            for model in models
        }

    @property
    def benchmarks(self) -> Mapping[str, Mapping[str, ModelScore]]:
        """The columns of benchmarks."""
        return {
            name: found
            for (name, judge), found in self.columns.items()
            if judge is None
        }

    def average(self, a: str, b: str) -> AverageDelta | None:
        """Mean over benchmarks of a − b, where these two were compared."""
        averages = self.comparison.averages if self.comparison else ()
        return next(
            (average for average in averages if (average.a, average.b) == (a, b)), None
        )


def findings(evaluations: Sequence[Evaluation]) -> Findings:
    """Score and compare, or take what `compare` has found of these very files.

    Args:
        evaluations: what is reported.

    Returns:
        Scores of all models. A comparison.json whose inputs have changed since is not used, but
        its settings are, as far as its pairs of models are still there.

    Raises:
        ComparisonError: sides that do not match.
        EvalShapeError: a model without a value.
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
    models = {one.model for one in measured}
    settings = stored[0].settings if stored else CompareSettings()
    if not models.issuperset(name for pair in settings.pairs for name in pair):
        settings = settings.model_copy(update={"pairs": ()})
    controls = _control_scores(evaluations, settings)
    if len(models) == 1:
        return Findings(scores(measured, settings), None, settings, controls)
    compared = compare_measured(measured, settings)
    return Findings(compared.scores, compared, settings, controls, is_anew=bool(stored))


def _control_scores(
    evaluations: Sequence[Evaluation], settings: CompareSettings
) -> tuple[ModelScore, ...]:
    return scores((control for of in evaluations for control in of.controls), settings)
