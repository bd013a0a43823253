"""Figures show every judge under its whole name, and are left out where there is little to draw."""

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Task
from rubric_judge.quality.reliability import Rating, collect, measure
from rubric_judge.quality.reliability import figures as drawn

MakeTasks = Callable[[int], dict[str, Task]]
Simulated = Callable[..., list[Rating]]

NAMES = (
    "hosted_vllm/openai/gpt-oss-20b shared_prefix_v1",
    "hosted_vllm/openai/gpt-oss-20b paper_v1:0e34cc88 (strict)",
    "hosted_vllm/openai/gpt-oss-20b paper_v1:0e34cc88 (costs_$5_or_$9)",
)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The figures that were saved, by name."""
    kept: dict[str, Any] = {}
    save = drawn.pictures.save_figure

    def keep(figure: Any, folder: Path, name: str) -> list[Path]:
        kept[name] = figure
        return save(figure, folder, name)

    monkeypatch.setattr(drawn.pictures, "save_figure", keep)
    return kept


def _draw(ratings: list[Rating], tasks: dict[str, Task], folder: Path) -> list[str]:
    study = collect(ratings, tasks)
    paths = drawn.draw_figures(measure(study, resamples=30), study, folder)
    return [path.stem for path in paths if path.suffix == ".png"]


def _words(svg: Path) -> str:
    """All text of a picture without its spaces; the SVG names each line beside its outlines."""
    lines = re.findall(r"<!-- (.*?) -->", svg.read_text("utf-8"), re.DOTALL)
    return re.sub(r"[\\\s]", "", html.unescape("".join(lines)))


@pytest.mark.parametrize("judges", [1, 2, 3])
def test_every_figure_names_every_judge_in_full(
    judges: int, tmp_path: Path, make_tasks: MakeTasks, simulated: Simulated
) -> None:
    tasks = make_tasks(9)
    noise = dict.fromkeys(NAMES[:judges], 0.1)

    names = _draw(simulated(tasks, noise=noise), tasks, tmp_path)

    expected = [
        "noise_by_criterion",
        "noise_predicted_measured",
        "judges",
        "sign_flips",
    ]
    assert names == [name for name in expected if judges > 1 or name != "judges"]
    for name in names:
        shown = _words(tmp_path / f"{name}.svg")
        for judge in NAMES[:judges]:
            assert judge.replace(" ", "") in shown


def test_few_judgements_still_give_a_line_for_each_judge(
    tmp_path: Path, make_tasks: MakeTasks, simulated: Simulated, figures: dict[str, Any]
) -> None:
    tasks = make_tasks(16)
    noise = {"a": 0.05, "b": 0.15}

    _draw(simulated(tasks, noise=noise, group=6, replicates=2), tasks, tmp_path)

    (axes,) = figures["sign_flips"].axes
    lines = {line.get_label(): line for line in axes.lines}
    for judge in noise:
        places, shares = lines[judge].get_data()
        assert len(places) >= 3
        assert list(places) == sorted(set(places))
        assert all(0 <= share <= 1 for share in shares)


def test_a_judge_with_too_few_pairs_is_named_beside_the_others(
    tmp_path: Path, make_tasks: MakeTasks, simulated: Simulated, figures: dict[str, Any]
) -> None:
    tasks = make_tasks(16)
    ratings = simulated(tasks, noise={"a": 0.1}, replicates=2)
    ratings += simulated(tasks, noise={"person": 0.1}, replicates=1)

    _draw(ratings, tasks, tmp_path)

    (axes,) = figures["sign_flips"].axes
    labels = [line.get_label() for line in axes.lines]
    assert labels[:2] == ["a", "person: too few pairs of advantages"]


def test_equal_sizes_are_one_point(
    tmp_path: Path, make_tasks: MakeTasks, simulated: Simulated, figures: dict[str, Any]
) -> None:
    tasks = make_tasks(40)
    # Groups of two: every advantage has the same size, so that no order of them means anything.
    ratings = simulated(tasks, noise={"two": 0.1}, group=2, replicates=2)

    assert "sign_flips" not in _draw(ratings, tasks, tmp_path)
    assert "noise_by_criterion" in figures


def test_too_few_advantages_are_no_figure(
    tmp_path: Path, make_tasks: MakeTasks, simulated: Simulated
) -> None:
    tasks = make_tasks(4)

    names = _draw(
        simulated(tasks, noise={"a": 0.1}, group=6, replicates=2), tasks, tmp_path
    )

    assert names == ["noise_by_criterion", "noise_predicted_measured"]
    assert not (tmp_path / "sign_flips.svg").exists()


def test_the_legend_has_the_axis_s_unit_and_dots_at_0_are_whole(
    tmp_path: Path, make_tasks: MakeTasks, simulated: Simulated, figures: dict[str, Any]
) -> None:
    tasks = make_tasks(9)

    _draw(simulated(tasks, noise={"exact": 0.0, "noisy": 0.1}), tasks, tmp_path)

    (axes,) = figures["noise_predicted_measured"].axes
    assert "standard deviation" in axes.get_xlabel()
    labels = axes.get_legend_handles_labels()[1]
    assert [label.split("{")[0] for label in labels] == [
        r"$\sqrt",
        r"$\sqrt",
        "measured",
    ]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert {float(line.get_xdata()[0]) for line in dots} == {0.0}  # the first judge's
    assert not any(line.get_clip_on() for line in dots)


def test_a_judge_without_noise_has_no_empty_figures(
    tmp_path: Path, make_tasks: MakeTasks, simulated: Simulated
) -> None:
    tasks = make_tasks(9)

    names = _draw(simulated(tasks, noise={"exact": 0.0}), tasks, tmp_path)

    assert names == ["sign_flips"]  # at 0 throughout, which is what one wants to see
