"""The cascade of groups: planted judges, failures, audits, and what it refuses."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    JudgeResult,
    JudgeView,
    Outcome,
    Reason,
    Rubric,
)
from rubric_judge import (
    CascadeCalibration,
    CascadeConfig,
    CascadeJudge,
    GroupCascadeJudge,
    JudgePool,
    Ledger,
)
from rubric_judge.config import judge_spec
from rubric_judge.judges.capabilities import GroupJudge, fingerprint
from rubric_judge.judges.cascade.asking import strong_costs
from rubric_judge.judges.cascade.queue import read_queue
from rubric_judge.judges.cascade.record import (
    GroupCalibration,
    ReliabilityMap,
    Threshold,
)
from rubric_judge.judges.cascade.value import Costs
from rubric_judge.testing import FailingJudge, ScriptedJudge

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio

RUBRIC = Rubric(
    criteria=(
        Criterion(id="facts", weight=3.0),
        Criterion(id="limit", weight=1.0),
        Criterion(id="style", weight=0.0),
    )
)
CHEAPER = {"type": "plugin", "name": "one"}
TWO = [CHEAPER, {"type": "llm", "model": "openai/m", "granularity": "criterion"}]
"""The strong judge is paid by cell."""
AS_IT_IS = ReliabilityMap(readings=(0.0, 1.0), values=(0.0, 1.0), counts=(50, 50))
"""A cheap judge whose shares are probabilities."""


def _config(**changes: object) -> CascadeConfig:
    fields = {"judges": TWO, "uncertainty": "margin", "audit_frac": 0.0, **changes}
    return CascadeConfig.model_validate({"decide": "group", **fields})


def _calibration(judges: Sequence[Any], config: CascadeConfig) -> CascadeCalibration:
    return CascadeCalibration(
        version=1,
        judges=tuple(map(fingerprint, judges)),
        uncertainty=config.uncertainty,
        k=config.k,
        audit_frac=config.audit_frac,
        unit="response",
        risk=0.1,
        confidence=0.95,
        pooled=Threshold(n=100, risk=0.02, bound=0.06, escalated=1, last_risk=0.02),
        group=GroupCalibration(pooled=AS_IT_IS) if config.decide == "group" else None,
    )


def _cascade(cheap: Any, strong: Any, **changes: object) -> GroupCascadeJudge:
    config = _config(**changes)
    judges = (cheap, strong)
    return GroupCascadeJudge(judges, config, _calibration(judges, config))


def _judge(table: dict[str, tuple[float, float]], name: str) -> ScriptedJudge:
    """A judge of shares of `facts` and `limit`, by response."""

    def script(view: JudgeView) -> dict[str, float]:
        facts, limit = table[view.response]
        scores = {"facts": 3 * facts, "limit": limit, "style": 0.0}
        return {one.id: scores[one.id] for one in view.rubric}

    return ScriptedJudge(script, name=name)


CHEAP = {"a": (1.0, 1.0), "b": (0.5, 0.9), "c": (0.0, 0.0), "d": (0.9, 0.4)}
STRONG = {"a": (1.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 0.0), "d": (1.0, 1.0)}


def _views(make_view: ViewFactory, names: str = "abcd") -> list[JudgeView]:
    return [make_view(name, rubric=RUBRIC) for name in names]


async def test_the_strong_judge_is_asked_where_it_matters_most(
    make_view: ViewFactory,
) -> None:
    cheap = _judge(CHEAP, "cheap")
    strong = _judge(STRONG, "strong")
    judge = _cascade(cheap, strong, target=0.95)

    results = await judge.judge_group(_views(make_view))

    # facts of b is worth 9/16 · ¼, facts of d 9/16 · .09, all of limit less than 1/16 · ¼.
    assert [(call.response, call.rubric.ids) for call in strong.calls] == [
        ("b", ("facts",))
    ]
    assert [dict(one.scores) for one in results] == [
        {"facts": 3.0, "limit": 1.0, "style": 0.0},
        {"facts": 0.0, "limit": 0.9, "style": 0.0},
        {"facts": 0.0, "limit": 0.0, "style": 0.0},
        {"facts": pytest.approx(2.7), "limit": 0.4, "style": 0.0},
    ]
    traces = [one.cascade for one in results]
    assert [trace.decided_by["facts"] for trace in traces if trace] == [
        "cheap",
        "strong",
        "cheap",
        "cheap",
    ]
    group = traces[1].group if traces[1] else None
    assert group is not None
    assert (group.responses, group.stop, group.spent_frac) == (4, "target", 0.125)
    assert 0.95 <= group.correlation < 1
    assert group.expected == {"facts": 0.5, "limit": 0.9}
    assert len({trace.group.id for trace in traces if trace and trace.group}) == 1
    assert isinstance(judge, GroupJudge)


async def test_scores_do_not_follow_the_order_of_the_responses(
    make_view: ViewFactory,
) -> None:
    views = _views(make_view)
    judge = _cascade(_judge(CHEAP, "cheap"), _judge(STRONG, "strong"), audit_frac=0.3)

    forward = await judge.judge_group(views)
    backward = await judge.judge_group(views[::-1])

    assert [one.scores for one in forward] == [one.scores for one in backward[::-1]]


async def test_of_readings_that_are_alike_the_same_are_asked_for_in_any_order(
    make_view: ViewFactory,
) -> None:
    names = "abcdef"
    cheap = dict.fromkeys(names, (0.5, 0.5))
    strong = {name: (float(name in "ace"), 1.0) for name in names}
    views = _views(make_view, names)
    judge = _cascade(_judge(cheap, "cheap"), _judge(strong, "strong"), budget=0.3)

    forward = await judge.judge_group(views)
    backward = await judge.judge_group(views[::-1])

    assert len({one.scores["facts"] for one in forward}) > 1
    assert [one.scores for one in forward] == [one.scores for one in backward[::-1]]


@pytest.mark.parametrize("failure", [Reason.TIMEOUT, Reason.NOT_JSON])
async def test_a_response_that_the_strong_judge_fails_on_fails_alone(
    make_view: ViewFactory, failure: Reason, tmp_path: Path
) -> None:
    strong = _judge(STRONG, "strong")
    scripted = strong.script
    failed = (
        JudgeResult.invalid
        if failure.outcome is Outcome.INVALID
        else JudgeResult.unavailable
    )

    def script(view: JudgeView) -> Any:
        return failed(failure) if view.response == "b" else scripted(view)  # pyright: ignore[reportCallIssue]

    strong.script = script
    judge = _cascade(_judge(CHEAP, "cheap"), strong, target=0.999)
    views = _views(make_view)

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        pool = JudgePool(judge, ledger=ledger)
        results = await pool.judge_all(views)
        strong.script = scripted
        again = await pool.judge_all(views)

    assert [one.outcome is Outcome.SCORED for one in results] == [
        True,
        False,
        True,
        True,
    ]
    assert (results[1].reason, results[1].scores) == (failure, {})
    assert results[1].cascade is not None
    groups = [one.cascade.group for one in results if one.cascade and one.cascade.group]
    assert [group.responses for group in groups] == [3, 3, 3]
    # An invalid answer is one, and is kept; what was not answered is asked for again.
    is_kept = failure.outcome is Outcome.INVALID
    assert (again[1].outcome is Outcome.SCORED) is not is_kept


async def test_only_a_judge_that_says_so_may_fail_for_some_of_a_group(
    make_view: ViewFactory,
) -> None:
    class Together(ScriptedJudge):
        max_group = 4
        fails_apart = False

        async def judge_group(self, views: Sequence[JudgeView]) -> list[JudgeResult]:
            failed = JudgeResult.unavailable(Reason.TIMEOUT)
            return [failed, *[await self.judge(view) for view in views[1:]]]

    judge = Together(1.0)
    results = await JudgePool(judge).judge_all(_views(make_view))
    assert {one.reason for one in results} == {Reason.JUDGE_ERROR}

    judge.fails_apart = True
    results = await JudgePool(judge).judge_all(_views(make_view))
    assert [one.reason for one in results] == [Reason.TIMEOUT, None, None, None]


async def test_a_group_that_the_strong_judge_fails_on_wholly_is_unavailable(
    make_view: ViewFactory,
) -> None:
    judge = _cascade(_judge(CHEAP, "cheap"), FailingJudge(Reason.TIMEOUT), target=0.999)

    results = await judge.judge_group(_views(make_view))

    # Of a and c the cheap judge is certain.
    reasons = [None, Reason.TIMEOUT, None, Reason.TIMEOUT]
    assert [one.reason for one in results] == reasons
    judge = _cascade(
        FailingJudge(Reason.NOT_JSON), FailingJudge(Reason.TIMEOUT), target=0.5
    )
    results = await judge.judge_group(_views(make_view))
    assert {one.reason for one in results} == {Reason.TIMEOUT}


async def test_what_the_cheap_judge_cannot_score_goes_to_the_strong_one(
    make_view: ViewFactory,
) -> None:
    cheap = _judge(CHEAP, "cheap")
    scripted = cheap.script

    def script(view: JudgeView) -> Any:
        if view.response == "c":
            return JudgeResult.unavailable(Reason.TIMEOUT)
        return scripted(view)  # pyright: ignore[reportCallIssue]

    cheap.script = script
    strong = _judge(STRONG, "strong")
    judge = _cascade(cheap, strong, target=0.5)

    results = await judge.judge_group(_views(make_view))

    assert {call.response: call.rubric.ids for call in strong.calls} == {
        "c": RUBRIC.ids
    }
    assert all(one.outcome is Outcome.SCORED for one in results)
    trace = results[2].cascade
    assert trace is not None
    assert trace.group is not None
    assert (trace.group.expected, set(trace.decided_by.values())) == ({}, {"strong"})


async def test_a_response_alone_goes_to_the_strong_judge(
    make_view: ViewFactory,
) -> None:
    cheap = _judge(CHEAP, "cheap")
    strong = _judge(STRONG, "strong")

    result = await _cascade(cheap, strong).judge(make_view("d", rubric=RUBRIC))

    assert (dict(result.scores), cheap.calls) == (
        {"facts": 3.0, "limit": 1.0, "style": 0.0},
        [],
    )
    assert [call.rubric for call in strong.calls] == [RUBRIC]
    assert result.cascade is not None
    assert result.cascade.group is not None
    assert (result.cascade.group.stop, result.cascade.group.correlation) == ("all", 1.0)


async def test_a_group_whose_spread_is_below_the_noise_gets_equal_scores(
    make_view: ViewFactory,
) -> None:
    cheap = _judge(dict.fromkeys("abc", (0.97, 0.98)) | {"d": (0.98, 0.97)}, "cheap")
    strong = _judge(STRONG, "strong")

    results = await _cascade(cheap, strong, least_spread=0.3).judge_group(
        _views(make_view)
    )

    assert strong.calls == []
    assert len({one.total for one in results}) == 1
    trace = results[0].cascade
    assert trace is not None
    assert trace.group is not None
    assert trace.group.stop == "spread"


def _planted(make_view: ViewFactory, count: int) -> list[list[JudgeView]]:
    return [
        [
            make_view(f"{group} {place}", rubric=RUBRIC, question=f"Question {group}?")
            for place in range(4)
        ]
        for group in range(count)
    ]


async def test_audits_show_a_policy_that_learned_to_look_certain(
    make_view: ViewFactory,
) -> None:
    """The cheap judge calls every answer right with .99; a third of them are wrong."""
    rng = np.random.default_rng(0)
    truth = {
        f"{group} {place}": tuple(map(float, rng.random(2) < 2 / 3))
        for group in range(60)
        for place in range(4)
    }
    learned = dict.fromkeys(truth, (0.99, 0.99))
    honest = {
        name: tuple(0.99 if one else 0.01 for one in both)
        for name, both in truth.items()
    }
    views = [view for group in _planted(make_view, 60) for view in group]
    found: dict[str, Any] = {}
    for name, table in (("learned", learned), ("honest", honest)):
        judge = _cascade(
            _judge(table, "cheap"),  # pyright: ignore[reportArgumentType]
            _judge(truth, "strong"),  # pyright: ignore[reportArgumentType]
            audit_frac=0.2,
            least_spread=0.2,
        )
        pool = JudgePool(judge)
        await pool.judge_all(views)
        found[name] = pool.statistics().cascade

    bias = found["learned"].audit_bias()
    assert bias.high < -0.2
    assert bias.low < np.mean(list(truth.values())) - 0.99 < bias.high
    # Two criteria of 240 responses, a fifth of them: the hash draws about that many.
    assert bias.n == pytest.approx(96, abs=30)
    assert found["learned"].stops["spread"] > 0
    clean = found["honest"].audit_bias()
    assert clean.low < 0.0 < clean.high or abs(clean.value) < 0.011
    assert found["learned"].audited_otherwise > 20
    assert found["honest"].audited_otherwise == 0


async def test_audits_are_the_same_whenever_a_group_is_judged(
    make_view: ViewFactory,
) -> None:
    judge = _cascade(_judge(CHEAP, "cheap"), _judge(STRONG, "strong"), audit_frac=0.8)

    first, second = [await judge.judge_group(_views(make_view)) for _ in range(2)]

    gaps = [
        [one.cascade.group.gaps for one in results if one.cascade and one.cascade.group]
        for results in (first, second)
    ]
    assert gaps[0] == gaps[1]
    assert any(gaps[0])
    for result in first:
        assert result.cascade is not None
        assert result.cascade.group is not None
        assert result.cascade.audits.keys() == result.cascade.group.gaps.keys()


async def test_criteria_that_both_judges_differ_on_are_queued_for_people(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    path = tmp_path / "queue.jsonl"
    table = CHEAP | {"b": (0.6, 0.9)}
    judge = _cascade(_judge(table, "cheap"), _judge(STRONG, "strong"), label_queue=path)

    await judge.judge_group(_views(make_view))

    assert [row.criterion for row in read_queue(path)] == ["facts"]


def test_prices_follow_how_the_strong_judge_is_asked(make_view: ViewFactory) -> None:
    views = _views(make_view)
    model = {"type": "llm", "model": "openai/m"}
    kinds = (CHEAPER, model, {**model, "granularity": "criterion"})

    program, by_rubric, by_criterion = (
        strong_costs(_config(judges=[CHEAPER, kind]), views) for kind in kinds
    )

    assert (program, by_criterion) == (Costs(1, 0), Costs(0, 1))
    assert by_rubric.call > 5 * by_rubric.cell > 0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": 1.1}, "budget"),
        ({"target": 0}, "target"),
        ({"target": 1}, "target"),
        ({"least_spread": 1}, "least_spread"),
        ({"decide": "task"}, "decide"),
        ({"judges": [*TWO, {"type": "lexical"}]}, "two judges.*leave out 1 of the 3"),
        ({"decide": "response", "target": 0.9}, "target is of `decide: group`"),
        ({"decide": "response", "budget": 0.5}, "budget is of `decide: group`"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    changes: dict[str, object], problem: str
) -> None:
    options = {"type": "cascade", "uncertainty": "margin", "decide": "group"}

    with pytest.raises(ConfigError, match=problem):
        judge_spec({**options, "judges": TWO, **changes})


def test_a_calibration_of_other_judges_or_of_responses_is_refused() -> None:
    cheap = ScriptedJudge(name="cheap")
    strong = ScriptedJudge(name="strong")
    config = _config()
    calibration = _calibration((cheap, strong), config)

    with pytest.raises(ConfigError, match=r"judge 2 was 'strong' and is 'other'"):
        GroupCascadeJudge((cheap, ScriptedJudge(name="other")), config, calibration)
    of_responses = calibration.model_copy(update={"group": None})
    with pytest.raises(ConfigError, match="decide was 'response' and is 'group'"):
        GroupCascadeJudge((cheap, strong), config, of_responses)
    by_response = _config(decide="response")
    with pytest.raises(ConfigError, match="decide was 'group' and is 'response'"):
        CascadeJudge((cheap, strong), by_response, calibration)


def test_a_cascade_by_response_has_no_new_key_anywhere() -> None:
    config = CascadeConfig.model_validate({"judges": TWO, "uncertainty": "margin"})
    calibration = _calibration((ScriptedJudge(),), config)

    assert config.model_dump().keys() == {
        "type",
        "judges",
        "uncertainty",
        "k",
        "calibration",
        "audit_frac",
        "label_queue",
    }
    assert "group" not in json.loads(calibration.model_dump_json())


def test_the_fingerprint_follows_the_rule() -> None:
    judges = ScriptedJudge(name="cheap"), ScriptedJudge(name="strong")
    rules = ({}, {"target": 0.9}, {"budget": 0.5}, {"least_spread": 0.1})

    found = {_cascade(*judges, **rule).fingerprint for rule in rules}

    assert len(found) == 4


def test_a_map_must_rise_and_be_whole() -> None:
    with pytest.raises(ValueError, match="as many"):
        ReliabilityMap(readings=(0.0, 1.0), values=(0.5,), counts=(3, 3))
    with pytest.raises(ValueError, match="values must rise"):
        ReliabilityMap(readings=(0.0, 1.0), values=(0.5, 0.4), counts=(3, 3))
    half = ReliabilityMap(readings=(0.2, 0.6), values=(0.1, 0.9), counts=(3, 3))
    assert [half.value(x) for x in (0, 0.4, 1)] == [0.1, pytest.approx(0.5), 0.9]
