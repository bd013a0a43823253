"""Tables and bars that only the page shows: the paper's tables in a form that is easy to scan."""

from collections.abc import Iterable, Sequence
from functools import partial

from rubric_eval.comparison import Part, results
from rubric_eval.findings.measuring import Findings, Signs
from rubric_eval.findings.studies import Reliability
from rubric_eval.heldout.table import JudgePair
from rubric_eval.records.run import CONTROL
from rubric_eval.report.tables import (
    CONTROL_GROUP,
    HELDOUT,
    answers_of,
    cell,
    row,
    table_of,
    without_zeros,
)
from rubric_eval.responders.opening import CONTROLS
from rubric_eval.statistics.intervals import CriterionMeans
from rubric_eval.transfer.suites import TITLES
from rubric_judge.ui.page.charts import Bar, Bars
from rubric_judge.ui.page.tables import (
    Cell,
    Column,
    Row,
    Table,
    bounds,
    counted,
    written,
)


def heldout_view(table: Table, level: str) -> Table:
    """Rewards along an axis, each model in its colour."""
    table = without_zeros(table)
    rows: list[Row] = []
    for group in table.groups.values():
        for at, line in enumerate(group):
            is_control = line.group.startswith(CONTROL_GROUP)
            role = "" if is_control else f"m{at % 8 + 1}"
            rows.append(line.model_copy(update={"role": role}))
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


_RIGHT = f"{CONTROL}_right_in_other_words"
"""The control that every model should fall short of: what somebody wrote to meet all criteria."""


def result(findings: Findings) -> str:
    """Say what the last model earns against the best of the others, and the strongest control.

    The rewards are those of the first judge. The sentence says of a difference that is not
    significant after correction that none is shown.
    """
    if not findings.judges:
        return ""
    judge, models = next(iter(findings.judges.items()))
    controls = {
        control.model: control
        for control in findings.controls
        if control.judge == judge and control.model != _RIGHT
    }
    last = list(models.values())[-1]
    questions = counted(last.n, "held-out question")
    return results.result_sentence(
        models,
        controls,
        partial(_gain, findings, judge),
        on=f"{questions}, judged by {judge}",
    )


def _gain(findings: Findings, judge: str, a: str, b: str) -> str:
    """Describe the difference a − b under a judge."""
    differences = findings.comparison.differences if findings.comparison else ()
    for difference in differences:
        if (difference.judge, difference.a, difference.b) == (judge, a, b):
            break
    else:
        return ", a difference that was not tested,"
    points = written(difference.mean, "points")
    interval = bounds(cell(difference), "points")
    gain = f": {points} points ({interval})"
    return gain if difference.is_significant else f"{gain}, no difference shown,"


def control_warnings(findings: Findings) -> list[str]:
    """Say which controls earn no less than the last model under the same judge."""
    last = {
        judge: list(models.values())[-1] for judge, models in findings.judges.items()
    }
    pairs = (
        (control, last[control.judge])
        for control in findings.controls
        if control.judge in last and control.model != _RIGHT
    )
    return [
        f"{score.model} ({CONTROLS[score.model.partition('_')[2]]}) earns "
        f"{written(score.mean, 'percent')} % by {score.judge}, no less than {model.model} with "
        f"{written(model.mean, 'percent')} %"
        for score, model in pairs
        if score.mean >= model.mean
    ]


def judge_bars(table: Table, level: str) -> Bars:
    """Every model under every judge, in per cent as all rewards of the page."""
    several = len(table.columns) > 1
    each = " under each judge" if several else ""
    all_bars: list[Bar] = []
    for number, line in enumerate(table.rows):
        name = line.name
        for column, score in zip(table.columns, line.cells, strict=True):
            all_bars.append(
                Bar(
                    name,
                    f"{written(score.value, 'percent')} %",
                    score.value or 0.0,
                    note=column.title if several else "",
                    role=f"m{number % 8 + 1}",
                    low=score.low,
                    high=score.high,
                    link=score.link,
                )
            )
            name = ""  # only the first bar of a model has its name
    return Bars(
        "Judge comparison" if several else "Reward of each model",
        f"Mean rubric reward of each model{each}, with its {level} interval.",
        tuple(all_bars),
    )


def difference_view(table: Table, level: str) -> Table:
    """Differences around zero; those significant after correction are filled and in bold."""
    place = {column.key: at for at, column in enumerate(table.columns)}
    keys = ("difference", "decision", "p_adjusted", "detectable", "questions")
    at = [place[key] for key in keys]
    rows: list[Row] = []
    for line in table.rows:
        is_shown = line.cells[place["decision"]].text != "no difference shown"
        update = {
            "cells": tuple(line.cells[i] for i in at),
            "group": f"{line.group} · {line.cells[place['test']].text}",
            "role": "main" if is_shown else "",
        }
        rows.append(line.model_copy(update=update))
    return _scanned(table, level, [table.columns[i] for i in at], rows)


def quality_view(table: Table) -> Table:
    """A row for each benchmark and a column for each model; the long form is for programs."""
    names = dict.fromkeys(row.name for row in table.rows)
    keys = [column.key for column in table.columns]
    rows: list[Row] = []
    for group, of_models in table.groups.items():
        items, chance = of_models[0].cells[:2]
        answers = {
            row.name: Cell(text=_quality(row, keys), link=row.link) for row in of_models
        }
        cells = (items, chance, *(answers.get(name, Cell(text="–")) for name in names))
        rows.append(Row(name=group, cells=cells))
    shares = "Share of answers that nothing could be extracted from, and share that was cut short"
    shares += ", that comes after a thought, and that ended within one"
    model_columns = [Column(key=name, title=name, form="text") for name in names]
    update = {
        "first": "Benchmark",
        "caption": f"{shares}, in %. {table.caption}",
        "columns": (*table.columns[:2], *model_columns),
        "rows": tuple(rows),
    }
    return table.model_copy(update=update)


