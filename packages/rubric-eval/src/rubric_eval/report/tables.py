"""The paper's tables, with the intervals, tests and failures that it does not report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from rubric_eval.comparison import ModelScore, PairedResult
from rubric_eval.hacking.results import Correlation
from rubric_eval.heldout.correction import CorrectedReward
from rubric_eval.report.reading import Findings
from rubric_eval.statistics import Interval
from rubric_eval.transfer.suites import benchmark_of
from rubric_judge.page.tables import Cell, Column, Form, Row, Table

_CORRECTIONS = {"holm": "Holm", "bh": "Benjamini–Hochberg"}


def columns(
    form: Form, titles: Mapping[str, str], *, has_interval: bool = False, is_ranked: bool = False
) -> tuple[Column, ...]:
    """Columns of one form: each key is the field that its cells hold."""
    looks = {"has_interval": has_interval, "is_ranked": is_ranked}
    return tuple(Column(key=key, title=title, form=form, **looks) for key, title in titles.items())


def cell(value: float | str | Cell | Interval | Correlation | None) -> Cell:
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


def row(
    name: str, *values: float | str | Cell | Interval | Correlation | None, group: str = ""
) -> Row:
    """A row of such cells."""
    return Row(name=name, cells=tuple(map(cell, values)), group=group)


_HELDOUT: Final = (
    *columns(
        "percent",
        {
            "zero_frac": "Zero reward, %",
            "invalid_frac": "Invalid, %",
            "unavailable_frac": "Unavailable, %",
            "truncated_frac": "Truncated, %",
        },
    ),
    *columns("count", {"tokens_mean": "Tokens"}),
)
_QUALITY: Final = (
    *columns("count", {"items": "Items"}),
    *columns(
        "percent",
        {
            "chance": "Chance, %",
            "no_answer_frac": "No answer, %",
            "truncated_frac": "Truncated, %",
            "unavailable_frac": "Unavailable, %",
        },
    ),
)


def _values(one: ModelScore, shown: Sequence[Column]) -> list[float | None]:
    return [getattr(one, "n" if column.key == "items" else column.key) for column in shown]


def benchmark_title(name: str) -> str:
    """How a benchmark is written; names that are not ours stay as they are."""
    if name == "heldout":
        return "Held-out questions"
    known = benchmark_of(name)
    return known.title if known else name


def all_tables(found: Findings, corrected: Sequence[CorrectedReward] = ()) -> tuple[Table, ...]:
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
    judges = ", ".join(found.judges)
    return Table(
        key="table1_heldout",
        title="In-domain held-out rubric evaluation.",
        caption=(
            f"All rows answer the same {first.n:,} held-out questions with the same decoding and "
            f"are scored by the same judge{'s' if many else ''} ({judges}). Reward is the share of "
            f"the rubric's weight that was earned, in %, with its {found.level} interval over "
            "documents. An invalid judgement counts as 0; an unavailable one is left out."
        ),
        first="Method",
        columns=(*_ranked("percent", {"reward": "Held-out rubric reward, %"}), *_HELDOUT),
        rows=tuple(
            row(model, one, *_values(one, _HELDOUT), group=f"judged by {judge}" if many else "")
            for judge, models in found.judges.items()
            for model, one in models.items()
        ),
    )


def corrected_table(corrected: Sequence[CorrectedReward], level: str) -> Table:
    """Rewards as labels would have them, beside those that the judge gave."""
    refused = "".join(
        f" {one.model} is not corrected: {one.refused}." for one in corrected if one.refused
    )
    return Table(
        key="corrected_heldout",
        title="Held-out reward corrected by labels.",
        caption=(
            f"Mean reward as labels would have it, with its {level} interval, by "
            f"prediction-powered inference from {corrected[0].labelled} labelled responses; λ is "
            f"how much the judge is believed, from 0 to 1.{refused}"
        ),
        first="Method",
        columns=(
            *columns("percent", {"raw": "Judged reward, %"}),
            *_ranked("percent", {"mean": "Corrected reward, %"}),
            *columns("decimal", {"trust": "λ"}),
        ),
        rows=tuple(
            row(
                one.model,
                one.raw,
                Cell(value=one.mean, low=one.ci_low, high=one.ci_high),
                one.trust,
            )
            for one in corrected
        ),
    )


def judge_table(found: Findings) -> Table:
    """Figure 2's numbers: every model under every judge, out of ten."""
    return Table(
        key="figure2_judges",
        title="Rubric-judge comparison.",
        caption="Mean rubric reward out of 10 under each judge, on the same questions.",
        first="Model",
        columns=_ranked("tenths", {judge: judge for judge in found.judges}),
        rows=tuple(row(name, *scores) for name, scores in found.of_models(found.judges).items()),
    )


