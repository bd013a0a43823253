"""The paper's tables, with intervals, tests and failures that the paper does not report."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rubric_core.files import toml_beside
from rubric_eval.comparison import ModelScore, PairedResult
from rubric_eval.findings.measuring import Findings, Results, Signs
from rubric_eval.hacking.results import Correlation
from rubric_eval.heldout.table import CorrectedReward
from rubric_eval.statistics import Interval
from rubric_eval.transfer.suites import TITLES
from rubric_judge.ui.page.links import link_to
from rubric_judge.ui.page.tables import Cell, Row, Table, counted, latex, markdown

_CORRECTIONS = {"holm": "Holm", "bh": "Benjamini–Hochberg"}

HELDOUT = "heldout"
"""Set of the held-out questions; each benchmark has one of its own name."""
CONTROL_GROUP = "Controls: no model wrote them"
"""Start of the titles of the groups that hold controls."""
_TABLES = toml_beside(__file__, "tables.toml")


def _json(table: Table) -> str:
    return table.model_dump_json(indent=1) + "\n"


def without_zeros(table: Table) -> Table:
    """Return a table without columns of what is rare and did not occur, named below it."""
    kept = [
        at
        for at, column in enumerate(table.columns)
        if not column.is_rare
        or any(row.cells[at].value for row in table.rows)
        or all(row.cells[at].value is None for row in table.rows)
    ]
    if len(kept) == len(table.columns):
        return table
    rows = [
        row.model_copy(update={"cells": tuple(row.cells[at] for at in kept)})
        for row in table.rows
    ]
    columns = tuple(table.columns[at] for at in kept)
    names: dict[str, list[str]] = {}
    for at, column in enumerate(table.columns):
        if at not in kept:
            is_known = all(row.cells[at].value is not None for row in table.rows)
            where = "in every row" if is_known else "wherever it is known"
            names.setdefault(where, []).append(column.title.partition(",")[0])
    zeros = [f"0 {where}: {', '.join(names[where])}." for where in sorted(names)]
    caption = " ".join(filter(None, (table.caption, *zeros)))
    update = {"columns": columns, "rows": tuple(rows), "caption": caption}
    return table.model_copy(update=update)


def _markdown(table: Table) -> str:
    return markdown(without_zeros(table))


def _latex(table: Table) -> str:
    return latex(without_zeros(table))


FORMS = {"md": _markdown, "tex": _latex, "json": _json}
"""Functions that write a table, by the ending of its file; programs get every column."""


def answers_of(
    shown: str,
    model: str = "",
    other: str = "",
    *,
    judge: str | None = None,
    **choice: str,
) -> str:
    """Return the address of a model's answers, of two models' side by side, or of all answers.

    Args:
        shown: the set of questions.
        model: a model, which stands on the right; all of them if empty.
        other: the model on the left; the same, and thus alone, if empty.
        judge: whose rewards are shown; the first judge's if None.
        choice: further filters: `show`, `sort`, `field`, `criterion`.
    """
    sides = {"left": other or model, "right": model}
    return link_to("", set=shown, **sides, judge=judge or "", **choice)


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


def row(name: str, *values: Shown, group: str = "", link: str = "") -> Row:
    """Return a row that has a cell for each value, and leads to the answers behind it."""
    cells = tuple(cell(value) for value in values)
    return Row(name=name, cells=cells, group=group, link=link)


def all_tables(results: Results) -> tuple[Table, ...]:
    """Make every table that there are numbers for."""
    findings = results.findings
    corrected = results.corrected
    tables: list[Table] = []
    if findings.judges:
        tables += [heldout_table(findings), judge_table(findings)]
    if corrected:
        tables.append(corrected_table(corrected, findings.level))
    if findings.benchmarks:
        tables += [transfer_table(findings), quality_table(findings)]
    if findings.comparison is not None and findings.comparison.differences:
        tables.append(difference_table(findings, findings.comparison.differences))
    if results.signs is not None:
        tables.append(signs_table(results.signs))
    return tuple(tables)


def table_files(folder: Path, tables: Iterable[Table]) -> dict[Path, str]:
    """Return the text of each table in every form, by the path of its file."""
    return {
        folder / f"{table.key}.{suffix}": form(table)
        for table in tables
        for suffix, form in FORMS.items()
    }


def by_model(
    columns: Mapping[str, Mapping[str, ModelScore]],
) -> dict[str, list[ModelScore | None]]:
    """Return each model's score in each of these columns, by model."""
    models = dict.fromkeys(model for column in columns.values() for model in column)
    return {
        model: [column.get(model) for column in columns.values()] for model in models
    }


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
    def part(value: float | None, show: str) -> Cell:
        """Return a share, which leads to the answers that it counts."""
        link = answers_of(HELDOUT, score.model, judge=score.judge, show=show)
        return Cell(value=value, link=link if value else "")

    return row(
        score.model,
        score,
        part(score.zero_frac, "zero"),
        part(score.invalid_frac, "failed"),
        part(score.unavailable_frac, "failed"),
        part(score.truncated_frac, "cut"),
        part(score.no_answer_frac, "failed"),
        score.thought_frac,
        score.unclosed_frac,
        score.tokens_mean,
        group=group,
        link=answers_of(HELDOUT, score.model, judge=score.judge),
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
            link=answers_of(HELDOUT, reward.model),
        )
        for reward in corrected
    )
    return table_of("corrected_heldout", rows, level=level, refused=refused)


