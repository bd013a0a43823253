"""What is worth labelling: every class is there, and the weights make up for it."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import JudgeResult
from rubric_core.errors import RubricFileError
from rubric_judge.quality.labels import sampling
from rubric_judge.quality.labels.rows import LabelSource
from rubric_judge.quality.labels.sampling import (
    draw,
    draw_more,
    in_order,
    judged_levels,
)
from rubric_judge.quality.responses import JudgedResponse, write_judgements

COUNTED = ("fact", "limit", "tone", "extra")


def _rare(source: LabelSource, *, every: int = 40) -> dict[int, dict[str, int]]:
    """A judge that gives the best score to all but each fortieth response of one criterion."""
    return {
        line: {
            name: 0 if name == "fact" and line % every == 0 else 2 for name in COUNTED
        }
        for line in source.views or {}
    }


def test_a_rare_class_is_drawn_far_above_its_share(
    make_source: Callable[..., LabelSource],
) -> None:
    source = make_source(tasks=100)  # 400 responses, of which 10 are low on `fact`
    levels = _rare(source)
    rare = {line for line, level in levels.items() if level["fact"] == 0}
    drawn = draw(source, levels, count=160, seed=0)
    blind = draw(source, {}, count=160, seed=0)

    assert len(drawn) == len(blind) == 40
    assert len(rare & {one.line for one in drawn}) >= 8
    assert len(rare & {one.line for one in blind}) <= 4
    assert {one.criteria for one in drawn} == {
        COUNTED
    }  # the one without weight is not asked for


def test_where_all_is_drawn_a_larger_count_draws_nothing_more(
    make_source: Callable[..., LabelSource],
) -> None:
    all_drawn, again = draw_more(make_source(tasks=3), {}, counts=[48, 96], seed=0)
    assert [one.inclusion for one in all_drawn] == [1.0] * 12
    assert again == all_drawn


@pytest.fixture
def one_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute the probabilities once for each count: of one source, they differ with no seed."""
    compute: Callable[..., Any] = sampling._inclusion
    found: dict[float, Any] = {}

    def once(*arrays: Any, expected: float) -> Any:
        if expected not in found:
            found[expected] = compute(*arrays, expected=expected)
        return found[expected]

    monkeypatch.setattr(sampling, "_inclusion", once)


@pytest.mark.usefixtures("one_source")
def test_each_response_is_drawn_as_often_as_is_said(
    make_source: Callable[..., LabelSource],
) -> None:
    source = make_source(tasks=30)
    levels = {
        line: {
            name: (line * (place + 1)) % 7 // 3 for place, name in enumerate(COUNTED)
        }
        for line in source.views or {}
    }
    drawn = [draw(source, levels, count=80, seed=seed) for seed in range(600)]
    said = {one.line: one.inclusion for sample in drawn for one in sample}
    often = Counter(one.line for sample in drawn for one in sample)

    assert said.keys() == (source.views or {}).keys()
    assert sum(said.values()) == pytest.approx(20)
    z = [
        (often[line] - 600 * share) / np.sqrt(600 * share * (1 - share))
        for line, share in said.items()
    ]
    assert np.abs(z).max() < 4.5
    assert 0.7 < np.std(z) < 1.3
    means = [
        sum((one.line % 7) / one.inclusion for one in sample) / 120 for sample in drawn
    ]
    truth = np.mean([line % 7 for line in said])
    assert np.mean(means) == pytest.approx(truth, abs=4 * np.std(means) / np.sqrt(600))