def transfer_table(found: Findings) -> Table:
    """Table 2: accuracy on benchmarks, and the average difference from the first model."""
    models = found.of_models(found.benchmarks)
    base = next(iter(models))
    return Table(
        key="table2_transfer",
        title="Transfer to reasoning benchmarks.",
        caption=(
            f"Accuracy in % with its {found.level} interval, same prompts, decoding and scoring "
            f"for every model. Avg. Δ is the mean over benchmarks of the difference from "
            f"{base}, in percentage points."
        ),
        first="Method",
        columns=(
            *_ranked("percent", {name: benchmark_title(name) for name in found.benchmarks}),
            *_ranked("points", {"average_delta": "Avg. Δ"}),
        ),
        rows=tuple(
            row(model, *scores, found.average(model, base)) for model, scores in models.items()
        ),
    )


def quality_table(found: Findings) -> Table:
    """What lies behind an accuracy: answers that could not be read, and those cut short."""
    return Table(
        key="transfer_quality",
        title="Answers behind the accuracies.",
        caption=(
            "What could not be extracted from an answer counts as wrong; so does what was cut off. "
            "An item without an answer, because the model could not be reached, is left out."
        ),
        first="Method",
        columns=_QUALITY,
        rows=tuple(
            row(model, *_values(one, _QUALITY), group=benchmark_title(name))
            for name, models in found.benchmarks.items()
            for model, one in models.items()
        ),
    )


def difference_table(found: Findings, differences: Sequence[PairedResult]) -> Table:
    """Every paired difference, with the test that decides and what it could have found."""
    order = list(found.columns)
    correction = _CORRECTIONS.get(found.settings.correction.value, found.settings.correction.value)
    return Table(
        key="differences",
        title="Paired differences.",
        caption=(
            f"On the same questions, in percentage points, with the {found.level} interval of each "
            f"by itself. The corrected p-value ({correction}) decides; the detectable difference "
            f"is what the same test would find with {100 * found.settings.power:g} % power."
        ),
        first="Difference",
        columns=(
            *columns("points", {"difference": "Δ, points"}, has_interval=True),
            *columns("probability", {"p": "p", "p_adjusted": "p, corrected"}),
            *columns("text", {"decision": "Decision"}),
            *columns("percent", {"detectable": "Detectable, points"}),
            *columns("count", {"questions": "Questions"}),
            *columns("text", {"test": "Test"}),
        ),
        rows=tuple(
            row(
                f"{one.a} − {one.b}",
                *(one, one.p, one.p_adjusted, _decision(one), one.detectable, one.n, one.test),
                group=benchmark_title(one.benchmark)
                + (f", judged by {one.judge}" if one.judge and len(found.judges) > 1 else ""),
            )
            for one in sorted(differences, key=lambda one: order.index((one.benchmark, one.judge)))
        ),
    )


def average_transfer(found: Findings) -> float | None:
    """Mean accuracy over benchmarks of the only model."""
    means = [one.mean for models in found.benchmarks.values() for one in models.values()]
    return fmean(means) if means else None


def _decision(one: PairedResult) -> str:
    if not one.is_significant:
        return "no difference shown"
    return "higher" if one.mean > 0 else "lower"


def _ranked(form: Form, titles: Mapping[str, str]) -> tuple[Column, ...]:
    return columns(form, titles, has_interval=True, is_ranked=True)
