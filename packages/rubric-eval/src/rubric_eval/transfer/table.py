"""The paper's Table 2, and the values of every model on every benchmark that it is made of."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rubric_eval.errors import EvalFolderError
from rubric_eval.records.digests import Edits, refusing_edits
from rubric_eval.records.files import (
    ItemRow,
    QuestionRow,
    items_sha256,
    iterate_rows,
    read_rows,
    thought_shares,
)
from rubric_eval.records.inputs import EvalFolder, text_sha256
from rubric_eval.records.run import (
    EvalRun,
    Measure,
    Measured,
    ModelEntry,
    Record,
    present_mean,
)
from rubric_eval.statistics.scores import ModelScore, score
from rubric_eval.transfer.suites import benchmark_of


def read_benchmarks(folder: EvalFolder, run: EvalRun, edits: Edits) -> list[Measured]:
    """Read all benchmarks, model by model.

    Args:
        folder: of a transfer evaluation.
        run: its manifest.
        edits: where it is noted that files contradict each other.

    Raises:
        EvalFolderError: items of another set, or not all of them.
        RubricFileError: a file that is damaged.
    """
    prompts = _Prompts(folder, edits)
    return [
        _read(folder, run, benchmark, model, prompts)
        for model in run.models
        for benchmark in run.questions
    ]


class _Prompts:
    """What was asked, to hold items against."""

    def __init__(self, folder: EvalFolder, edits: Edits) -> None:
        self._edits = edits
        rows = (
            read_rows(folder.questions, QuestionRow)
            if folder.questions.exists()
            else []
        )
        self._texts = {
            (row.task_id, text_sha256(row.question)): row.question for row in rows
        }
        if not rows:
            edits.add(folder.questions, "holds no question")

    def check(
        self, path: Path, rows: Sequence[tuple[int, ItemRow]], sha256: str
    ) -> None:
        """Note what contradicts the questions, or itself."""
        if not self._texts:
            return
        for line, row in rows:
            if (row.item_id, row.prompt_sha256) not in self._texts:
                what = (
                    "its prompt_sha256 is not that of its question in questions.jsonl"
                )
                self._edits.add(path, what, line=line)
            if row.correct is None and (row.is_answered or row.stated is not None):
                self._edits.add(
                    path, "it has an answer, and says that none came", line=line
                )
            if row.correct and not row.is_answered:
                self._edits.add(
                    path, "it is right, and says that no answer was found", line=line
                )
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
    asked = run.questions[benchmark]
    rows_S: list[list[ItemRow]] = []
    for seed in run.seeds:
        path = folder.items(benchmark, model.name, seed)
        numbered = list(iterate_rows(path, ItemRow)) if path.exists() else []
        if len(numbered) != asked.count:
            raise EvalFolderError(
                f"{path} holds {len(numbered)} of {asked.count} items; run `rubric-eval "
                "transfer` again, which goes on where it was"
            )
        prompts.check(path, numbered, asked.sha256)
        rows_S.append([row for _, row in numbered])
    first = rows_S[0]
    if any(
        [row.item_id for row in rows] != [row.item_id for row in first]
        for rows in rows_S
    ):
        raise EvalFolderError(
            f"{folder.root}: items of {benchmark!r} by {model.name!r} differ from seed to "
            "seed; run `rubric-eval transfer` again"
        )
    return _measured(run, benchmark, model, rows_S)


def has_items(folder: EvalFolder, run: EvalRun, *, model: str) -> bool:
    """Return whether a model is done with all benchmarks and seeds."""
    return all(
        folder.items(benchmark, model, seed).exists()
        for benchmark in run.questions
        for seed in run.seeds
    )


def protocol(run: EvalRun, benchmark: str) -> str:
    """Return all that scores must share to be comparable, as JSON: decoding and template."""
    decoding = {
        **run.decoding.model_dump(mode="json"),
        "max_tokens": run.max_tokens.get(benchmark, run.decoding.max_tokens),
        "stop": list(run.stops.get(benchmark, run.decoding.stop)),
    }
    template = run.templates.get(benchmark, run.template)
    return json.dumps({**decoding, "template": template}, sort_keys=True)


def _measured(
    run: EvalRun, benchmark: str, model: ModelEntry, rows_S: Sequence[Sequence[ItemRow]]
) -> Measured:
    first = rows_S[0]
    ids = tuple(row.item_id for row in first)
    groups = tuple(row.group for row in first)
    every = [row for rows in rows_S for row in rows]
    item_rows = [row for row in every if row.correct is not None]
    source = benchmark_of(benchmark)
    return Measured(
        measure=Measure.ACCURACY,
        benchmark=benchmark,
        model=model.name,
        fingerprint=model.fingerprint,
        prompt_form=model.prompt_form,
        protocol=protocol(run, benchmark),
        chance=source.chance if source else None,
        ids=ids,
        clusters=ids,
        prompts=tuple(row.prompt_sha256 for row in first),
        fields=groups if any(groups) else (),
        seeds=run.seeds,
        values_NK=tuple(
            tuple(None if row.correct is None else float(row.correct) for row in row_S)
            for row_S in zip(*rows_S, strict=True)
        ),
        unavailable_frac=1 - len(item_rows) / len(every),
        truncated_frac=present_mean(row.is_truncated for row in item_rows),
        no_answer_frac=present_mean(not row.is_answered for row in item_rows),
        **thought_shares(row.thought for row in item_rows),
        tokens_mean=present_mean(row.tokens for row in item_rows),
    )


class TransferRow(Record):
    """One model."""

    model: str
    cells: tuple[ModelScore, ...]
    """Of each benchmark, with Wilson's interval for one seed, as `compare` has it."""

    average: float
    """Mean accuracy over benchmarks."""

    average_delta: float | None
    """Mean difference from the first model over benchmarks, on items that both answered."""


class TransferTable(Record):
    """Table 2, without tests: `rubric-eval compare` says which differences are more than luck."""

    suite: str
    base: str
    """The first model, which differences are from."""

    confidence: float
    items: dict[str, int]
    """Of each benchmark, those without an answer among them."""

    rows: tuple[TransferRow, ...]


def transfer_table(
    folder: EvalFolder, run: EvalRun, *, confidence: float = 0.95
) -> TransferTable:
    """Read the table from an evaluation's items.

    Args:
        folder: of the evaluation.
        run: its manifest.
        confidence: of the intervals.

    Raises:
        EvalFolderError, RubricFileError: rows that do not fit; see `read_benchmarks`.
    """
    measured: dict[str, list[Measured]] = {}
    with refusing_edits() as edits:
        for benchmark in read_benchmarks(folder, run, edits):
            measured.setdefault(benchmark.model, []).append(benchmark)
    base = run.models[0].name
    return TransferTable(
        suite=run.suite,
        base=base,
        confidence=confidence,
        items={name: asked.count for name, asked in run.questions.items()},
        rows=tuple(_row(name, measured, base, confidence) for name in measured),
    )


def _row(
    name: str, measured: Mapping[str, Sequence[Measured]], base: str, confidence: float
) -> TransferRow:
    cells = tuple(score(one, confidence=confidence) for one in measured[name])
    deltas = map(_delta, measured[base], measured[name])
    return TransferRow(
        model=name,
        cells=cells,
        average=sum(cell.mean for cell in cells) / len(cells),
        average_delta=None if name == base else present_mean(deltas),
    )


def _delta(a: Measured, b: Measured) -> float | None:
    pairs = zip(a.means_N, b.means_N, strict=True)
    return present_mean(y - x for x, y in pairs if x is not None and y is not None)
