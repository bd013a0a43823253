"""Advantages by criterion of rows as other stacks hold them, against a slow loop and the core."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Outcome,
    Pooling,
    Reason,
    RewardShapeError,
    Rubric,
    SchemaError,
)
from rubric_core.reward.advantage import group_advantages
from rubric_core.reward.attribution import decoupled_advantages
from rubric_judge.adapters import advantages
from rubric_judge.quality.criteria.record import JudgementRecord, judgement_record

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0])


def record(
    shares: dict[str, float],
    z: dict[str, float] | None = None,
    *,
    outcome: str = "scored",
    task_id: str = "t",
) -> str:
    """A record as the adapters write it."""
    return JudgementRecord(
        task_id=task_id, outcome=Outcome(outcome), shares=shares, z=z or {}
    ).model_dump_json()


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[str | None], list[str]]:
    """Rows of several prompts in any order, each with a rubric of its own and 1 to 5 responses."""
    rows: list[tuple[str | None, str]] = []
    for prompt in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, 4))
        weights = [draw(st.sampled_from([1.0, 2.0, 5.0])) for _ in range(count)]
        shares = {f"c{prompt}.{j}": w / sum(weights) for j, w in enumerate(weights)}
        least = 2 if prompt == 0 else 1
        for _ in range(draw(st.integers(least, 5))):
            kind = draw(
                st.sampled_from(["scored", "scored", "invalid", "unavailable", "none"])
            )
            z = {name: draw(SCORES) for name in shares} if kind == "scored" else {}
            text = None if kind == "none" else record(shares, z, outcome=kind)
            rows.append((text, f"p{prompt}"))
    rows = draw(st.permutations(rows))
    return [text for text, _ in rows], [key for _, key in rows]


def spread(values: dict[int, float]) -> tuple[float, float]:
    """Mean and sample deviation."""
    mean = sum(values.values()) / len(values)
    squares = sum((value - mean) ** 2 for value in values.values())
    return mean, math.sqrt(squares / (len(values) - 1))


def slow(
    records: list[str | None], groups: list[str], kind: str
) -> tuple[list[float], list[bool]]:
    """The same by loops over floats, from the formulas."""
    seen: list[Any] = [None if text is None else json.loads(text) for text in records]
    judged = [one is not None and one["outcome"] != "unavailable" for one in seen]
    combined = [0.0] * len(records)
    for key in set(groups):
        rows = [i for i, group in enumerate(groups) if group == key and judged[i]]
        if len(rows) < 2:
            continue
        shares: dict[str, float] = seen[rows[0]]["shares"]
        score = {i: {c: seen[i].get("z", {}).get(c, 0.0) for c in shares} for i in rows}
        parts: list[tuple[float, dict[int, float]]] = [
            (share, {i: score[i][c] for i in rows}) for c, share in shares.items()
        ]
        if kind == "group":
            parts = [(1.0, {i: sum(s * one[i] for s, one in parts) for i in rows})]
        for share, values in parts:
            if max(values.values()) - min(values.values()) <= 1e-9:
                continue
            mean, std = spread(values)
            for i in rows:
                others = (sum(values.values()) - values[i]) / (len(rows) - 1)
                if kind == "group":
                    combined[i] = (values[i] - others) / (std + 1e-8)
                else:
                    combined[i] += share * (values[i] - mean) / std
    valid = {i: combined[i] for i in range(len(records)) if judged[i]}
    if kind == "decoupled" and len(valid) > 1 and (std := spread(valid)[1]) > 0:
        combined = [value / (std + 1e-8) for value in combined]
    return combined, judged


@given(batch=batches(), kind=st.sampled_from(["decoupled", "group"]))
def test_the_advantages_are_those_of_a_slow_loop(
    batch: tuple[list[str | None], list[str]], kind: str
) -> None:
    records, groups = batch

    found = advantages.batch_advantages(records, groups, estimator=kind)

    expected, judged = slow(records, groups, kind)
    np.testing.assert_allclose(found.advantages_N, expected, atol=1e-9)
    assert found.judged_N == judged


@given(data=st.data(), kind=st.sampled_from(["decoupled", "group"]))
def test_full_groups_get_the_numbers_of_the_core_to_the_last_bit(
    data: st.DataObject, kind: str
) -> None:
    prompts, size, criteria = 3, 4, 2
    cells = [data.draw(SCORES) for _ in range(prompts * size * criteria)]
    z_PGM = np.array(cells).reshape(prompts, size, criteria)
    weights_PM = np.array([[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]])
    records = [
        record(
            {f"c{j}": w for j, w in enumerate(weights_PM[p]) if w},
            {f"c{j}": z_PGM[p, g, j] for j, w in enumerate(weights_PM[p]) if w},
        )
        for p in range(prompts)
        for g in range(size)
    ]
    keys = [p for p in range(prompts) for _ in range(size)]

    found = advantages.batch_advantages(records, keys, estimator=kind)

    if kind == "decoupled":
        expected = decoupled_advantages(z_PGM, weights_PM)
    else:
        expected = group_advantages((z_PGM * weights_PM[:, None, :]).sum(axis=2))
    np.testing.assert_allclose(found.advantages_N, expected.ravel(), rtol=0, atol=1e-12)


def test_groups_that_do_not_differ_get_exact_zeros_and_outages_too() -> None:
    # .1 + .2 + .7 is not the same in any order: equal scores must be equal, not nearly so.
    shares = {"a": 0.1, "b": 0.2, "c": 0.7}
    rows = [record(shares, dict.fromkeys(shares, 0.7)) for _ in range(4)]
    rows[2] = record(shares, outcome="unavailable")

    for kind in ("decoupled", "group"):
        found = advantages.batch_advantages([*rows, None], ["p"] * 5, estimator=kind)

        assert found.advantages_N.tolist() == [0.0] * 5
        assert found.judged_N == [True, True, False, True, False]


def test_a_real_judgement_travels_with_its_scores() -> None:
    rubric = Rubric(
        criteria=(
            Criterion(id="a", weight=3.0),
            Criterion(id="b", weight=1.0),
            Criterion(id="style", weight=0.0),
        )
    )
    view = JudgeView(
        task_id="t", question="q", grounding=Grounding("g"), response="r", rubric=rubric
    )
    results = [
        JudgeResult.scored(rubric, {"a": 3.0, "b": 0.5, "style": 0.0}, judge="j"),
        JudgeResult.invalid(Reason.NOT_JSON),
        JudgeResult.unavailable(Reason.TIMEOUT),
    ]
    texts = [
        judgement_record(view, result, Pooling()).model_dump_json()
        for result in results
    ]

    found = advantages.batch_advantages(texts, ["p"] * 3, estimator="group")

    assert found.rewards_N.tolist()[:2] == [0.875, 0.0]
    assert found.advantages_N[0] == pytest.approx(0.875 / (0.875 / 2**0.5))
    assert found.advantages_N[2] == 0.0
    assert found.judged_N == [True, True, False]


def test_a_rollout_of_several_rows_counts_once_and_padding_not_at_all() -> None:
    shares = {"a": 1.0}
    rows = [record(shares, {"a": z}) for z in (1.0, 0.0, 0.0, 0.5)]
    plain = advantages.batch_advantages([rows[0], rows[1]], ["p", "p"])

    found = advantages.batch_advantages(
        rows, ["p", "p", "p", None], rollouts=["x", "y", "y", "z"]
    )

    assert found.advantages_N.tolist() == [
        plain.advantages_N[0],
        plain.advantages_N[1],
        plain.advantages_N[1],
        0.0,
    ]
    assert found.judged_N == [True, True, True, False]
    with pytest.raises(
        SchemaError, match=r"rows \[0, 1\] are of rollout 'x'.* than one"
    ):
        advantages.batch_advantages(rows[:2], ["p", "p"], rollouts=["x", "x"])


def test_a_group_under_two_rubrics_is_refused() -> None:
    one = record({"a": 0.5, "b": 0.5}, {"a": 1.0, "b": 0.0})
    for other in (
        record({"a": 0.5, "c": 0.5}, {"a": 1.0, "c": 0.0}),
        record({"a": 0.4, "b": 0.6}, {"a": 1.0, "b": 0.0}),
    ):
        with pytest.raises(SchemaError, match=r"group 'p' .*two rubrics of task 't'"):
            advantages.batch_advantages([one, other], ["p", "p"])


def test_a_group_of_two_tasks_with_criteria_of_the_same_names_is_refused() -> None:
    shares = {"a": 0.5, "b": 0.5}
    rows = [
        record(shares, {"a": 1.0, "b": 0.0}, task_id="first"),
        record(shares, task_id="second", outcome="unavailable"),
    ]

    with pytest.raises(SchemaError, match="as two tasks, 'first' and 'second'"):
        advantages.batch_advantages(rows, ["p", "p"])


def test_scores_that_are_missing_or_no_record_are_named() -> None:
    good = record({"a": 0.5, "b": 0.5}, {"a": 1.0, "b": 0.0})
    part = record({"a": 0.5, "b": 0.5}, {"a": 1.0})

    with pytest.raises(SchemaError, match=r"no score for 'b'"):
        advantages.batch_advantages([good, part], ["p", "p"])
    with pytest.raises(SchemaError, match=r"row 1: .* is no record .*log_judgements"):
        advantages.batch_advantages([good, "{}"], ["p", "p"])
    with pytest.raises(
        SchemaError, match=r"row 3: verl holds no 'rubric/judgement': do x"
    ):
        advantages.record_in({"score": 1.0}, 3, holder="verl", remedy="do x")
    with pytest.raises(RewardShapeError, match=r"2 judgements, 1 groups"):
        advantages.batch_advantages([good, good], ["p"])
    with pytest.raises(RewardShapeError, match=r"2 groups has one response"):
        advantages.batch_advantages([good, good], ["p", "q"])


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        ("decoupledd", "decoupled"),
        ({"estimator": "group", "stdd": "none"}, "stdd"),
        ({"estimator": "group", "std": "robust"}, "std"),
    ],
)
def test_an_estimator_that_is_not_there_is_named(estimator: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        advantages.estimator_of(estimator)


def test_every_installed_estimator_has_a_name_for_stacks() -> None:
    names = advantages.stack_estimators()

    assert names["rubric_decoupled"] == "decoupled"
    assert names["rubric_group"] == "group"


def test_an_estimator_without_a_batch_says_what_is_missing() -> None:
    with pytest.raises(
        ConfigError, match=r"verl called .* without judgements: load it"
    ):
        advantages.current_batch(stack="verl", remedy="load it")
    with advantages.judged_batch(advantages.JudgedBatch([])):
        advantages.current_batch(stack="verl", remedy="load it")


def test_a_stack_of_another_version_is_refused_by_both_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advantages, "version", lambda _: "1.16.2")
    advantages.Stack("TRL", "1.16").check_version()
    monkeypatch.setattr(advantages, "version", lambda _: "1.160.0")

    with pytest.raises(
        ConfigError,
        match=r"trl 1\.160\.0: .*for trl 1\.16,.*pip install 'trl==1\.16\.\*'",
    ):
        advantages.Stack("TRL", "1.16").check_version()
