"""The paper's tables, with intervals, tests and failures that the paper does not report."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final

from rubric_core.files import toml_beside
from rubric_eval.comparison import ModelScore, PairedResult
from rubric_eval.findings.measuring import Findings
from rubric_eval.hacking.results import Correlation
from rubric_eval.heldout.table import CorrectedReward
from rubric_eval.statistics import Interval
from rubric_eval.transfer.suites import benchmark_title
from rubric_judge.ui.page.tables import Cell, Row, Table, counted

_CORRECTIONS = {"holm": "Holm", "bh": "Benjamini–Hochberg"}


CONTROL_GROUP: Final = "Controls: no model wrote them"
"""Start of the titles of the groups that hold controls."""
_TABLES: Final = toml_beside(__file__, "tables.toml")


def table_of(
    section: str,
    rows: Iterable[Row],
    each: Mapping[str, str] | None = None,
    *,
    key: str = "",
    **values: object,
) -> Table:
    """Make the table of a section of tables.toml, named like it; see `Table.from_words`."""
    return Table.from_words(_TABLES[section], rows, each, key=key or section, **values)


Shown = float | str | Cell | Interval | Correlation | None


def cell(value: Shown) -> Cell:
    """Return the cell of a word, a number or a number with its bounds; empty for None."""
    match value:
        case Cell():
            return value
        case str():
            return Cell(text=value)
        case Interval():
            return Cell.of(value.estimate)
        case Correlation():
            return Cell.of(value.estimate)
        case _:
            return Cell(value=value)


def row(name: str, *values: Shown, group: str = "") -> Row:
    """Return a row that has a cell for each value."""
    return Row(name=name, cells=tuple(cell(value) for value in values), group=group)


def all_tables(
    findings: Findings, corrected: Sequence[CorrectedReward] = ()
) -> tuple[Table, ...]:
    """Make every table that there are numbers for."""
    tables: list[Table] = []
    if findings.judges:
        tables += [heldout_table(findings), judge_table(findings)]
    if corrected:
        tables.append(corrected_table(corrected, findings.level))
    if findings.benchmarks:
        tables += [transfer_table(findings), quality_table(findings)]
    if findings.comparison is not None and findings.comparison.differences:
        tables.append(difference_table(findings, findings.comparison.differences))
    return tuple(tables)


def heldout_table(findings: Findings) -> Table:
    """Table 1: held-out rubric reward of each model, under each judge."""
    many = len(findings.judges) > 1
    scores = [score for models in findings.judges.values() for score in models.values()]
    rows: list[Row] = []
    for score in scores:
        group = f"judged by {score.judge}" if many else ""
        rows.append(_heldout_row(score, group))
    for control in findings.controls:
        group = f"{CONTROL_GROUP}, judged by {control.judge}" if many else CONTROL_GROUP
        rows.append(_heldout_row(control, group))
    names = ", ".join(findings.judges)
    judges = f"judges ({names})" if many else f"judge ({names})"
    questions = counted(scores[0].n, "held-out question")
    return table_of(
        "table1_heldout", rows, questions=questions, judges=judges, level=findings.level
    )


def _heldout_row(score: ModelScore, group: str) -> Row:
    return row(
        score.model,
        score,
        score.zero_frac,
        score.invalid_frac,
        score.unavailable_frac,
        score.truncated_frac,
        score.no_answer_frac,
        score.thought_frac,
        score.unclosed_frac,
        score.tokens_mean,
        group=group,
    )


def corrected_table(corrected: Sequence[CorrectedReward], level: str) -> Table:
    """Rewards corrected by labels, beside those that the judge gave."""
    refused = "".join(
        f" {reward.model} is not corrected: {reward.refused}."
        for reward in corrected
        if reward.refused
    )
    rows = (
        row(
            reward.model,
            reward.raw,
            Cell(value=reward.mean, low=reward.ci_low, high=reward.ci_high),
            reward.trust,
            reward.labelled,
        )
        for reward in corrected
    )
    return table_of("corrected_heldout", rows, level=level, refused=refused)


def judge_table(findings: Findings) -> Table:
    """Figure 2's numbers: every model under every judge, out of ten."""
    rows = (
        row(name, *scores)
        for name, scores in findings.of_models(findings.judges).items()
    )
    return table_of("figure2_judges", rows, {judge: judge for judge in findings.judges})


def transfer_table(findings: Findings) -> Table:
    """Table 2: accuracy on benchmarks, and the average difference from the first model."""
    models = findings.of_models(findings.benchmarks)
    base = next(iter(models))
    rows = (
        row(model, *scores, findings.average(model, base))
        for model, scores in models.items()
    )
    benchmarks = {name: benchmark_title(name) for name in findings.benchmarks}
    return table_of(
        "table2_transfer", rows, benchmarks, level=findings.level, base=base
    )


def quality_table(findings: Findings) -> Table:
    """Shares of answers behind an accuracy that could not be read or were cut short."""
    rows = (
        row(
            model,
            score.n,
            score.chance,
            score.no_answer_frac,
            score.truncated_frac,
            score.thought_frac,
            score.unclosed_frac,
            score.unavailable_frac,
            group=benchmark_title(name),
        )
        for name, models in findings.benchmarks.items()
        for model, score in models.items()
    )
    return table_of("transfer_quality", rows)


def difference_table(findings: Findings, differences: Sequence[PairedResult]) -> Table:
    """Every paired difference, with its test and the least difference that it could detect."""
    order = list(findings.columns)
    several = len(findings.judges) > 1
    rows: list[Row] = []
    for difference in sorted(
        differences, key=lambda result: order.index((result.benchmark, result.judge))
    ):
        group = benchmark_title(difference.benchmark)
        if difference.judge and several:
            group += f", judged by {difference.judge}"
        rows.append(
            row(
                f"{difference.a} − {difference.b}",
                difference,
                difference.p,
                difference.p_adjusted,
                _decision(difference),
                difference.detectable,
                difference.n,
                difference.test,
                group=group,
            )
        )
    correction = findings.settings.correction.value
    return table_of(
        "differences",
        rows,
        level=findings.level,
        correction=_CORRECTIONS.get(correction, correction),
        power=100 * findings.settings.power,
    )


def average_transfer(findings: Findings) -> float | None:
    """Mean accuracy over benchmarks of the only model."""
    means = [
        model.mean
        for models in findings.benchmarks.values()
        for model in models.values()
    ]
    return fmean(means) if means else None


def _decision(difference: PairedResult) -> str:
    if not difference.is_significant:
        return "no difference shown"
    return "higher" if difference.mean > 0 else "lower"
