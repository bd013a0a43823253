"""Comparison of evaluations on disk: comparison.json, with the hashes of its inputs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rubric_eval.comparison.evaluations import compare_measured
from rubric_eval.comparison.results import CompareSettings, EvalComparison
from rubric_eval.errors import ComparisonError, EvalFolderError
from rubric_eval.records.digests import Edits, check_files, refusing_edits
from rubric_eval.records.files import (
    QuestionRow,
    read_finished_run,
    read_rows,
    write_derived,
)
from rubric_eval.records.inputs import (
    EvalFolder,
    evaluation_files,
    hashed_inputs,
    path_from,
)
from rubric_eval.records.run import EvalRun, Measured
from rubric_eval.scores.judged import JudgedAnswers, JudgedReader, measured_rewards
from rubric_eval.transfer.table import read_benchmarks


def compare_folders(
    paths: Sequence[Path],
    settings: CompareSettings | None = None,
    *,
    out: Path | None = None,
    accept_edited: bool = False,
) -> tuple[EvalComparison, Path]:
    """Compare all models of some evaluations, and write the results.

    Args:
        paths: finished evaluations, held-out or transfer; if two have a model of the same name, it
            must be the same model.
        settings: pairs, level, correction, power.
        out: file for it; by default comparison.json in the first folder.
        accept_edited: go on where files are not as their evaluation left them, and say so in
            `EvalComparison.edited`.

    Returns:
        The comparison, and where it is.

    Raises:
        EvalFolderError: no folder, the same one twice, one that holds no finished evaluation or no
            score, or one name for two models.
        EvalEditedError: files are not as their evaluation left them, or contradict each other.
        ComparisonError: two sides that do not match, or fewer than two models.
        RubricFileError: a file that is damaged.
        OSError: a file cannot be read or written.
    """
    folders = _folders(paths)
    target = out or folders[0].comparison
    with refusing_edits(is_accepted=accept_edited) as edits:
        runs = [read_finished_run(folder, edits=edits) for folder in folders]
        check_names(folders, runs)
        files = [path for folder in folders for path in evaluation_files(folder)]
        # Hashed first: a file that changes while it is read makes a stale comparison, not a wrong
        # one.
        inputs = hashed_inputs(files, beside=target)
        measured = [
            values
            for folder, run in zip(folders, runs, strict=True)
            for values in measured_of(folder, run, edits)
            if values.model not in run.controls
        ]
        _check_passages(folders, runs)
        compared = compare_measured(measured, settings)
    names = tuple(path_from(target, to=folder.root) for folder in folders)
    comparison = compared.model_copy(update={"folders": names, "inputs": inputs})
    return write_derived(target, comparison, edits), target


def measured_of(
    folder: EvalFolder,
    run: EvalRun,
    edits: Edits,
    on_judged: Callable[[JudgedAnswers], object] = lambda _: None,
) -> list[Measured]:
    """Read all values of an evaluation, model by model in the order of the run.

    Args:
        folder: the evaluation's folder.
        run: its manifest.
        edits: gets the contradictions between files.
        on_judged: called with the answers of each model by each judge, which are read once.

    Raises:
        EvalFolderError: there are no values, or they are not those of the run.
        RubricFileError: a file that is damaged.
    """
    check_files(folder, run, edits)
    if run.kind == "transfer":
        measured = read_benchmarks(folder, run, edits)
    else:
        reader = JudgedReader(folder, run, edits)
        measured: list[Measured] = []
        for judged in reader.read():
            measured.append(measured_rewards(run, reader.questions, judged))
            on_judged(judged)
    if not measured:
        raise EvalFolderError(
            f"{folder.root} holds no score; run the command that made it again, which goes on "
            "where it was"
        )
    return measured


def _folders(paths: Sequence[Path]) -> list[EvalFolder]:
    if not paths:
        raise EvalFolderError(
            "no evaluation to compare; name the folder of at least one"
        )
    seen: set[Path] = set()
    for path in paths:
        place = path.resolve()
        if place in seen:
            raise EvalFolderError(f"{place} is named twice; name each evaluation once")
        seen.add(place)
    return [EvalFolder(path) for path in paths]


def _check_passages(folders: Sequence[EvalFolder], runs: Sequence[EvalRun]) -> None:
    """Refuse the same questions with other passages: answers were judged against those."""
    known: dict[str, tuple[str, EvalFolder]] = {}
    for folder, run in zip(folders, runs, strict=True):
        if run.kind != "heldout":
            continue
        for row in read_rows(folder.questions, QuestionRow):
            entry = (row.passage_sha256, folder)
            passage_sha256, first = known.setdefault(row.task_id, entry)
            if passage_sha256 != row.passage_sha256:
                raise ComparisonError(
                    f"{folder.root} and {first.root} judged the same questions against other "
                    "passages; evaluate both on the same file of tasks"
                )


def check_names(folders: Sequence[EvalFolder], runs: Sequence[EvalRun]) -> None:
    """Refuse one name for two models, which a reader would take for one.

    Raises:
        EvalFolderError: there is such a name.
    """
    known: dict[str, tuple[str, EvalFolder]] = {}
    for folder, run in zip(folders, runs, strict=True):
        for model in run.models:
            fingerprint, first = known.setdefault(
                model.name, (model.fingerprint, folder)
            )
            if fingerprint != model.fingerprint:
                raise EvalFolderError(
                    f"{model.name!r} is another model in {folder.root} than in {first.root} "
                    f"(fingerprints {model.fingerprint:.12} and {fingerprint:.12}); evaluate "
                    "the same one, or give it another name"
                )
