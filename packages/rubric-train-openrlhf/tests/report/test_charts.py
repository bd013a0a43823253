from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rubric_judge.ui.page.charts import Chart
from rubric_train_openrlhf.report.charts import MAX_PARTS, sections
from rubric_train_openrlhf.report.page import write_report
from rubric_train_openrlhf.report.reading import read_run
from rubric_train_openrlhf.run.records import ClusterStep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _charts(run: Path) -> dict[str, Chart]:
    found = read_run(run)
    return _by_key(sections(found.metrics, found.heldout))


def _by_key(found: dict[str, tuple[Chart, ...]]) -> dict[str, Chart]:
    return {chart.key: chart for charts in found.values() for chart in charts}


def test_every_quantity_of_a_run_has_its_chart(make_run: Callable[..., Path]) -> None:
    charts = _charts(make_run(steps=5))
    assert set(charts) == {
        "reward",
        "zero",
        "criteria",
        "criteria-validation",
        "failures",
        "kl",
        "clip",
        "entropy",
        "grad-norm",
        "length",
        "truncated",
        "time",
        "speed",
    }
    assert [series.label for series in charts["reward"].series] == [
        "training",
        "validation",
    ]
    assert charts["reward"].series[1].steps == (0, 5)


def test_reasons_stack_up_to_the_zero_share(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=4)
    layers = [s for s in _charts(run)["zero"].series if s.style == "layer"]
    rows = read_run(run).metrics
    for i, row in enumerate(rows):
        assert sum(layer.values[i] for layer in layers) == pytest.approx(
            row.zero_reward_frac
        )


def test_seconds_stack_up_to_the_step(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=4)
    for i, row in enumerate(read_run(run).metrics):
        stacked = sum(layer.values[i] for layer in _charts(run)["time"].series)
        assert stacked == pytest.approx(row.step_s)


def test_a_cluster_has_its_own_parts_of_a_step_and_may_have_no_entropy(
    make_run: Callable[..., Path],
) -> None:
    cluster = ClusterStep(
        sampler_gap=0.01,
        updates=4,
        experience_s=0.1,
        sync_s=0.05,
        engine_restarts=0,
        judge_restarts=0,
        resent_responses=0,
        attribution={},
    )
    change = {"cluster": cluster, "entropy": None}
    rows = [
        row.model_copy(update=change) for row in read_run(make_run(steps=2)).metrics
    ]
    charts = _by_key(sections(rows, []))

    assert "entropy" not in charts
    seconds = {layer.label: layer.values[0] for layer in charts["time"].series}
    assert seconds["weights to the engines"] == pytest.approx(0.05)
    assert sum(seconds.values()) == pytest.approx(rows[0].step_s)


def test_more_criteria_than_colours_are_counted_and_said(
    make_run: Callable[..., Path],
) -> None:
    run = read_run(make_run(steps=3))
    many = {f"c{i}": 0.5 for i in range(20)}
    rows = [row.model_copy(update={"criteria": many}) for row in run.metrics]
    reasons = {f"r{i}": 0.01 * (20 - i) for i in range(20)}
    rows = [row.model_copy(update={"zero_reward_by_reason": reasons}) for row in rows]
    heldout = [row.model_copy(update={"criteria": many}) for row in run.heldout]
    charts = _by_key(sections(rows, heldout))
    assert len(charts["criteria"].series) == MAX_PARTS
    assert f"The {MAX_PARTS} of 20 criteria" in charts["criteria"].caption
    layers = [s for s in charts["zero"].series if s.style == "layer"]
    assert layers[-1].label == "all other"
    assert sum(layer.values[0] for layer in layers) == pytest.approx(
        sum(reasons.values())
    )


def test_a_criterion_has_one_colour_in_both_charts(
    make_run: Callable[..., Path],
) -> None:
    run = read_run(make_run(steps=3))
    sparse = [
        row.model_copy(
            update={"criteria": {k: v for k, v in row.criteria.items() if k != gone}}
        )
        for row, gone in zip(run.metrics, ("caveat", "returns", "caveat"), strict=True)
    ]
    charts = _by_key(sections(sparse, run.heldout))
    roles = [
        {s.label: s.role for s in charts[key].series}
        for key in ("criteria", "criteria-validation")
    ]
    assert roles[0] == roles[1]


def _written(run_dir: Path, **fields: float) -> str:
    """Write the page of a run whose steps have these fields."""
    path = run_dir / "metrics.jsonl"
    rows = [json.loads(line) | fields for line in path.read_text("utf-8").splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return write_report(run_dir).read_text("utf-8")


def test_charts_of_zeros_are_named_and_not_drawn(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=4, prompts=1, group=2)

    text = _written(run, invalid_frac=0.0, unavailable_frac=0.0)

    assert "<h3>Judgements without a score</h3>" not in text
    assert "0 at every step, and not drawn: Judgements without a score" in text


def test_a_divergence_that_was_not_measured_is_not_shown(
    make_run: Callable[..., Path],
) -> None:
    run = make_run(steps=4, prompts=1, group=2)

    assert "KL to" not in _written(run, kl=0.0)
    assert _written(run, kl=0.1).count("KL to") > 1


def test_names_that_no_response_is_chosen_by_lead_to_the_step_alone(
    make_run: Callable[..., Path],
) -> None:
    found = read_run(make_run(steps=3))

    (chart,) = [
        chart
        for chart in sections(found.metrics, [], known={"caveat"})["Reward"]
        if chart.key == "criteria"
    ]

    links = {series.label: series.link for series in chart.series}
    assert "criterion=caveat" in links.pop("caveat")
    assert set(links.values()) == {"#step={step}"}
