"""Items back as values: one model on one benchmark, ready to be compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rubric_eval.errors import EvalFolderError
from rubric_eval.records import EvalFolder, ItemRow, Measure, Measured
from rubric_eval.records.files import read_finished_run, read_rows
from rubric_eval.transfer.suites import benchmark_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rubric_eval.records import EvalRun, ModelEntry


def read_transfer(
    folder: EvalFolder | Path, benchmark: str, model: str, *, run: EvalRun | None = None
) -> Measured:
    """Read which items of a benchmark a model has right.

    Args:
        folder: of an evaluation.
        benchmark: name of the task, such as "rubric_gsm8k".
        model: its name in the evaluation.
        run: the manifest; read when left out, and refused unless the evaluation is finished.

    Returns:
        1 or 0 for each item and seed, None where no answer came.

    Raises:
        EvalFolderError: no evaluation, an unfinished one, no such model or benchmark, or items of
            another set.
        RubricFileError: a file that is damaged.
    """
    folder = folder if isinstance(folder, EvalFolder) else EvalFolder(folder)
    run = read_finished_run(folder) if run is None else run
    entry = _entry(folder, run, benchmark, model)
    rows_S = [_rows(folder, run, benchmark, model, seed) for seed in run.seeds]
    first = rows_S[0]
    if any([row.item_id for row in rows] != [row.item_id for row in first] for rows in rows_S):
        raise EvalFolderError(
            f"{folder.root}: items of {benchmark!r} by {model!r} differ from seed to seed; "
            "run `rubric-eval transfer` again"
        )
    groups = tuple(row.group for row in first)
    return _measured(run, benchmark, entry, rows_S, fields=groups if any(groups) else ())


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
    run: EvalRun,
    benchmark: str,
    model: ModelEntry,
    rows_S: Sequence[Sequence[ItemRow]],
    *,
    fields: tuple[str, ...],
) -> Measured:
    first = rows_S[0]
    every = [row for rows in rows_S for row in rows]
    given = [row for row in every if row.correct is not None]
    known = [row.is_truncated for row in given if row.is_truncated is not None]
    tokens = [row.tokens for row in given if row.tokens is not None]
    source = benchmark_of(benchmark)
    return Measured(
        measure=Measure.ACCURACY,
        benchmark=benchmark,
        model=model.name,
        fingerprint=model.fingerprint,
        prompt_form=model.prompt_form,
        protocol=protocol(run, benchmark),
        chance=source.chance if source else None,
        ids=tuple(row.item_id for row in first),
        clusters=tuple(row.item_id for row in first),
        prompts=tuple(row.prompt_sha256 for row in first),
        fields=fields,
        seeds=run.seeds,
        values_NK=tuple(
            tuple(None if row.correct is None else float(row.correct) for row in row_S)
            for row_S in zip(*rows_S, strict=True)
        ),
        unavailable_frac=1 - len(given) / len(every),
        truncated_frac=sum(known) / len(known) if known else None,
        no_answer_frac=_share([not row.is_answered for row in given]),
        tokens_mean=sum(tokens) / len(tokens) if tokens else None,
    )


def _rows(folder: EvalFolder, run: EvalRun, benchmark: str, model: str, seed: int) -> list[ItemRow]:
    path = folder.items(benchmark, model, seed)
    try:
        rows = read_rows(path, ItemRow)
    except FileNotFoundError:
        rows = []
    if len(rows) != run.questions[benchmark].count:
        raise EvalFolderError(
            f"{path} holds {len(rows)} of {run.questions[benchmark].count} items; run "
            "`rubric-eval transfer` again, which goes on where it was"
        )
    return rows


def _entry(folder: EvalFolder, run: EvalRun, benchmark: str, model: str) -> ModelEntry:
    if run.kind != "transfer":
        raise EvalFolderError(
            f"{folder.root} holds a {run.kind} evaluation, not one on benchmarks; name the folder "
            "that was given to `rubric-eval transfer`"
        )
    if benchmark not in run.questions:
        raise EvalFolderError(
            f"{folder.root} holds no {benchmark!r}: take one of {', '.join(run.questions)}"
        )
    entry = next((one for one in run.models if one.name == model), None)
    if entry is None:
        raise EvalFolderError(
            f"{folder.root} holds no model {model!r}: take one of "
            f"{', '.join(one.name for one in run.models)}"
        )
    return entry


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None
