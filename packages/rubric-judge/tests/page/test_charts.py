"""Drawings take every colour from the page, and survive whatever numbers they are given."""

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from rubric_judge.ui.page.charts import Chart, Distribution, Series
from rubric_judge.ui.page.drawing import svg

_HOSTILE = '</svg><script>alert(1)</script>" onload="x'


def _chart(*series: Series, **fields: Any) -> Chart:
    return Chart("key", "Title", "Caption.", series, **fields)


def _labels(text: str, anchor: str) -> list[str]:
    return re.findall(rf'text-anchor="{anchor}">([^<]*)<', text)


@pytest.mark.parametrize("width", ["wide", "narrow"])
@pytest.mark.parametrize(
    "chart",
    [
        _chart(
            Series("a", "main", (1, 2, 30), (0.1, 0.4, 0.3), spread=(0.1, 0.2, 0.1))
        ),
        _chart(Series(_HOSTILE, "c6", (1, 2), (0.1, 0.4))),
        _chart(
            Series(_HOSTILE, "other", (0, 5), (0.1, 0.4), style="dots"),
            ringed=5,
            size="lead",
        ),
        _chart(Series("a", "c1", (1, 2), (0.1, 0.4), style="layer"), is_share=True),
        Distribution(
            "T", "", (1.0, 2.0, 3.0), (4, 0), (_HOSTILE, _HOSTILE), marked=1.5
        ),
        Distribution(
            "T", "", (0, 0.5, 1), (1, 7), ("one", "more"), is_share=True, has_tail=True
        ),
    ],
    ids=["line", "dashes", "dots", "layers", "histogram", "tail"],
)
def test_a_drawing_is_an_element_without_colours_of_its_own(
    chart: Chart | Distribution, width: Any
) -> None:
    text = svg(chart, width=width)
    element = ET.fromstring(text)  # noqa: S314  # ours
    assert element.tag == "svg"
    assert set(element.attrib) == {"viewBox"}
    assert {one.tag for one in element.iter()} <= {
        "svg", "line", "text", "polyline", "polygon", "circle", "rect", "title",
    }  # fmt: skip
    assert not re.search(r"#[0-9a-f]{3}|rgb\(|fill=|stroke=|\bid=", text)


def test_a_drawing_survives_gaps_constants_and_single_points() -> None:
    nan, inf = float("nan"), float("inf")
    for values in (
        (nan, inf, -inf),
        (nan, 0.5, nan),
        (0.0, 0.0, 0.0),
        (-1.0, -1.0, -1.0),
        (1e-9, 2e-9, 1e-9),
    ):
        line = Series("a", "main", (1, 2, 3), values)
        dots = Series("b", "other", (0, 3), (nan, nan), style="dots")
        text = svg(_chart(line, dots, size="lead", ringed=3), width="wide")
        assert "nan" not in text
        assert "inf" not in text
    spread = Series("a", "main", (1, 2), (0.5, nan), spread=(nan, inf))
    assert svg(_chart(spread, ceiling=1.0), width="wide")
    for steps, heights in (((7,), (0.0,)), ((7,), (nan,)), ((7, 8), (inf, 1.0))):
        layer = Series("a", "c1", steps, heights, style="layer")
        assert "nan" not in svg(_chart(layer), width="wide")
        assert svg(_chart(layer, is_share=True), width="narrow")


def test_a_gap_parts_a_line() -> None:
    line = Series("a", "main", tuple(range(5)), (0.1, 0.2, float("nan"), 0.3, 0.4))
    assert svg(_chart(line), width="wide").count("<polyline") == 2


def test_a_long_line_keeps_its_ends_and_no_more_points_than_can_be_seen() -> None:
    line = Series("a", "main", tuple(range(5_000)), (0.5,) * 5_000)
    drawn = re.findall(r'points="([^"]*)"', svg(_chart(line), width="wide"))
    assert [len(points.split()) for points in drawn] == [
        400,
        400,
    ]  # smooth, and as it is


def test_a_line_of_many_steps_is_smoothed_and_one_of_few_is_not() -> None:
    values = tuple(0.5 + (0.2 if step % 2 else -0.2) for step in range(40))
    text = svg(_chart(Series("a", "main", tuple(range(40)), values)), width="wide")
    heights = {
        kind: [float(pair.split(",")[1]) for pair in points.split()]
        for kind, points in re.findall(
            r'class="curve (\w+)"[^>]*points="([^"]*)"', text
        )
    }
    spans = {kind: max(of) - min(of) for kind, of in heights.items()}
    assert spans["smooth"] < spans["raw"] / 3
    few = svg(_chart(Series("a", "main", tuple(range(10)), values[:10])), width="wide")
    assert "smooth" not in few
    dots = Series("a", "main", tuple(range(40)), values, style="dots")
    assert "smooth" not in svg(_chart(dots), width="wide")


