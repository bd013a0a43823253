"""Values of one model, collected from an evaluation's rows."""

from __future__ import annotations

from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING

from rubric_eval.errors import EvalFolderError
from rubric_eval.records import ItemRow, Measure, Measured
from rubric_eval.records.files import read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.records import EvalFolder, EvalRun, ModelEntry


def measured_items(folder: EvalFolder, run: EvalRun, benchmark: str, model: ModelEntry) -> Measured:
    """Collect a model's right and wrong answers to a benchmark.

    Raises:
        EvalFolderError: items are missing.
    """
    by_id: dict[str, list[ItemRow]] = {}
    for seed in run.seeds:
        for row in read_rows(folder.items(benchmark, model.name, seed), ItemRow):
            by_id.setdefault(row.item_id, []).append(row)
    items = list(chain.from_iterable(by_id.values()))
    _check_count(
        folder, benchmark, model.name, len(items), run.questions[benchmark].count * len(run.seeds)
    )
    known = [row.is_truncated for row in items if row.is_truncated is not None]
    return Measured(
        measure=Measure.ACCURACY,
        benchmark=benchmark,
        model=model.name,
        fingerprint=model.fingerprint,
        protocol=run.template,
        ids=tuple(by_id),
        clusters=tuple(by_id),
        prompts=tuple(rows[0].prompt_sha256 for rows in by_id.values()),
        fields=tuple(rows[0].group for rows in by_id.values()),
        seeds=run.seeds,
        values_NK=tuple(tuple(float(row.correct) for row in rows) for rows in by_id.values()),
        truncated_frac=sum(known) / len(known) if known else None,
        no_answer_frac=sum(not row.is_answered for row in items) / len(items),
        tokens_mean=_mean([row.tokens for row in items]),
    )


def _mean(counts: Sequence[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return fmean(known) if known else None


def _check_count(folder: EvalFolder, what: str, model: str, found: int, expected: int) -> None:
    if found != expected:
        raise EvalFolderError(
            f"{folder.root} holds {found} of {expected} rows of {model!r} for {what!r}; run the "
            "command that made it again, which goes on where it was"
        )
