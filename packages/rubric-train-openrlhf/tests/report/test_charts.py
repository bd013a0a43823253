from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from rubric_train_openrlhf.report.charts import MAX_PARTS, Chart, Series, sections
from rubric_train_openrlhf.report.drawing import svg
from rubric_train_openrlhf.report.reading import read_run
from rubric_train_openrlhf.run.records import ClusterStep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _charts(run: Path) -> dict[str, Chart]:
    found = read_run(run)
    return {c.key: c for part in sections(found.metrics, found.heldout) for c in part.charts}


def _chart(*series: Series, **fields: object) -> Chart:
    return Chart("key", "Title", "Caption.", series, **fields)  # type: ignore[arg-type]


def test_every_quantity_of_a_run_has_its_chart(make_run: Callable[..., Path]) -> None:
    charts = _charts(make_run(steps=5))
    assert set(charts) == {
        "reward",
        "zero",
        "criteria",
        "criteria-heldout",
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
    assert [series.label for series in charts["reward"].series] == ["training", "held out"]
    assert charts["reward"].series[1].steps == (0, 5)


def test_reasons_stack_up_to_the_zero_share(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=4)
    layers = [s for s in _charts(run)["zero"].series if s.style == "layer"]
    rows = read_run(run).metrics
    for i, row in enumerate(rows):
        assert sum(layer.values[i] for layer in layers) == pytest.approx(row.zero_reward_frac)


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
    rows = [row.model_copy(update=change) for row in read_run(make_run(steps=2)).metrics]
    charts = {c.key: c for part in sections(rows, []) for c in part.charts}

    assert "entropy" not in charts
    seconds = {layer.label: layer.values[0] for layer in charts["time"].series}
    assert seconds["weights to the engines"] == pytest.approx(0.05)
    assert sum(seconds.values()) == pytest.approx(rows[0].step_s)


def test_more_criteria_than_colours_are_counted_and_said(make_run: Callable[..., Path]) -> None:
    run = read_run(make_run(steps=3))
    many = {f"c{i}": 0.5 for i in range(20)}
    rows = [row.model_copy(update={"criteria": many}) for row in run.metrics]
    reasons = {f"r{i}": 0.01 * (20 - i) for i in range(20)}
    rows = [row.model_copy(update={"zero_reward_by_reason": reasons}) for row in rows]
    heldout = [row.model_copy(update={"criteria": many}) for row in run.heldout]
    charts = {c.key: c for part in sections(rows, heldout) for c in part.charts}
    assert len(charts["criteria"].series) == MAX_PARTS
    assert f"The {MAX_PARTS} of 20 criteria" in charts["criteria"].caption
    layers = [s for s in charts["zero"].series if s.style == "layer"]
    assert layers[-1].label == "all other"
    assert sum(layer.values[0] for layer in layers) == pytest.approx(sum(reasons.values()))


def test_a_criterion_has_one_colour_in_both_charts(make_run: Callable[..., Path]) -> None:
    run = read_run(make_run(steps=3))
    sparse = [
        row.model_copy(update={"criteria": {k: v for k, v in row.criteria.items() if k != gone}})
        for row, gone in zip(run.metrics, ("caveat", "returns", "caveat"), strict=True)
    ]
    charts = {c.key: c for part in sections(sparse, run.heldout) for c in part.charts}
    roles = [
        {s.label: s.role for s in charts[key].series} for key in ("criteria", "criteria-heldout")
    ]
    assert roles[0] == roles[1]


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_a_drawing_is_an_element_without_colours_of_its_own(
    make_run: Callable[..., Path], width: str
) -> None:
    for chart in _charts(make_run(steps=5)).values():
        text = svg(chart, width=width)
        element = ET.fromstring(text.replace("xlink:href", "href"))  # noqa: S314  # ours
        assert element.tag == "svg"
        assert set(element.attrib) == {"viewBox"}
        assert "#ab" not in text
        assert "var(--" in text
        assert "metadata" not in text


def test_a_drawing_survives_gaps_constants_and_single_points() -> None:
    nan, inf = float("nan"), float("inf")
    for values in (
        (nan, inf, -inf),
        (nan, 0.5, nan),
        (0.0, 0.0, 0.0),
        (-1.0, -1.0, -1.0),
        (1e-9, 2e-9, 1e-9),
    ):
        line = Series("a", "train", (1, 2, 3), values)
        dots = Series("b", "heldout", (0, 3), (nan, nan), style="dots")
        assert svg(_chart(line, dots, size="lead"), width="wide")
    spread = Series("a", "train", (1, 2), (0.5, nan), spread=(nan, inf))
    assert svg(_chart(spread, ceiling=1.0), width="wide")
    for steps, heights in (((7,), (0.0,)), ((7,), (nan,)), ((7, 8), (inf, 1.0))):
        layer = Series("a", "c1", steps, heights, style="layer")
        assert svg(_chart(layer), width="wide")
    assert svg(_chart(layer, is_share=True), width="narrow")


def test_share_axis_is_in_per_cent() -> None:
    line = Series("a", "train", (1, 2), (0.0, 0.1))
    assert "10 %" in svg(_chart(line, is_share=True), width="wide")


def test_steps_are_whole_numbers_on_the_axis() -> None:
    for steps in ((1,), (1, 2), (3, 4, 5)):
        line = Series("a", "train", steps, (0.5,) * len(steps))
        text = svg(_chart(line), width="wide")
        # Labels of the horizontal axis are centred under their ticks, the others are not.
        labels = re.findall(r"text-anchor: middle[^>]*>([^<]*)<", text)
        assert labels == [str(step) for step in steps]
