"""The paper's Table 2, and the values of every model on every benchmark behind it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rubric_core.files import text_sha256
from rubric_eval.errors import EvalFolderError
from rubric_eval.records.digests import Edits, refusing_edits
from rubric_eval.records.files import (
    ItemRow,
    QuestionRow,
    items_sha256,
    iterate_rows,
    read_rows,
)
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import (
    EvalRun,
    Measure,
    Measured,
    ModelEntry,
    Record,
    present_mean,
    thought_shares,
)
from rubric_eval.statistics.intervals import ModelScore, score
from rubric_eval.transfer.suites import benchmark_of


def read_benchmarks(folder: EvalFolder, run: EvalRun, edits: Edits) -> list[Measured]:
    """Read all benchmarks, model by model.

    Args:
        folder: folder of a transfer evaluation.
        run: its manifest.
        edits: record of files that contradict each other.

    Raises:
        EvalFolderError: items are missing, or are those of another set.
        RubricFileError: a file is damaged.
    """
    prompts = _Prompts(folder, edits)
    return [
        _read(folder, run, benchmark, model, prompts)
        for model in run.models
        for benchmark in run.questions
    ]


class _Prompts:
    """Prompts of the evaluation: items are checked against them, as files may have been edited."""

    def __init__(self, folder: EvalFolder, edits: Edits) -> None:
        self._edits = edits
        rows: Sequence[QuestionRow] = ()
        if folder.questions.exists():
            rows = read_rows(folder.questions, QuestionRow)
        self._texts = {
            (row.task_id, text_sha256(row.question)): row.question for row in rows
        }
        if not rows:
            edits.add(folder.questions, "holds no question")

    def check(
        self, path: Path, rows: Sequence[tuple[int, ItemRow]], sha256: str
    ) -> None:
        """Note rows that contradict the questions or themselves.

        Args:
            path: the file of items.
            rows: its rows, each with its line.
            sha256: hash of the items that the manifest names.
        """
        if not self._texts:
            return
        for line, row in rows:
            if (row.item_id, row.prompt_sha256) not in self._texts:
                problem = (
                    "its prompt_sha256 is not that of its question in questions.jsonl"
                )
                self._edits.add(path, problem, line=line)
            if row.correct is None and (row.is_answered or row.stated is not None):
                problem = "it has an answer, and says that none came"
                self._edits.add(path, problem, line=line)
            if row.correct and not row.is_answered:
                problem = "it is right, and says that no answer was found"
                self._edits.add(path, problem, line=line)
        items = [row for _, row in rows]
        texts = [self._texts.get((row.item_id, row.prompt_sha256)) for row in items]
        if items_sha256([row.item_id for row in items], texts) != sha256:
            self._edits.add(path, "its items are not those of the sha256 in run.json")


def _read(
    folder: EvalFolder,
    run: EvalRun,
    benchmark: str,
    model: ModelEntry,
    prompts: _Prompts,
) -> Measured:
    """Read one model's items of a benchmark, seed by seed, and measure them."""
    questions = run.questions[benchmark]
    rows_S: list[list[ItemRow]] = []
    for seed in run.seeds:
        path = folder.items(benchmark, model.name, seed)
        numbered = list(iterate_rows(path, ItemRow)) if path.exists() else []
        if len(numbered) != questions.count:
            raise EvalFolderError(
                f"{path} holds {len(numbered)} of {questions.count} items; run `rubric-eval "
                "transfer` again, which goes on where it was"
            )
        prompts.check(path, numbered, questions.sha256)
        rows_S.append([row for _, row in numbered])
    orders = {tuple(row.item_id for row in rows) for rows in rows_S}
    if len(orders) > 1:
        raise EvalFolderError(
            f"{folder.root}: items of {benchmark!r} by {model.name!r} differ from seed to "
            "seed; run `rubric-eval transfer` again"
        )
    return _measured(run, benchmark, model, rows_S)


def has_items(folder: EvalFolder, run: EvalRun, *, model: str) -> bool:
    """Return whether a model has items of all benchmarks and seeds."""
    return all(
        folder.items(benchmark, model, seed).exists()
        for benchmark in run.questions
        for seed in run.seeds
    )