def test_share_axis_is_in_per_cent() -> None:
    line = Series("a", "main", (1, 2), (0.0, 0.1))
    assert "10 %" in _labels(svg(_chart(line, is_share=True), width="wide"), "end")


def test_steps_are_whole_numbers_on_the_axis() -> None:
    for steps in ((1,), (1, 2), (3, 4, 5)):
        line = Series("a", "main", steps, (0.5,) * len(steps))
        text = svg(_chart(line), width="wide")
        assert _labels(text, "middle") == [str(step) for step in steps]


def test_counts_stand_on_a_scale_of_whole_numbers_and_one_is_in_the_singular() -> None:
    text = svg(
        Distribution("T", "", (0.0, 1.0, 2.0), (1, 2), ("task", "tasks")), width="wide"
    )
    assert _labels(text, "end") == ["0", "1", "2"]
    assert "1 task<" in text
    assert "2 tasks<" in text


def test_names_are_text_and_no_markup() -> None:
    dots = Series("<script>&", "other", (1, 2), (0.5, 0.25), style="dots")
    drawn = svg(_chart(dots, ringed=1), width="wide")
    titles = [one.text for one in ET.fromstring(drawn).iter("title")]  # noqa: S314  # ours
    assert titles == ["<script>&, step 1: 0.500", "<script>&, step 2: 0.250"]
    assert drawn.count('class="ring"') == 1


def test_layers_stand_on_each_other() -> None:
    layers = [
        Series(name, name, (1, 2), (0.2, 0.4), style="layer") for name in ("c1", "c2")
    ]
    drawn = ET.fromstring(svg(_chart(*layers, ceiling=1.0), width="wide"))  # noqa: S314  # ours
    low, high = (one.attrib["points"].split() for one in drawn.iter("polygon"))
    assert (
        high[2:] == low[1::-1]
    )  # the upper one's foot is the lower one's top, walked back


@pytest.mark.parametrize(
    ("histogram", "titles", "labels"),
    [
        (
            Distribution("T", "", (0.0, 0.5, 1.0), (3, 1), ("task", "tasks")),
            ["0 to 0.5: 3 tasks", "0.5 to 1: 1 task"],
            ["0", "0.5", "1"],
        ),
        (
            Distribution(
                "T", "", (1.0, 2.0, 3.0), (1, 1), ("task", "tasks"), is_whole=True
            ),
            ["1: 1 task", "2: 1 task"],
            ["1", "2"],
        ),
        (
            Distribution(
                "T", "", (0.0, 10.0, 20.0), (1, 2), ("task", "tasks"), has_tail=True
            ),
            ["0 to 10: 1 task", "10 and more: 2 tasks"],
            ["0", "10"],
        ),
    ],
)
def test_bars_say_what_they_count(
    histogram: Distribution, titles: list[str], labels: list[str]
) -> None:
    drawn = svg(replace(histogram, marked=1.0), width="wide")
    root = ET.fromstring(drawn)  # noqa: S314  # ours
    assert [one.text for one in root.iter("title")] == titles
    middles = re.findall(r'text-anchor="middle"[^>]*>([^<]*)<', drawn)
    assert middles == labels
    assert "median" in drawn
    assert ("10+" in drawn) == histogram.has_tail


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_labels_of_a_histogram_do_not_touch_its_tail(width: Any) -> None:
    edges = tuple(100.0 * number for number in range(20))
    chart = Distribution(
        "Passage", "", edges, (3,) * 19, ("task", "tasks"), has_tail=True
    )

    labels = re.findall(
        r'<text x="([\d.]+)" y="[\d.]+" text-anchor="(middle|end)">([\d,]+\+?)</text>',
        svg(chart, width=width),
    )
    below = [(float(x), text) for x, anchor, text in labels if anchor == "middle"]
    (tail,) = [(float(x), text) for x, anchor, text in labels if text.endswith("+")]

    begins = tail[0] - 6.5 * len(tail[1])
    assert max(x + 3.25 * len(text) for x, text in below) < begins
