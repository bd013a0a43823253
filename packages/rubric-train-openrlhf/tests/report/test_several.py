"""Several runs on one page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rubric_core import ConfigError
from rubric_train_openrlhf.report.page import write_report
from rubric_train_openrlhf.report.reading import read_run
from rubric_train_openrlhf.report.several import (
    differing_settings,
    result,
    run_charts,
    write_runs_report,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def runs(make_run: Callable[..., Path]) -> list[Path]:
    """Two runs of different lengths and learning rates."""
    lengths = {"a": 6, "b": 4}
    made = [
        make_run(name=name, steps=n, prompts=1, group=2) for name, n in lengths.items()
    ]
    path = made[1] / "config.resolved.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["optim"]["learning_rate"] = 1e-3
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return made


def test_runs_share_their_charts_in_colours_of_their_own(runs: list[Path]) -> None:
    charts = run_charts({path.name: read_run(path) for path in runs})
    assert len(charts) == 7
    for chart in charts:
        assert [(one.label, one.role) for one in chart.series] == [
            ("a", "c1"),
            ("b", "c2"),
        ]
    training = next(chart for chart in charts if chart.key == "reward")
    assert [len(one.steps) for one in training.series] == [6, 4]


def test_what_differs_is_listed_and_what_does_not_is_left_out(runs: list[Path]) -> None:
    found = differing_settings({path.name: read_run(path) for path in runs})
    assert found.header == ("setting", "a", "b")
    assert {row[0]: row[1:] for row in found.texts} == {
        "optim.learning_rate": ("0.0005", "0.001"),
        "steps": ("6", "4"),
    }


def test_the_page_tells_its_result_first_and_leads_to_the_runs(
    runs: list[Path], comparison: dict[str, Any]
) -> None:
    (runs[0] / "comparison.json").write_text(json.dumps(comparison), encoding="utf-8")
    write_report(runs[0])
    found = {path.name: read_run(path) for path in runs}
    assert result(found).endswith("on the test questions: a 51.3 %.")
    page = write_runs_report(runs)
    assert page == runs[0].parent / "runs.html"
    text = page.read_text(encoding="utf-8")
    sentence = result(found).replace(" %", "\N{NO-BREAK SPACE}%")
    assert text.index(sentence) < text.index("Best validation reward</th>")
    assert '<a href="a/report.html">a</a>' in text
    assert "b/report.html" not in text  # it has none
    assert write_runs_report(runs).read_text(encoding="utf-8") == text


def test_runs_of_one_name_are_told_apart_by_their_folders(
    make_run: Callable[..., Path], tmp_path: Path
) -> None:
    names = "a/seed_0/grpo", "b/seed_0/grpo"
    same = [make_run(name=name, steps=2, prompts=1, group=2) for name in names]
    text = write_runs_report(same, tmp_path / "both.html").read_text(encoding="utf-8")
    assert "a/seed_0/grpo, b/seed_0/grpo" in text
    assert "the runs had the same configuration" in text


def test_a_run_named_twice_and_too_many_runs_are_refused(runs: list[Path]) -> None:
    with pytest.raises(ConfigError, match="named twice"):
        write_runs_report([runs[0], runs[0]])
    with pytest.raises(ConfigError, match="9 runs"):
        write_runs_report([runs[0] / str(number) for number in range(9)])