def protocol(run: EvalRun, benchmark: str) -> str:
    """Return decoding and template, which scores must share to be comparable, as JSON."""
    settings = run.decoding.model_dump(mode="json")
    settings["max_tokens"] = run.max_tokens.get(benchmark, run.decoding.max_tokens)
    settings["stop"] = list(run.stops.get(benchmark, run.decoding.stop))
    settings["template"] = run.templates.get(benchmark, run.template)
    return json.dumps(settings, sort_keys=True)


def _measured(
    run: EvalRun, benchmark: str, model: ModelEntry, rows_S: Sequence[Sequence[ItemRow]]
) -> Measured:
    """Make the values of a model on a benchmark out of its items, one list for each seed."""
    first = rows_S[0]
    ids = tuple(row.item_id for row in first)
    groups = tuple(row.group for row in first)
    all_rows = [row for rows in rows_S for row in rows]
    answered = [row for row in all_rows if row.correct is not None]
    values_NK = tuple(
        tuple(None if row.correct is None else float(row.correct) for row in row_S)
        for row_S in zip(*rows_S, strict=True)
    )
    known_benchmark = benchmark_of(benchmark)
    return Measured(
        measure=Measure.ACCURACY,
        benchmark=benchmark,
        model=model.name,
        fingerprint=model.fingerprint,
        prompt_form=model.prompt_form,
        protocol=protocol(run, benchmark),
        chance=known_benchmark.chance if known_benchmark else None,
        ids=ids,
        clusters=ids,
        prompts=tuple(row.prompt_sha256 for row in first),
        fields=groups if any(groups) else (),
        seeds=run.seeds,
        values_NK=values_NK,
        unavailable_frac=1 - len(answered) / len(all_rows),
        truncated_frac=present_mean(row.is_truncated for row in answered),
        no_answer_frac=present_mean(not row.is_answered for row in answered),
        **thought_shares(row.thought for row in answered),
        tokens_mean=present_mean(row.tokens for row in answered),
    )


class TransferRow(Record):
    """Row of one model."""

    model: str
    cells: tuple[ModelScore, ...]
    """Score on each benchmark, with Wilson's interval for one seed, as in `compare`."""

    average: float
    """Mean accuracy over benchmarks."""

    average_delta: float | None
    """Mean difference from the first model over benchmarks, on items that both answered."""


class TransferTable(Record):
    """Table 2, without tests: `rubric-eval compare` tests which differences exceed chance."""

    suite: str
    base: str
    """Name of the first model, from which differences are taken."""

    confidence: float
    items: dict[str, int]
    """Number of items of each benchmark, including those without an answer."""

    rows: tuple[TransferRow, ...]


def transfer_table(
    folder: EvalFolder, run: EvalRun, *, confidence: float = 0.95
) -> TransferTable:
    """Read the table from an evaluation's items.

    Args:
        folder: folder of the evaluation.
        run: its manifest.
        confidence: confidence of the intervals.

    Raises:
        EvalFolderError, RubricFileError: rows do not fit; see `read_benchmarks`.
    """
    by_model: dict[str, list[Measured]] = {}
    with refusing_edits() as edits:
        for measured in read_benchmarks(folder, run, edits):
            by_model.setdefault(measured.model, []).append(measured)
    base = run.models[0].name
    return TransferTable(
        suite=run.suite,
        base=base,
        confidence=confidence,
        items={name: questions.count for name, questions in run.questions.items()},
        rows=tuple(_row(name, by_model, base, confidence) for name in by_model),
    )


def _row(
    name: str, by_model: Mapping[str, Sequence[Measured]], base: str, confidence: float
) -> TransferRow:
    cells = tuple(score(values, confidence=confidence) for values in by_model[name])
    average_delta = None
    if name != base:
        pairs = zip(by_model[base], by_model[name], strict=True)
        average_delta = present_mean(_delta(first, own) for first, own in pairs)
    return TransferRow(
        model=name,
        cells=cells,
        average=sum(cell.mean for cell in cells) / len(cells),
        average_delta=average_delta,
    )


def _delta(base: Measured, model: Measured) -> float | None:
    """Return the mean difference from the base over items that both answered."""
    pairs = zip(base.means_N, model.means_N, strict=True)
    return present_mean(b - a for a, b in pairs if a is not None and b is not None)