def judge_table(findings: Findings) -> Table:
    """Figure 2's numbers: every model under every judge, out of ten."""
    rows = (
        row(name, *map(_leading, scores), link=answers_of(HELDOUT, name))
        for name, scores in by_model(findings.judges).items()
    )
    return table_of("figure2_judges", rows, {judge: judge for judge in findings.judges})


def _leading(score: ModelScore | None) -> Cell:
    """Return the cell of a score, which leads to the model's answers."""
    if score is None:
        return Cell()
    shown = HELDOUT if score.judge else score.benchmark
    link = answers_of(shown, score.model, judge=score.judge)
    return cell(score).model_copy(update={"link": link})


def transfer_table(findings: Findings) -> Table:
    """Table 2: accuracy on benchmarks, and the average difference from the first model."""
    models = by_model(findings.benchmarks)
    base = next(iter(models))
    rows = (
        row(model, *map(_leading, scores), findings.averages.get((model, base)))
        for model, scores in models.items()
    )
    benchmarks = {name: TITLES.get(name, name) for name in findings.benchmarks}
    return table_of(
        "table2_transfer", rows, benchmarks, level=findings.level, base=base
    )


def quality_table(findings: Findings) -> Table:
    """Shares of the answers to a benchmark that could not be read or were cut short."""
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
            group=TITLES.get(name, name),
            link=answers_of(name, model, show=_worst_end(score)),
        )
        for name, models in findings.benchmarks.items()
        for model, score in models.items()
    )
    return table_of("transfer_quality", rows)


def _worst_end(score: ModelScore) -> str:
    """Return the filter of the answers that ended worst, of those that there are."""
    if score.no_answer_frac or score.unavailable_frac:
        return "failed"
    return "cut" if score.truncated_frac else ""


def difference_table(findings: Findings, differences: Sequence[PairedResult]) -> Table:
    """Every paired difference, with its test and the least difference that it could detect."""
    order = list(findings.columns)
    several = len(findings.judges) > 1
    rows: list[Row] = []
    for difference in sorted(
        differences, key=lambda result: order.index((result.benchmark, result.judge))
    ):
        group = TITLES.get(difference.benchmark, difference.benchmark)
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
                link=answers_of(
                    HELDOUT if difference.judge else difference.benchmark,
                    difference.a,
                    difference.b,
                    judge=difference.judge,
                ),
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


def _decision(difference: PairedResult) -> str:
    if not difference.is_significant:
        return "no difference shown"
    return "higher" if difference.mean > 0 else "lower"


def signs_table(signs: Signs) -> Table:
    """Make the table of signs in the answers of each model."""
    panel = signs.panel
    second = {opinion.model: opinion.second_mean for opinion in panel.opinions}
    rows = (
        row(
            model.model,
            model.words,
            model.reward_length,
            model.reward_length_within,
            model.hedges,
            model.appeals,
            model.echoes,
            second.get(model.model),
            link=answers_of(HELDOUT, model.model, judge=panel.settings.judge),
        )
        for model in panel.models
    )
    return table_of("hacking_signs", rows, judge=panel.settings.judge)