@pytest.mark.usefixtures("one_source")
def test_more_are_drawn_as_often_as_is_said(
    make_source: Callable[..., LabelSource],
) -> None:
    source = make_source(tasks=30)
    levels = {
        line: {
            name: (line * (place + 1)) % 7 // 3 for place, name in enumerate(COUNTED)
        }
        for line in source.views or {}
    }
    draws = [
        draw_more(source, levels, counts=[80, 200], seed=seed) for seed in range(300)
    ]
    said = {one.line: one.inclusion for _, both in draws for one in both}
    often = Counter(one.line for _, both in draws for one in both)

    assert all(
        {a.line for a in first} <= {b.line for b in both} for first, both in draws
    )
    assert all(
        first == draw(source, levels, count=80, seed=s)
        for s, (first, _) in enumerate(draws)
    )
    assert said.keys() == (source.views or {}).keys()
    assert 50 <= sum(said.values()) < 51  # as many as one draw of 200 labels
    z = [
        (often[line] - 300 * share) / np.sqrt(300 * share * (1 - share))
        for line, share in said.items()
        if share < 1
    ]
    assert np.abs(z).max() < 4.5
    assert 0.7 < np.std(z) < 1.3


@given(
    count=st.integers(1, 200),
    seed=st.integers(0, 2**31),
    cuts=st.lists(st.integers(0, 2), min_size=20, max_size=20),
)
def test_about_as_many_labels_are_asked_for_as_are_wanted(
    source: LabelSource, count: int, seed: int, cuts: list[int]
) -> None:
    levels = {line: dict.fromkeys(COUNTED, cut) for line, cut in enumerate(cuts, 1)}
    drawn = draw(source, levels, count=count, seed=seed)
    labels = sum(len(one.criteria) for one in drawn)

    assert drawn == draw(source, levels, count=count, seed=seed)
    assert abs(labels - min(max(count, 4), 80)) < 4 + 1e-9
    assert len({one.line for one in drawn}) == len(drawn)
    assert all(0 < one.inclusion <= 1 for one in drawn)
    if count >= 80:
        assert [one.inclusion for one in drawn] == pytest.approx([1.0] * 20)


def test_raters_get_the_same_cells_in_orders_of_their_own(source: LabelSource) -> None:
    drawn = draw(source, {}, count=40, seed=3)
    anna, ben, again = (
        in_order(drawn, rater=rater, seed=3) for rater in ("Anna", "Ben", "Anna")
    )

    assert anna == again
    assert anna != ben
    assert sorted(anna) == sorted(ben)
    lines = [line for line, _ in anna]
    assert lines == sorted(
        lines, key=lines.index
    )  # a response's criteria come together


def _judgements(path: Path, source: LabelSource, *, wrong: bool = False) -> None:
    views = source.views or {}
    rows = [
        JudgedResponse(
            line if not wrong else line + 1,
            view,
            JudgeResult.scored(
                view.rubric,
                {c.id: c.weight * (line % 3) / 2 for c in view.rubric},
                judge="j",
            ),
        )
        for line, view in views.items()
    ]
    write_judgements(path, rows)


def test_a_judges_scores_are_read_as_levels(
    tmp_path: Path, source: LabelSource
) -> None:
    _judgements(tmp_path / "judged.jsonl", source)
    levels = judged_levels(tmp_path / "judged.jsonl", source)

    assert {line: level["extra"] for line, level in levels.items()} == {
        line: line % 3 for line in source.views or {}
    }
    assert set(levels[1]) == set(COUNTED)


def test_judgements_of_other_responses_or_rubrics_are_refused(
    tmp_path: Path, source: LabelSource
) -> None:
    path = tmp_path / "judged.jsonl"
    _judgements(path, source, wrong=True)
    with pytest.raises(
        RubricFileError, match=r"judged\.jsonl:4: response 5 is not a response to task"
    ):
        judged_levels(path, source)
    _judgements(path, source)
    row = json.loads(path.read_text().splitlines()[0])
    row["result"] = {
        **row["result"],
        "scores": {"fact": 1.0},
        "total": 1.0,
        "max_total": 3.0,
    }
    path.write_text(json.dumps(row | {"reward": 1 / 3}))
    with pytest.raises(
        RubricFileError, match=r"judged\.jsonl:1: the scores have 1 ids"
    ):
        judged_levels(path, source)
