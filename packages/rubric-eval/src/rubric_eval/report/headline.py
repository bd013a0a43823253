"""The top of the page: the numbers that sum an evaluation up, and how it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_eval.report.tables import average_transfer
from rubric_judge.page.tables import Figure, written

if TYPE_CHECKING:
    from rubric_eval.report.findings import Findings
    from rubric_eval.report.reading import Evaluation


def figures(
    found: Findings, heldout: Evaluation | None, transfer: Evaluation | None
) -> list[Figure]:
    """Return the numbers at the top, as far as there are evaluations for them."""
    return [*_heldout_figures(found, heldout), *_transfer_figures(found, transfer)]


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
    found = [
        ("Models", ", ".join(evaluation.models)),
        ("Judge" if len(run.judges) == 1 else "Judges", ", ".join(j.name for j in run.judges)),
        ("Decoding", ", ".join([*parts, f"at most {_budget(evaluation)} tokens"])),
        ("Answers a question", _draws(len(run.seeds), run.samples)),
        ("Finished", (run.finished or "")[:16].replace("T", " ")),
    ]
    return [(name, value) for name, value in found if value]


def _budget(evaluation: Evaluation) -> str:
    """Tokens of an answer; benchmarks may differ."""
    run = evaluation.run
    budgets = sorted({run.max_tokens.get(name, run.decoding.max_tokens) for name in run.questions})
    return " or ".join(f"{budget:,}" for budget in budgets)


def _draws(seeds: int, samples: int) -> str:
    if seeds == 1 or samples == 1:
        return f"{seeds * samples}"
    return f"{seeds * samples} ({seeds} seeds × {samples})"


def _heldout_figures(found: Findings, heldout: Evaluation | None) -> list[Figure]:
    if heldout is None:
        return []
    judge, models = next(iter(found.judges.items()))
    named = list(models.values())
    first, last = named[0], named[-1]
    alone = len(models) == 1
    between = "" if alone else f"{first.model} → {last.model}, "
    documents = f"from {first.clusters:,} document{'' if first.clusters == 1 else 's'}"
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
        Figure("Held-out questions", f"{len(heldout.measured[0].ids):,}", note=documents),
    ]


def _transfer_figures(found: Findings, transfer: Evaluation | None) -> list[Figure]:
    if transfer is None:
        return []
    count = len(found.benchmarks)
    benchmarks = f"{count} benchmark{'' if count == 1 else 's'}"
    first, last = transfer.models[0], transfer.models[-1]
    if (average := found.average(last, first)) is None:
        mean = written(average_transfer(found), "percent")
        return [Figure("Accuracy, %", mean, note=f"mean of {benchmarks}")]
    note = f"{last} − {first}, mean of {benchmarks}, points"
    return [Figure("Average transfer Δ", written(average.mean, "points"), note=note)]
