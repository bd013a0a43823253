"""The paper's tables, with the intervals and failures that it does not report."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from rubric_eval.report.standings import standing
from rubric_eval.report.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from rubric_eval.report.reading import Evaluation
    from rubric_eval.report.standings import Standing

LEVEL = "95 %"


def all_tables(heldout: Evaluation | None, transfer: Evaluation | None) -> tuple[Table, ...]:
    """Make every table that these evaluations can fill."""
    found: list[Table] = []
    if heldout is not None:
        found += [heldout_table(heldout), judge_table(heldout)]
    if transfer is not None:
        found += [transfer_table(transfer), quality_table(transfer)]
    return tuple(found)


def heldout_table(evaluation: Evaluation) -> Table:
    """Table 1: held-out rubric reward of each model, under each judge."""
    rows = tuple(
        Row(name=model, cells=_heldout_cells(standing(one)), group=_group(evaluation, judge))
        for judge, models in evaluation.groups.items()
        for model, one in models.items()
    )
    judges = ", ".join(evaluation.groups)
    return Table(
        key="table1_heldout",
        title="In-domain held-out rubric evaluation.",
        caption=(
            f"All rows answer the same {_questions(evaluation)} held-out questions with the same "
            f"decoding and are scored by the same judge ({judges}). Reward is the share of the "
            f"rubric's weight that was earned, in %, with its {LEVEL} interval over documents. "
            "An invalid judgement counts as 0; an unavailable one is left out."
        ),
        first="Method",
        columns=(
            Column(
                key="reward",
                title="Held-out rubric reward, %",
                form="percent",
                has_interval=True,
                is_ranked=True,
            ),
            Column(key="zero_frac", title="Zero reward, %", form="percent"),
            Column(key="invalid_frac", title="Invalid, %", form="percent"),
            Column(key="unavailable_frac", title="Unavailable, %", form="percent"),
            Column(key="truncated_frac", title="Truncated, %", form="percent"),
            Column(key="tokens_mean", title="Tokens", form="count"),
        ),
        rows=rows,
    )


def _heldout_cells(found: Standing) -> tuple[Cell, ...]:
    one = found.measured
    return (
        Cell(value=found.mean, low=found.interval.ci_low, high=found.interval.ci_high),
        Cell(value=found.zero_frac),
        Cell(value=one.invalid_frac),
        Cell(value=one.unavailable_frac),
        Cell(value=one.truncated_frac),
        Cell(value=one.tokens_mean),
    )


def judge_table(evaluation: Evaluation) -> Table:
    """Figure 2's numbers: every model under every judge, out of ten."""
    groups = evaluation.groups
    columns = tuple(
        Column(key=judge, title=judge, form="tenths", has_interval=True, is_ranked=True)
        for judge in groups
    )
    found = {
        judge: {m: standing(one) for m, one in models.items()} for judge, models in groups.items()
    }
    return Table(
        key="figure2_judges",
        title="Rubric-judge comparison.",
        caption="Mean rubric reward out of 10 under each judge, on the same questions.",
        first="Model",
        columns=columns,
        rows=tuple(
            Row(name=model, cells=tuple(_bounded(found[judge][model]) for judge in groups))
            for model in evaluation.models
        ),
    )


def transfer_table(evaluation: Evaluation) -> Table:
    """Table 2: accuracy on benchmarks, and the average difference from the first model."""
    found = _by_benchmark(evaluation)
    baseline = evaluation.models[0]
    rows: list[Row] = []
    for model in evaluation.models:
        deltas = [found[name][model].mean - found[name][baseline].mean for name in found]
        mean = Cell() if model == baseline else Cell(value=fmean(deltas))
        rows.append(
            Row(name=model, cells=(*(_bounded(found[name][model]) for name in found), mean))
        )
    columns = [
        Column(
            key=name, title=benchmark_title(name), form="percent", has_interval=True, is_ranked=True
        )
        for name in found
    ]
    return Table(
        key="table2_transfer",
        title="Transfer to reasoning benchmarks.",
        caption=(
            f"Accuracy in % with its {LEVEL} interval, same prompts, decoding and scoring for "
            f"every model. Avg. Δ is the mean over benchmarks of the difference from {baseline}, "
            "in percentage points."
        ),
        first="Method",
        columns=(
            *columns,
            Column(key="average_delta", title="Avg. Δ", form="points", is_ranked=True),
        ),
        rows=tuple(rows),
    )


def quality_table(evaluation: Evaluation) -> Table:
    """What lies behind an accuracy: answers that could not be read, and those cut short."""
    rows = tuple(
        Row(
            name=model,
            group=benchmark_title(name),
            cells=(
                Cell(value=len(one.ids)),
                Cell(value=one.chance),
                Cell(value=one.no_answer_frac),
                Cell(value=one.truncated_frac),
            ),
        )
        for name, models in evaluation.groups.items()
        for model, one in models.items()
    )
    return Table(
        key="transfer_quality",
        title="Answers behind the accuracies.",
        caption="An answer that could not be extracted counts as wrong; so does one cut before it.",
        first="Method",
        columns=(
            Column(key="items", title="Items", form="count"),
            Column(key="chance", title="Chance, %", form="percent"),
            Column(key="no_answer_frac", title="No answer, %", form="percent"),
            Column(key="truncated_frac", title="Truncated, %", form="percent"),
        ),
        rows=rows,
    )


def benchmark_title(name: str) -> str:
    """How a benchmark is written; names that are not ours stay as they are."""
    titles = {
        "heldout": "Held-out questions",
        "rubric_gsm8k": "GSM8K",
        "rubric_math": "MATH",
        "rubric_gpqa_main": "GPQA Main",
        "rubric_gpqa_diamond": "GPQA Diamond",
    }
    return titles.get(name, name)


def _by_benchmark(evaluation: Evaluation) -> dict[str, dict[str, Standing]]:
    return {
        name: {model: standing(one) for model, one in models.items()}
        for name, models in evaluation.groups.items()
    }


def _bounded(found: Standing) -> Cell:
    return Cell(value=found.mean, low=found.interval.ci_low, high=found.interval.ci_high)


def _group(evaluation: Evaluation, judge: str) -> str:
    return f"judged by {judge}" if len(evaluation.groups) > 1 else ""


def _questions(evaluation: Evaluation) -> str:
    return f"{len(evaluation.measured[0].ids):,}"
