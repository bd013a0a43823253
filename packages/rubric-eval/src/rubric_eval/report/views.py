"""Tables and bars that the page alone shows: the paper's tables in the form that a reader scans."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Final

from rubric_eval.comparison import Part, results
from rubric_eval.heldout.table import judge_pair
from rubric_eval.records.run import Measured, present_mean
from rubric_eval.report.reading import Evaluation, Findings
from rubric_eval.report.signs import Reliability, Signs
from rubric_eval.report.tables import CONTROL_GROUP, cell, row, table_of
from rubric_eval.responders.opening import CONTROLS
from rubric_eval.statistics.scores import criterion_values
from rubric_eval.transfer.suites import benchmark_title
from rubric_judge.page.charts import Bar, Bars
from rubric_judge.page.tables import Cell, Column, Row, Table, bounds, counted, written


def heldout_view(table: Table, level: str) -> Table:
    """Rewards along an axis, each model in its colour."""
    rows = [
        row.model_copy(
            update={
                "role": "" if row.group.startswith(CONTROL_GROUP) else f"m{at % 8 + 1}"
            }
        )
        for rows in table.groups.values()
        for at, row in enumerate(rows)
    ]
    first = table.columns[0].model_copy(update={"title": "Reward, %"})
    return _scanned(table, level, (first, *table.columns[1:]), rows)


def _scanned(
    table: Table, level: str, columns: Sequence[Column], rows: Sequence[Row]
) -> Table:
    update = {
        "look": "dots",
        "rows": tuple(rows),
        "columns": tuple(columns),
        "level": level,
    }
    return table.model_copy(update=update)


def result(found: Findings) -> str:
    """Say what the last model earns against the best of the others, and the strongest control.

    By the first judge; a difference that the corrected test does not find is told as none shown.
    """
    if not found.judges:
        return ""
    judge, models = next(iter(found.judges.items()))
    asked = counted(list(models.values())[-1].n, "held-out question")
    return results.result_sentence(
        models,
        {
            control.model: control
            for control in found.controls
            if control.judge == judge
        },
        partial(_gain, found, judge),
        on=f"{asked}, judged by {judge}",
    )


def _gain(found: Findings, judge: str, a: str, b: str) -> str:
    pairs = found.comparison.differences if found.comparison else ()
    paired_result = next(
        (pair for pair in pairs if (pair.judge, pair.a, pair.b) == (judge, a, b)), None
    )
    if paired_result is None:
        return ", a difference that was not tested,"
    figures = (
        f"{written(paired_result.mean, 'points')} points "
        f"({bounds(cell(paired_result), 'points')})"
    )
    return f": {figures}" + (
        "" if paired_result.is_significant else ", no difference shown,"
    )


def control_warnings(found: Findings) -> list[str]:
    """Say which controls earn no less than the last model under the same judge."""
    last = {judge: list(models.values())[-1] for judge, models in found.judges.items()}
    pairs = (
        (control, last[control.judge])
        for control in found.controls
        if control.judge in last
    )
    return [
        f"{score.model} ({CONTROLS[score.model.partition('_')[2]]}) earns "
        f"{written(score.mean, 'percent')} % by {score.judge}, no less than {model.model} with "
        f"{written(model.mean, 'percent')} %"
        for score, model in pairs
        if score.mean >= model.mean
    ]


def judge_bars(table: Table, level: str) -> Bars:
    """Every model under every judge."""
    several = len(table.columns) > 1
    each = " under each judge" if several else ""
    return Bars(
        "Judge comparison",
        f"Mean rubric reward out of 10 of each model{each}, with its {level} interval.",
        tuple(
            Bar(
                row.name if at == 0 else "",
                written(cell.value, "tenths"),
                cell.value or 0.0,
                note=column.title if several else "",
                role=f"m{number % 8 + 1}",
                low=cell.low,
                high=cell.high,
            )
            for number, row in enumerate(table.rows)
            for at, (column, cell) in enumerate(
                zip(table.columns, row.cells, strict=True)
            )
        ),
    )


def difference_view(table: Table, level: str) -> Table:
    """Differences around zero; what the corrected test has found is filled and in bold."""
    place = {column.key: at for at, column in enumerate(table.columns)}
    at = [
        place[key]
        for key in ("difference", "decision", "p_adjusted", "detectable", "questions")
    ]
    rows = tuple(
        row.model_copy(
            update={
                "cells": tuple(row.cells[i] for i in at),
                "group": f"{row.group} · {row.cells[place['test']].text}",
                "role": ""
                if row.cells[at[1]].text == "no difference shown"
                else "main",
            }
        )
        for row in table.rows
    )
    return _scanned(table, level, [table.columns[i] for i in at], rows)


def quality_view(table: Table) -> Table:
    """Rows by benchmark, a column for each model: the long form is for programs."""
    names = dict.fromkeys(row.name for row in table.rows)
    keys = [column.key for column in table.columns]
    rows: list[Row] = []
    for group, of_models in table.groups.items():
        items, chance = of_models[0].cells[:2]
        answers = {row.name: Cell(text=_quality(row, keys)) for row in of_models}
        cells = (items, chance, *(answers.get(name, Cell(text="–")) for name in names))
        rows.append(Row(name=group, cells=cells))
    shares = "Share of answers that nothing could be extracted from, and share that was cut short"
    shares += ", that stands behind a thought, and that ended within one"
    update = {
        "first": "Benchmark",
        "caption": f"{shares}, in %. {table.caption}",
        "columns": (
            *table.columns[:2],
            *(Column(key=name, title=name, form="text") for name in names),
        ),
        "rows": tuple(rows),
    }
    return table.model_copy(update=update)


def _quality(row: Row, keys: Sequence[str]) -> str:
    """Say how answers ended; what never happened is left out, but for the first two."""
    values = {key: cell.value for key, cell in zip(keys, row.cells, strict=True)}
    words = {
        "no_answer_frac": "none",
        "truncated_frac": "cut",
        "thought_frac": "with a thought",
        "unclosed_frac": "within one",
        "unavailable_frac": "missing",
    }
    always = ("no_answer_frac", "truncated_frac")
    return ", ".join(
        f"{written(values[key], 'percent')} {word}"
        for key, word in words.items()
        if values[key] or key in always
    )


def judge_pairs(heldout: Evaluation) -> Table:
    """Every two judges side by side."""
    measured = {(one.model, one.judge or ""): one for one in heldout.measured}
    pairs = (judge_pair(measured, a, b) for a, b in combinations(heldout.groups, 2))
    rows = (
        row(
            f"{pair.a} − {pair.b}",
            pair.answers,
            pair.mean_difference,
            pair.rank_correlation,
            "yes" if pair.same_order else "no",
        )
        for pair in pairs
        if pair is not None
    )
    return table_of("judge_pairs", rows)


def divergences(found: Signs) -> Table:
    """What a second judge thinks of the gain."""
    panel = found.panel
    first = panel.settings.judge
    second = panel.settings.second or ""
    rows = (
        row(
            f"{divergence.a} − {divergence.b}",
            divergence.first,
            divergence.second,
            divergence,
            "yes" if divergence.is_diverging else "no",
        )
        for divergence in panel.divergences
    )
    judges = {"first": first, "second": second}
    return table_of("divergences", rows, judges, **judges)


def reliability_tables(study: Reliability) -> list[Table]:
    """Each judge against itself, and judges against each other."""
    alone = (
        row(judge.judge, judge.judgements, judge.icc1_within, judge.flips, judge.tau2)
        for judge in study.judges
    )
    together = (
        row(
            f"{pair.a} − {pair.b}", pair.responses, pair.bias, pair.spearman, pair.kappa
        )
        for pair in study.pairs
    )
    tables = (
        table_of(
            "judges_alone",
            alone,
            responses=study.responses,
            tasks=study.tasks,
            confidence=100 * study.confidence,
        ),
        table_of("judges_together", together),
    )
    return [table for table in tables if table.rows]


MOST_PARTS: Final = 24
"""Of one difference; the greatest."""
MOST_ROWS: Final = 40
"""Criteria that a reader can still compare."""


def exploratory(found: Findings) -> list[Table]:
    """Return the breakdowns of the last model's difference from the first one.

    Every pair's is in comparison.json; a page shows the one that a reader asks about first.
    """
    if found.comparison is None:
        return []
    groups: dict[tuple[str, str, str | None], list[Part]] = {}
    for part in found.comparison.exploratory:
        models = list(found.columns[part.benchmark, part.judge])
        if (part.a, part.b) == (models[-1], models[0]):
            groups.setdefault((part.kind, part.benchmark, part.judge), []).append(part)
    several = len(found.judges) > 1
    judged = {
        judge: f", judged by {judge}" if several and judge else ""
        for *_, judge in groups
    }
    return [
        _breakdown(kind, benchmark, judged[judge], parts, level=found.level)
        for (kind, benchmark, judge), parts in groups.items()
        if len(parts) > 1
    ]


def _breakdown(
    kind: str, benchmark: str, judged: str, parts: list[Part], *, level: str
) -> Table:
    shown = sorted(parts, key=lambda one: -abs(one.mean))[:MOST_PARTS]
    rows = (
        row(part.name, part, part.n)
        for part in sorted(shown, key=lambda one: -one.mean)
    )
    return table_of(
        "by_kind",
        rows,
        pair=f"{parts[0].a} − {parts[0].b}",
        kind=kind,
        heading=kind.capitalize(),
        where=f"{benchmark_title(benchmark)}{judged}",
        shown=f"the {len(shown)} greatest of {len(parts)}"
        if len(shown) < len(parts)
        else "",
        key=f"by-{kind}-{benchmark}",
        level=level,
    )


def heat(judge: str, models: Mapping[str, Measured], *, is_alone: bool = True) -> Table:
    """Mean z of each criterion under one judge, models' greatest differences first.

    Args:
        judge: whose scores.
        models: values of each.
        is_alone: whether there is no other judge to tell it from.
    """
    of_models = [criterion_values(model) for model in models.values()]
    questions: Counter[str] = Counter()
    for found in of_models:
        questions |= Counter({name: len(z) for name, z in found.items()})
    rows: list[tuple[float, Row]] = []
    for name, count in questions.most_common(MOST_ROWS):
        means = [present_mean(model.get(name, {}).values()) for model in of_models]
        known = [mean for mean in means if mean is not None]
        spread = max(known) - min(known)
        rows.append((spread, row(name, *means, spread, count)))
    rows.sort(key=lambda ranked: -ranked[0])
    left_out = len(questions) - len(rows)
    others = f"; the {len(rows)} criteria of most questions, {left_out:,} others are left out"
    return table_of(
        "heat",
        (ranked for _, ranked in rows),
        {model: model for model in models},
        judged="" if is_alone else f"; judged by {judge}",
        others=others if left_out else "",
        key=judge,
    )
