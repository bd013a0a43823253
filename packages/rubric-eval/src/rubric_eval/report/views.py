"""Tables and bars that the page alone shows: the paper's tables in the form that a reader scans."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from rubric_eval.heldout.table import judge_pair
from rubric_eval.report.tables import bounded
from rubric_judge.page.charts import Bar, Bars
from rubric_judge.page.tables import Cell, Column, Form, Row, Table, written

if TYPE_CHECKING:
    from rubric_eval.report.reading import Evaluation
    from rubric_eval.report.signs import Reliability, Signs

_Titles = Sequence[tuple[str, Form]]
"""Of columns, each with how it is written; those with a decimal form have intervals."""


def heldout_view(table: Table, level: str) -> Table:
    """Rewards along an axis, each model in its colour."""
    rows = [
        row.model_copy(update={"role": f"m{at % 8 + 1}"})
        for rows in table.groups.values()
        for at, row in enumerate(rows)
    ]
    first = table.columns[0].model_copy(update={"title": "Reward, %"})
    columns = (first, *table.columns[1:])
    update = {"look": "dots", "rows": tuple(rows), "columns": columns, "level": level}
    return table.model_copy(update=update)


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
            for at, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True))
        ),
    )


def difference_view(table: Table, level: str) -> Table:
    """Differences around zero; what the corrected test has found is filled and in bold."""
    at = [[column.key for column in table.columns].index(key) for key in (
        "difference", "decision", "p_adjusted", "detectable", "questions"
    )]  # fmt: skip
    test = len(table.columns) - 1
    rows = tuple(
        row.model_copy(
            update={
                "cells": tuple(row.cells[i] for i in at),
                "group": f"{row.group} · {row.cells[test].text}",
                "role": "" if row.cells[at[1]].text == "no difference shown" else "main",
            }
        )
        for row in table.rows
    )
    columns = tuple(table.columns[i] for i in at)
    update = {"look": "dots", "rows": rows, "columns": columns, "level": level}
    return table.model_copy(update=update)


def quality_view(table: Table) -> Table:
    """Rows by benchmark, a column for each model: the long form is for programs."""
    names = dict.fromkeys(row.name for row in table.rows)
    rows: list[Row] = []
    for group, of_models in table.groups.items():
        items, chance = of_models[0].cells[:2]
        answers = {row.name: Cell(text=_quality(row)) for row in of_models}
        cells = (items, chance, *(answers.get(name, Cell(text="–")) for name in names))
        rows.append(Row(name=group, cells=cells))
    shares = "Share of answers that nothing could be extracted from, and share that was cut short"
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


def _quality(row: Row) -> str:
    none, cut, missing = (cell.value for cell in row.cells[2:])
    text = f"{written(none, 'percent')} none, {written(cut, 'percent')} cut"
    return f"{text}, {written(missing, 'percent')} missing" if missing else text


def judge_pairs(heldout: Evaluation) -> Table:
    """Every two judges side by side."""
    measured = {(one.model, one.judge or ""): one for one in heldout.measured}
    found = (judge_pair(measured, a, b) for a, b in combinations(heldout.groups, 2))
    return _table(
        "judge_pairs",
        "Judges side by side.",
        "On the answers that both judged: how much more reward the first gives, whether they rank "
        "answers alike, and whether they put the models in the same order.",
        "Judges",
        (
            ("Answers", "count"),
            ("First less second, points", "points"),
            ("Rank correlation, ρ", "decimal"),
            ("Same order of models", "text"),
        ),
        [
            Row(
                name=f"{pair.a} − {pair.b}",
                cells=(
                    Cell(value=pair.answers),
                    Cell(value=pair.mean_difference),
                    Cell(value=pair.rank_correlation),
                    Cell(text="yes" if pair.same_order else "no"),
                ),
            )
            for pair in found
            if pair is not None
        ],
    )


def divergences(found: Signs) -> Table:
    """What a second judge thinks of the gain."""
    panel = found.panel
    first, second = panel.settings.judge, panel.settings.second or ""
    return _table(
        "divergences",
        "A second judge’s opinion of the gain.",
        f"In percentage points, on the answers that {first} and {second} both judged. A gain that "
        "the first judge sees and the second does not is the first judge’s alone.",
        "Gain",
        ((first, "points"), (second, "points"), ("First less second", "points"),
         ("Diverging", "text")),
        [
            Row(
                name=f"{one.a} − {one.b}",
                cells=(
                    bounded(one.first),
                    bounded(one.second),
                    bounded(one),
                    Cell(text="yes" if one.is_diverging else "no"),
                ),
            )
            for one in panel.divergences
        ],
    )  # fmt: skip


def reliability_tables(study: Reliability) -> list[Table]:
    """Each judge against itself, and judges against each other."""
    alone = (
        f"Each judge against itself, on {study.responses:,} answers to {study.tasks:,} tasks; "
        f"{100 * study.confidence:g} % intervals. Reliability is the share of the spread between "
        "answers to one question that a second judgement would find again."
    )
    judges = [
        Row(
            name=one.judge, cells=(Cell(value=one.judgements), one.icc1_within, one.flips, one.tau2)
        )
        for one in study.judges
    ]
    pairs = [
        Row(
            name=f"{pair.a} − {pair.b}",
            cells=(Cell(value=pair.responses), pair.bias, pair.spearman, pair.kappa),
        )
        for pair in study.pairs
    ]
    titles: tuple[_Titles, _Titles] = (
        (("Judgements", "count"), ("Reliability within a question, ICC(1)", "decimal"),
         ("Advantages of turned sign, %", "percent"), ("Noise of a criterion, τ²", "number")),
        (("Answers", "count"), ("Bias, points", "points"), ("Rank correlation, ρ", "decimal"),
         ("Criterion scores, κ", "decimal")),
    )  # fmt: skip
    both = "Judges against each other, on the answers that both scored."
    tables = (
        _table("judges_alone", "", alone, "Judge", titles[0], judges),
        _table("judges_together", "", both, "Pair", titles[1], pairs),
    )
    return [table for table in tables if table.rows]


def _table(
    key: str, title: str, caption: str, first: str, titles: _Titles, rows: Sequence[Row]
) -> Table:
    columns = (
        Column(key=name, title=name, form=form, has_interval=form not in {"text", "count"})
        for name, form in titles
    )
    return Table(
        key=key, title=title, caption=caption, first=first, columns=tuple(columns), rows=tuple(rows)
    )