def _quality(row: Row, keys: Sequence[str]) -> str:
    """Say how answers ended; except for the first two, ends that never occurred are left out."""
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


def pairs_table(pairs: Iterable[JudgePair]) -> Table:
    """Agreement of each pair of judges."""
    rows = (
        row(
            f"{pair.a} − {pair.b}",
            pair.answers,
            pair.mean_difference,
            pair.rank_correlation,
            "yes" if pair.same_order else "no",
            link=answers_of(HELDOUT, judge=pair.a),
        )
        for pair in pairs
    )
    return table_of("judge_pairs", rows)


def divergences(signs: Signs) -> Table:
    """Gains by the first judge beside those by the second."""
    panel = signs.panel
    first = panel.settings.judge
    second = panel.settings.second or ""
    rows = (
        row(
            f"{divergence.a} − {divergence.b}",
            divergence.first,
            divergence.second,
            divergence,
            "yes" if divergence.is_diverging else "no",
            link=answers_of(HELDOUT, divergence.a, divergence.b, judge=first),
        )
        for divergence in panel.divergences
    )
    judges = {"first": first, "second": second}
    return table_of("divergences", rows, judges, first=first, second=second)


def reliability_tables(study: Reliability) -> list[Table]:
    """Each judge against itself, and judges against each other."""
    alone = (
        row(
            judge.judge,
            judge.judgements,
            judge.icc1_within,
            judge.flips,
            judge.tau2,
            link=answers_of(HELDOUT, judge=judge.judge),
        )
        for judge in study.judges
    )
    together = (
        row(
            f"{pair.a} − {pair.b}",
            pair.responses,
            pair.bias,
            pair.spearman,
            pair.kappa,
            link=answers_of(HELDOUT, judge=pair.a),
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


MOST_PARTS = 24
"""Number of parts shown of one difference; the greatest ones."""
MOST_ROWS = 40
"""Number of criteria that a reader can still compare."""


def exploratory(findings: Findings) -> list[Table]:
    """Return the breakdowns of the last model's difference from the first one.

    comparison.json has those of every pair; the page shows the pair that readers ask about first.
    """
    if findings.comparison is None:
        return []
    groups: dict[tuple[str, str, str | None], list[Part]] = {}
    for part in findings.comparison.exploratory:
        models = list(findings.columns[part.benchmark, part.judge])
        if (part.a, part.b) == (models[-1], models[0]):
            groups.setdefault((part.kind, part.benchmark, part.judge), []).append(part)
    several = len(findings.judges) > 1
    tables: list[Table] = []
    for (kind, benchmark, judge), parts in groups.items():
        if len(parts) > 1:
            judged = f", judged by {judge}" if several and judge else ""
            table = _breakdown(kind, benchmark, judged, parts, level=findings.level)
            tables.append(table)
    return tables


def _breakdown(
    kind: str, benchmark: str, judged: str, parts: list[Part], *, level: str
) -> Table:
    greatest = sorted(parts, key=lambda part: -abs(part.mean))[:MOST_PARTS]
    ranked = sorted(greatest, key=lambda part: -part.mean)
    rows = (
        row(part.name, part, part.n, link=_answers_of_part(part)) for part in ranked
    )
    shown = ""
    if len(greatest) < len(parts):
        shown = f"the {len(greatest)} greatest of {len(parts)}"
    return table_of(
        "by_kind",
        rows,
        pair=f"{parts[0].a} − {parts[0].b}",
        kind=kind,
        heading=kind.capitalize(),
        where=f"{TITLES.get(benchmark, benchmark)}{judged}",
        shown=shown,
        key=f"by-{kind}-{benchmark}",
        level=level,
    )


def _answers_of_part(part: Part) -> str:
    shown = HELDOUT if part.judge else part.benchmark
    named = {part.kind: part.name}
    return answers_of(shown, part.a, part.b, judge=part.judge, **named)


def heat(
    judge: str,
    models: Iterable[str],
    criteria: Sequence[CriterionMeans],
    *,
    is_alone: bool = True,
) -> Table:
    """Mean z of each criterion under one judge, models' greatest differences first.

    Args:
        judge: the judge that gave the scores.
        models: names of the models.
        criteria: means of the models, those of most questions first.
        is_alone: whether it is the only judge, so that its name is left out.
    """
    models = tuple(models)
    rows: list[tuple[float, Row]] = []
    for criterion in criteria[:MOST_ROWS]:
        known = [mean for mean in criterion.means if mean is not None]
        spread = max(known) - min(known)
        means = (
            Cell(
                value=mean,
                link=answers_of(HELDOUT, model, judge=judge, criterion=criterion.name),
            )
            for model, mean in zip(models, criterion.means, strict=True)
        )
        named = answers_of(HELDOUT, judge=judge, criterion=criterion.name)
        cells = row(criterion.name, *means, spread, criterion.questions, link=named)
        rows.append((spread, cells))
    rows.sort(key=lambda ranked: -ranked[0])
    left_out = len(criteria) - len(rows)
    others = ""
    if left_out:
        others = f"; the {len(rows)} criteria of most questions, {left_out:,} others are left out"
    return table_of(
        "heat",
        (ranked for _, ranked in rows),
        {model: model for model in models},
        judged="" if is_alone else f"; judged by {judge}",
        others=others,
        key=judge,
    )
