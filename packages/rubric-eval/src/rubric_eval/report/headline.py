"""The top of the page: the numbers that sum an evaluation up, and how it was made."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from rubric_eval.report.standings import standing
from rubric_eval.report.table import written
from rubric_eval.report.tables import transfer_table

if TYPE_CHECKING:
    from rubric_eval.report.reading import Evaluation


@dataclass(frozen=True)
class Figure:
    """One number at the top: what it is for the first model, and for the last."""

    label: str
    value: str
    before: str = ""
    note: str = ""


def figures(heldout: Evaluation | None, transfer: Evaluation | None) -> list[Figure]:
    """Return the numbers at the top, as far as there are evaluations for them."""
    return [*_heldout_figures(heldout), *_transfer_figures(transfer)]


def facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    """How answers were made, in a few words each."""
    run = evaluation.run
    decoding = run.decoding
    drawn = "greedy" if decoding.temperature == 0 else f"temperature {decoding.temperature:g}"
    parts = [drawn]
    if decoding.top_p < 1:
        parts.append(f"top-p {decoding.top_p:g}")
    if decoding.top_k is not None:
        parts.append(f"top-k {decoding.top_k}")
    each = len(run.seeds) * run.samples
    found = [
        ("Models", ", ".join(evaluation.models)),
        ("Judge" if len(run.judges) == 1 else "Judges", ", ".join(j.name for j in run.judges)),
        ("Decoding", ", ".join([*parts, f"at most {decoding.max_tokens:,} tokens"])),
        (
            "Answers a question",
            f"{each} ({len(run.seeds)} seeds × {run.samples})" if each > 1 else "1",
        ),
        ("Finished", (run.finished or "")[:16].replace("T", " ")),
    ]
    return [(name, value) for name, value in found if value]


def _heldout_figures(heldout: Evaluation | None) -> list[Figure]:
    if heldout is None:
        return []
    judge, models = next(iter(heldout.groups.items()))
    first, last = (standing(models[heldout.models[at]]) for at in (0, -1))
    alone = len(models) == 1
    between = "" if alone else f"{heldout.models[0]} → {heldout.models[-1]}, "
    return [
        Figure(
            "Held-out reward, %",
            written(last.mean, "percent"),
            "" if alone else written(first.mean, "percent"),
            f"{between}judged by {judge}",
        ),
        Figure(
            "Zero reward, %",
            written(last.zero_frac, "percent"),
            "" if alone else written(first.zero_frac, "percent"),
            "share of answers that earned nothing",
        ),
        Figure("Held-out questions", f"{len(first.measured.ids):,}", note=_documents(heldout)),
    ]


def _documents(heldout: Evaluation) -> str:
    count = len(set(heldout.measured[0].clusters))
    return f"from {count:,} document{'' if count == 1 else 's'}"


def _transfer_figures(transfer: Evaluation | None) -> list[Figure]:
    if transfer is None:
        return []
    groups = transfer.groups
    count = f"{len(groups)} benchmark{'' if len(groups) == 1 else 's'}"
    if len(transfer.models) > 1:
        delta = transfer_table(transfer).rows[-1].cells[-1].value
        note = f"{transfer.models[-1]} − {transfer.models[0]}, mean of {count}, points"
        return [Figure("Average transfer Δ", written(delta, "points"), note=note)]
    mean = fmean(standing(next(iter(models.values()))).mean for models in groups.values())
    return [Figure("Accuracy, %", written(mean, "percent"), note=f"mean of {count}")]
