"""The paper's tables, with the intervals, tests and failures that it does not report."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final

from rubric_core.files import toml_beside
from rubric_eval.comparison import ModelScore, PairedResult
from rubric_eval.hacking.results import Correlation
from rubric_eval.heldout.table import CorrectedReward
from rubric_eval.report.reading import Findings
from rubric_eval.statistics import Interval
from rubric_eval.transfer.suites import benchmark_title
from rubric_judge.page.tables import Cell, Row, Table, counted

_CORRECTIONS = {"holm": "Holm", "bh": "Benjamini–Hochberg"}


CONTROL_GROUP: Final = "Controls: no model wrote them"
"""Begins the titles of their groups."""
_TABLES: Final = toml_beside(__file__, "tables.toml")


def table_of(
    section: str,
    rows: Iterable[Row],
    each: Mapping[str, str] | None = None,
    *,
    key: str = "",
    **values: object,
) -> Table:
    """Make the table of a section of tables.toml, which is its key as well; see `Table.told`."""
    return Table.told(_TABLES[section], rows, each, key=key or section, **values)


Shown = float | str | Cell | Interval | Correlation | None


def cell(value: Shown) -> Cell:
    """A word, a number, or one with its bounds; nothing where there is none."""
    match value:
        case Cell():
            return value
        case str():
            return Cell(text=value)
        case Interval():
            return Cell(value=value.mean, low=value.ci_low, high=value.ci_high)
        case Correlation():
            return Cell(value=value.rho, low=value.ci_low, high=value.ci_high)
        case _:
            return Cell(value=value)


def row(name: str, *values: Shown, group: str = "") -> Row:
    """A row of such cells."""
    return Row(name=name, cells=tuple(map(cell, values)), group=group)


def all_tables(
    found: Findings, corrected: Sequence[CorrectedReward] = ()
) -> tuple[Table, ...]:
    """Make every table that there are numbers for."""
    tables: list[Table] = []
    if found.judges:
        tables += [heldout_table(found), judge_table(found)]
    if corrected:
        tables.append(corrected_table(corrected, found.level))
    if found.benchmarks:
        tables += [transfer_table(found), quality_table(found)]
    if found.comparison is not None and found.comparison.differences:
        tables.append(difference_table(found, found.comparison.differences))
    return tuple(tables)


def heldout_table(found: Findings) -> Table:
    """Table 1: held-out rubric reward of each model, under each judge."""
    many = len(found.judges) > 1
    first = next(iter(next(iter(found.judges.values())).values()))
    models = (score for of in found.judges.values() for score in of.values())
    rows = [
        _heldout_row(model, f"judged by {model.judge}" if many else "")
        for model in models
    ]
    beside = f"{CONTROL_GROUP}, judged by {{}}" if many else CONTROL_GROUP
    rows += [
        _heldout_row(control, beside.format(control.judge))
        for control in found.controls
    ]
    judges = f"judge{'s' if many else ''} ({', '.join(found.judges)})"
    asked = counted(first.n, "held-out question")
    return table_of(
        "table1_heldout", rows, questions=asked, judges=judges, level=found.level
    )


def _heldout_row(one: ModelScore, group: str) -> Row:
    return row(
        one.model,
        one,
        one.zero_frac,
        one.invalid_frac,
        one.unavailable_frac,
        one.truncated_frac,
        one.no_answer_frac,
        one.thought_frac,
        one.unclosed_frac,
        one.tokens_mean,
        group=group,
    )


def corrected_table(corrected: Sequence[CorrectedReward], level: str) -> Table:
    """Rewards as labels would have them, beside those that the judge gave."""
    refused = "".join(
        f" {corrected_reward.model} is not corrected: {corrected_reward.refused}."
        for corrected_reward in corrected
        if corrected_reward.refused
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


def judge_table(found: Findings) -> Table:
    """Figure 2's numbers: every model under every judge, out of ten."""
    rows = (
        row(name, *scores) for name, scores in found.of_models(found.judges).items()
    )
    return table_of("figure2_judges", rows, {judge: judge for judge in found.judges})


def transfer_table(found: Findings) -> Table:
    """Table 2: accuracy on benchmarks, and the average difference from the first model."""
    models = found.of_models(found.benchmarks)
    base = next(iter(models))
    rows = (
        row(model, *scores, found.average(model, base))
        for model, scores in models.items()
    )
    benchmarks = {name: benchmark_title(name) for name in found.benchmarks}
    return table_of("table2_transfer", rows, benchmarks, level=found.level, base=base)


def quality_table(found: Findings) -> Table:
    """What lies behind an accuracy: answers that could not be read, and those cut short."""
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
        for name, models in found.benchmarks.items()
        for model, score in models.items()
    )
    return table_of("transfer_quality", rows)


def difference_table(found: Findings, differences: Sequence[PairedResult]) -> Table:
    """Every paired difference, with the test that decides and what it could have found."""
    order = list(found.columns)
    rows = (
        row(
            f"{difference.a} − {difference.b}",
            difference,
            difference.p,
            difference.p_adjusted,
            _decision(difference),
            difference.detectable,
            difference.n,
            difference.test,
            group=benchmark_title(difference.benchmark)
            + (
                f", judged by {difference.judge}"
                if difference.judge and len(found.judges) > 1
                else ""
            ),
        )
        for difference in sorted(
            differences, key=lambda one: order.index((one.benchmark, one.judge))
        )
    )
    correction = found.settings.correction.value
    return table_of(
        "differences",
        rows,
        level=found.level,
        correction=_CORRECTIONS.get(correction, correction),
        power=100 * found.settings.power,
    )


def average_transfer(found: Findings) -> float | None:
    """Mean accuracy over benchmarks of the only model."""
    means = [
        model.mean for models in found.benchmarks.values() for model in models.values()
    ]
    return fmean(means) if means else None


def _decision(one: PairedResult) -> str:
    if not one.is_significant:
        return "no difference shown"
    return "higher" if one.mean > 0 else "lower"
