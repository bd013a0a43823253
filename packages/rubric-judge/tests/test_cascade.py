import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Outcome,
    Reason,
    Rubric,
    Usage,
)
from rubric_core.files import text_sha256
from rubric_judge import (
    CascadeCalibration,
    CascadeConfig,
    CascadeJudge,
    HybridConfig,
    HybridJudge,
    JudgePool,
    Ledger,
    load_judge,
    load_replicas,
    read_judge_spec,
)
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.judges.cascade.queue import LabelRequest, ask_for_labels, read_queue
from rubric_judge.judges.cascade.record import Threshold
from rubric_judge.judges.cascade.uncertainty import agree, measured
from rubric_judge.testing import FailingJudge, ScriptedJudge

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio

FACTS = Criterion(id="facts", weight=2.0, description="Names the loss.")
LIMIT = Criterion(id="limit", weight=1.0, description="Names a limit.")
STYLE = Criterion(id="style", weight=4.0, description="Is short.")
RUBRIC = Rubric(criteria=(FACTS, LIMIT, STYLE))
TWO = [{"type": "plugin", "name": "one"}, {"type": "plugin", "name": "two"}]


def _config(**changes: object) -> CascadeConfig:
    fields = {"judges": TWO, "uncertainty": "margin", "audit_frac": 0.0, **changes}
    return CascadeConfig.model_validate(fields)


def _calibration(
    judges: Sequence[Any],
    config: CascadeConfig,
    threshold: float | Mapping[str, float] | None,
) -> CascadeCalibration:
    def tested(value: float | None) -> Threshold:
        return Threshold(
            threshold=value, n=100, risk=0.02, bound=0.06, escalated=0.3, last_risk=0
        )

    per_criterion = isinstance(threshold, Mapping)
    return CascadeCalibration(
        version=1,
        judges=tuple(map(fingerprint, judges)),
        uncertainty=config.uncertainty,
        k=config.k,
        audit_frac=config.audit_frac,
        unit="response",
        risk=0.1,
        confidence=0.95,
        pooled=None if per_criterion else tested(threshold),
        criteria={name: tested(one) for name, one in threshold.items()}
        if per_criterion
        else {},
    )


def _cascade(
    used: Sequence[Any],
    threshold: float | Mapping[str, float] | None = 0.5,
    **changes: object,
) -> CascadeJudge:
    config = _config(**changes)
    return CascadeJudge(used, config, _calibration(used, config, threshold))


def _in_turn(*answers: Mapping[str, float]) -> Callable[[JudgeView], dict[str, float]]:
    rest = itertools.cycle(answers)

    def script(view: JudgeView) -> dict[str, float]:
        answer = next(rest)
        return {c.id: answer[c.id] for c in view.rubric}

    return script


async def test_each_criterion_is_decided_by_the_first_judge_that_is_sure(
    make_view: ViewFactory,
) -> None:
    cheap = ScriptedJudge({"facts": 2.0, "limit": 0.4, "style": 0.4}, name="cheap")
    strong = ScriptedJudge({"limit": 1.0}, name="strong")
    judge = _cascade((cheap, strong))

    result = await judge.judge(make_view(rubric=RUBRIC))

    assert list(result.scores.items()) == [
        ("facts", 2.0),
        ("limit", 1.0),
        ("style", 0.4),
    ]
    assert (result.total, result.max_total, result.judge) == (3.4, 7.0, judge.name)
    assert result.cascade is not None
    assert result.cascade.decided_by == {
        "facts": "cheap",
        "limit": "strong",
        "style": "cheap",
    }
    assert [(one.judge, one.calls, one.criteria) for one in result.cascade.levels] == [
        ("cheap", 1, 3),
        ("strong", 1, 1),
    ]
    assert (result.cascade.risk, result.cascade.bound) == (0.1, 0.06)
    (asked,) = strong.calls
    assert asked.rubric.ids == ("limit",)
    assert cheap.calls[0].rubric is RUBRIC


async def test_where_the_first_judge_is_sure_of_all_the_last_is_not_called(
    make_view: ViewFactory,
) -> None:
    judge = _cascade(
        (ScriptedJudge(1.0), FailingJudge(RuntimeError("must not be called")))
    )

    assert (await judge.judge(make_view(rubric=RUBRIC))).total == 7.0


@given(share=st.floats(0, 1), other=st.floats(0, 1))
@settings(max_examples=30, deadline=None)
async def test_without_a_threshold_it_is_the_last_judge(
    share: float, other: float
) -> None:
    view = JudgeView(
        task_id="0" * 16,
        question="?",
        grounding=Grounding("g"),
        response="y",
        rubric=RUBRIC,
    )
    strong = ScriptedJudge(other)

    result = await _cascade((ScriptedJudge(share), strong), None).judge(view)

    assert result.scores == (await strong.judge(view)).scores
    assert strong.calls[0].rubric is RUBRIC


async def test_three_judges_pass_on_what_each_is_unsure_of(
    make_view: ViewFactory,
) -> None:
    first = ScriptedJudge({"facts": 2.0, "limit": 0.5, "style": 2.0}, name="a")
    second = ScriptedJudge({"limit": 0.0, "style": 2.0}, name="a")
    third = ScriptedJudge({"style": 3.0}, name="c")
    judge = _cascade((first, second, third), judges=[*TWO, TWO[0]])

    result = await judge.judge(make_view(rubric=RUBRIC))

    assert result.scores == {"facts": 2.0, "limit": 0.0, "style": 3.0}
    assert result.cascade is not None
    assert list(result.cascade.decided_by.values()) == ["a (1)", "a (2)", "c"]


async def test_consistency_is_seen_over_k_answers_and_their_mean_counts(
    make_view: ViewFactory,
) -> None:
    answers = [
        {"facts": 2.0, "limit": float(n < 3), "style": 4.0 * (n < 5)} for n in range(6)
    ]
    cheap, strong = ScriptedJudge(_in_turn(*answers)), ScriptedJudge({"limit": 0.25})
    # z of limit is 1 for 3 of 6: u = 2 · ½ = 1; of style for 5 of 6: u = 2 · √(5/36) = .745.
    judge = _cascade((cheap, strong), 0.75, uncertainty="consistency", k=6)

    result = await judge.judge(make_view(rubric=RUBRIC))

    assert len(cheap.calls) == 6
    assert result.scores == pytest.approx(
        {"facts": 2.0, "limit": 0.25, "style": 4 * 5 / 6}
    )


async def test_orders_asks_with_the_criteria_in_reverse(make_view: ViewFactory) -> None:
    cheap = ScriptedJudge(
        lambda view: {
            c.id: c.weight * (place == 0 or c is STYLE)
            for place, c in enumerate(view.rubric)
        }
    )
    judge = _cascade((cheap, ScriptedJudge(0.5)), 0.0, uncertainty="orders")

    result = await judge.judge(make_view(rubric=RUBRIC))

    assert [view.rubric.ids for view in cheap.calls] == [RUBRIC.ids, RUBRIC.ids[::-1]]
    assert result.scores == {"facts": 1.0, "limit": 0.0, "style": 4.0}


@pytest.mark.parametrize(
    ("kind", "shares", "uncertainty"),
    [
        ("consistency", (1, 1, 1), 0.0),
        ("consistency", (1, 0), 1.0),
        ("consistency", (1, 1, 0, 1, 1), 0.8),
        ("margin", (0.25,), 0.5),
        ("margin", (1, 0), 1.0),
        ("margin", (1, 1), 0.0),
        ("orders", (1, 0.25), 0.75),
        ("orders", (1, 0, 1, 1), 0.5),
    ],
)
def test_worked_uncertainties(
    kind: Any, shares: tuple[float, ...], uncertainty: float
) -> None:
    rubric = Rubric(criteria=(FACTS,))
    results = [
        JudgeResult.scored(rubric, {"facts": 2.0 * z}, judge="j") for z in shares
    ]

    found = measured(results, FACTS, kind)

    assert found.uncertainty == pytest.approx(uncertainty)
    assert found.score == pytest.approx(2.0 * math.fsum(shares) / len(shares))


@given(
    st.sampled_from(["consistency", "margin", "orders"]),
    st.lists(st.floats(0, 1), min_size=2, max_size=9),
    st.floats(1e-300, 1e300),
)
def test_uncertainties_and_scores_are_within_bounds(
    kind: Any, shares: list[float], weight: float
) -> None:
    criterion = Criterion(id="c", weight=weight)
    rubric = Rubric(criteria=(criterion,))
    results = [JudgeResult.scored(rubric, {"c": weight * z}, judge="j") for z in shares]

    found = measured(results, criterion, kind)

    assert 0 <= found.uncertainty <= 1
    assert 0 <= found.score <= weight


def test_what_counts_as_the_same() -> None:
    assert agree(0.5, 1.0, tolerance=None)
    assert not agree(0.49, 0.51, tolerance=None)
    assert agree(0.5, 0.75, tolerance=0.25)
    assert not agree(0.5, 0.76, tolerance=0.25)


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.NOT_JSON])
async def test_a_failure_of_the_cheap_judge_escalates(
    make_view: ViewFactory, reason: Reason
) -> None:
    judge = _cascade((FailingJudge(reason), ScriptedJudge(1.0)), 1.0)

    result = await judge.judge(make_view(rubric=RUBRIC))

    assert (result.outcome, result.total, result.attempts) == (Outcome.SCORED, 7.0, 2)


async def test_one_failed_answer_of_several_decides_nothing(
    make_view: ViewFactory,
) -> None:
    numbers = itertools.count()
    cheap = ScriptedJudge(
        lambda view: (
            JudgeResult.invalid(Reason.NOT_JSON)
            if next(numbers) == 1
            else JudgeResult.scored(
                view.rubric, {c.id: c.weight for c in view.rubric}, judge="cheap"
            )
        )
    )
    judge = _cascade((cheap, ScriptedJudge(0.0)), 1.0, uncertainty="consistency", k=3)

    assert (await judge.judge(make_view(rubric=RUBRIC))).total == 0.0


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.NOT_JSON])
async def test_a_failure_of_the_last_judge_is_one_of_the_whole(
    make_view: ViewFactory, reason: Reason
) -> None:
    cheap = ScriptedJudge({"facts": 2.0, "limit": 0.5, "style": 4.0})
    judge = _cascade((cheap, FailingJudge(reason)))

    result = await judge.judge(make_view(rubric=RUBRIC))

    assert (result.outcome, result.reason, result.judge) == (
        reason.outcome,
        reason,
        judge.name,
    )
    assert result.cascade is not None
    assert result.cascade.decided_by == {}
    assert [one.criteria for one in result.cascade.levels] == [3, 1]


async def test_an_exception_of_one_answer_is_raised_as_it_is(
    make_view: ViewFactory,
) -> None:
    judge = _cascade(
        (FailingJudge(LookupError("x")), ScriptedJudge()),
        uncertainty="consistency",
        k=3,
    )
    with pytest.raises(LookupError):
        await judge.judge(make_view(rubric=RUBRIC))

    (result,) = await JudgePool(judge).judge_all([make_view(rubric=RUBRIC)])
    assert result.detail == "the judge raised LookupError"


async def test_a_deadline_cancels_all_answers_of_a_judge(
    make_view: ViewFactory,
) -> None:
    async def forever(_: JudgeView) -> None:
        await anyio.sleep_forever()

    cheap = ScriptedJudge(before=forever)
    pool = JudgePool(_cascade((cheap, ScriptedJudge()), uncertainty="consistency", k=3))

    (result,) = await pool.judge_all([make_view(rubric=RUBRIC)], deadline_s=0.05)

    assert (result.reason, cheap.peak_in_flight, cheap.in_flight) == (
        Reason.TIMEOUT,
        3,
        0,
    )


async def test_criteria_without_weight_are_never_asked_for_alone(
    make_view: ViewFactory,
) -> None:
    free = Criterion(id="free", weight=0.0)
    cheap = ScriptedJudge({"free": 0.0, "facts": 2.0, "limit": 0.5})
    strong = ScriptedJudge({"limit": 1.0})
    judge = _cascade((cheap, strong))

    result = await judge.judge(make_view(rubric=Rubric(criteria=(free, FACTS, LIMIT))))

    assert list(result.scores) == ["free", "facts", "limit"]
    assert strong.calls[0].rubric.ids == ("limit",)


async def test_a_criterion_that_was_not_calibrated_is_escalated(
    make_view: ViewFactory,
) -> None:
    judge = _cascade((ScriptedJudge(1.0), ScriptedJudge(0.5)), {"facts": 1.0})

    result = await judge.judge(make_view(rubric=RUBRIC))

    assert result.scores == {"facts": 2.0, "limit": 0.5, "style": 2.0}


async def test_usage_attempts_and_cost_are_of_all_calls(make_view: ViewFactory) -> None:
    def answer(tokens: int, cost_usd: float) -> Callable[[JudgeView], JudgeResult]:
        usage = Usage(prompt_tokens=tokens, cost_usd=cost_usd)
        return lambda view: JudgeResult.scored(
            view.rubric, {c.id: c.weight / 2 for c in view.rubric}, judge="j"
        ).with_call(usage=usage, attempts=2, passage_truncated=tokens > 50)

    judges = ScriptedJudge(answer(10, 0.5)), ScriptedJudge(answer(100, 3.0))
    judge = _cascade(judges, uncertainty="consistency", k=4, threshold=None)

    result = await judge.judge(make_view(rubric=RUBRIC))

    assert result.usage == Usage(prompt_tokens=140, cost_usd=5.0)
    assert (result.attempts, result.passage_truncated) == (10, True)


async def test_audits_use_the_last_judge_and_say_whether_it_agrees(
    make_view: ViewFactory,
) -> None:
    cheap = ScriptedJudge(1.0)
    strong = ScriptedJudge({"facts": 2.0, "limit": 0.0, "style": 3.0}, name="strong")
    judge = _cascade((cheap, strong), audit_frac=1.0)

    result = await judge.judge(make_view(rubric=RUBRIC))

    assert result.scores == {"facts": 2.0, "limit": 0.0, "style": 3.0}
    assert result.cascade is not None
    assert result.cascade.audits == {"facts": True, "limit": False, "style": True}
    assert set(result.cascade.decided_by.values()) == {"strong"}


async def test_audits_follow_from_the_content_and_keep_to_their_share(
    make_view: ViewFactory,
) -> None:
    views = [make_view(f"Answer {number}.", rubric=RUBRIC) for number in range(700)]

    async def audited() -> list[list[str]]:
        judge = _cascade((ScriptedJudge(1.0), ScriptedJudge(0.0)), audit_frac=0.1)
        results = await JudgePool(judge).judge_all(views)
        return [
            sorted(one.cascade.audits) for one in results if one.cascade is not None
        ]

    first = await audited()

    assert first == await audited()
    assert 150 < sum(map(len, first)) < 270  # of 2100; 4.4 standard deviations
    assert len({tuple(names) for names in first}) >= 4  # drawn criterion by criterion


async def test_the_pool_counts_decisions_audits_and_savings(
    make_view: ViewFactory,
) -> None:
    def priced(cost_usd: float, share: Callable[[JudgeView, Criterion], float]) -> Any:
        return lambda view: JudgeResult.scored(
            view.rubric,
            {c.id: c.weight * share(view, c) for c in view.rubric},
            judge="j",
        ).with_call(usage=Usage(cost_usd=cost_usd * len(view.rubric)))

    cheap = ScriptedJudge(
        priced(
            0.01, lambda view, c: 0.5 if c is LIMIT and "hard" in view.response else 1.0
        ),
        name="cheap",
    )
    strong = ScriptedJudge(priced(1.0, lambda view, _: float("wrong" not in view.response)),
                           name="strong")  # fmt: skip
    kinds = ["plain"] * 60 + ["hard"] * 20 + ["wrong"] * 20
    views = [make_view(f"{kind} {n}", rubric=RUBRIC) for n, kind in enumerate(kinds)]
    pool = JudgePool(_cascade((cheap, strong), audit_frac=0.2))

    results = await pool.judge_all(views)

    found = pool.statistics().cascade
    assert found is not None
    traces = [one.cascade for one in results if one.cascade is not None]
    audits = [agrees for trace in traces for agrees in trace.audits.values()]
    assert (found.audited, found.audited_otherwise) == (
        len(audits),
        audits.count(False),
    )
    assert found.audited_otherwise > 0
    assert found.escalated == 20  # one criterion of each hard one
    share = found.audit_disagreement()
    assert share is not None
    assert share.low < 0.2 < share.high  # 60 of the 280 kept criteria are wrong
    decided = [by for trace in traces for by in trace.decided_by.values()]
    assert found.levels["strong"].decided == decided.count("strong")
    assert found.levels["strong"].calls == len(strong.calls)
    assert found.saved_frac == pytest.approx(1 - len(strong.calls) / 100)
    strong_criteria = sum(len(view.rubric) for view in strong.calls)
    assert found.saved_usd == pytest.approx(
        300 * 1.0 - strong_criteria * 1.0 - 300 * 0.01
    )
    assert (found.risk, found.confidence, found.bound) == (0.1, 0.95, 0.06)


async def test_escalated_criteria_are_no_audits(make_view: ViewFactory) -> None:
    pool = JudgePool(_cascade((ScriptedJudge(0.5), ScriptedJudge(0.0)), audit_frac=1.0))

    await pool.judge_all([make_view(rubric=RUBRIC)])

    found = pool.statistics().cascade
    assert found is not None
    assert found.audited == 0
    assert found.escalated == found.asked_criteria == len(RUBRIC)
    assert found.audit_disagreement() is None
    assert JudgePool(ScriptedJudge()).statistics().cascade is None


async def test_the_ledger_replays_a_cascade_with_its_audits(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    views = [make_view(f"Answer {number}.", rubric=RUBRIC) for number in range(40)]
    cheap, strong = ScriptedJudge(1.0), ScriptedJudge(0.0)
    with Ledger(tmp_path / "ledger") as ledger:
        judge = _cascade((cheap, strong), audit_frac=0.3)
        first = JudgePool(judge, ledger=ledger)
        results = await first.judge_all(views)
        calls = len(cheap.calls), len(strong.calls)
        again = JudgePool(judge, ledger=ledger)

        assert await again.judge_all(views) == results
        assert (len(cheap.calls), len(strong.calls)) == calls
        was, now = first.statistics().cascade, again.statistics().cascade
        assert was is not None
        assert now is not None
        assert was.audited == now.audited > 0
        assert now.levels["scripted (2)"].decided == was.levels["scripted (2)"].decided
        assert (now.judgements, now.saved_frac, now.levels["scripted (1)"].calls) == (
            0,
            None,
            0,
        )


async def test_the_fingerprint_changes_with_everything_that_changes_a_score() -> None:
    judges = ScriptedJudge(name="a"), ScriptedJudge(name="b")
    seen = {
        fingerprint(one)
        for one in (
            _cascade(judges),
            _cascade(judges[::-1]),
            _cascade(judges, 0.6),
            _cascade(judges, {"facts": 0.5}),
            _cascade(judges, audit_frac=0.1),
            _cascade(judges, k=2),
            _cascade(judges, uncertainty="orders", k=2),
        )
    }
    assert len(seen) == 7
    assert fingerprint(_cascade(judges, label_queue=Path("queue.jsonl"))) in seen


async def test_what_the_judges_differ_on_is_queued_for_people(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    queue = tmp_path / "queue.jsonl"
    cheap = ScriptedJudge({"facts": 1.2, "limit": 0.4, "style": 4.0})
    strong = ScriptedJudge({"facts": 2.0, "limit": 1.0})
    judge = _cascade((cheap, strong), label_queue=queue)
    view = make_view("Some answer.", rubric=RUBRIC)

    for _ in range(2):
        await judge.judge(view)

    assert len(queue.read_text().splitlines()) == 2
    assert "Some answer" not in queue.read_text()
    assert read_queue(queue) == [
        LabelRequest(
            task_id=view.task_id,
            response_sha256=text_sha256("Some answer."),
            criterion="limit",
        )
    ]


async def test_a_queue_that_cannot_be_written_is_no_lost_label(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    judge = _cascade((ScriptedJudge(0.4), ScriptedJudge(1.0)), label_queue=tmp_path)

    result = await judge.judge(make_view(rubric=RUBRIC))

    assert result.reason is Reason.JUDGE_ERROR
    assert "label queue" in result.detail


async def test_programs_may_stand_within_a_cascade(make_view: ViewFactory) -> None:
    number = Criterion(
        id="number", weight=1.0, verification_method="contains_any: entropy"
    )
    rubric = Rubric(criteria=(number, LIMIT))
    hybrid = HybridConfig.model_validate({"judge": {"type": "lexical"}})
    readers = ScriptedJudge({"limit": 0.5}), ScriptedJudge({"limit": 1.0})
    judge = _cascade([HybridJudge(reader, hybrid) for reader in readers])

    result = await judge.judge(make_view(rubric=rubric))

    assert result.scores == {"number": 1.0, "limit": 1.0}
    assert [len(reader.calls) for reader in readers] == [1, 1]


LEXICAL = "judges:\n- type: lexical\n- {type: lexical, regex_timeout_s: 0.5}\n"


def _yaml(folder: Path, text: str) -> Path:
    path = folder / "cascade.yaml"
    path.write_text(f"type: cascade\n{text}", encoding="utf-8")
    return path


def _written(folder: Path, **changes: object) -> Path:
    config = read_judge_spec(_yaml(folder, f"uncertainty: margin\n{LEXICAL}"))
    assert isinstance(config, CascadeConfig)
    judges = [load_judge(one) for one in config.judges]
    row = _calibration(judges, config, 0.5).model_dump(mode="json") | changes
    (folder / "cascade.json").write_text(json.dumps(row), encoding="utf-8")
    return _yaml(folder, f"uncertainty: margin\ncalibration: cascade.json\n{LEXICAL}")


async def test_the_calibration_lies_beside_the_configuration(
    tmp_path: Path, make_view: ViewFactory
) -> None:
    spec = read_judge_spec(_written(tmp_path))

    (judge,) = load_replicas(spec)

    assert isinstance(judge, CascadeJudge)
    assert (await judge.judge(make_view())).outcome is Outcome.SCORED


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"judges": ["other", "other"]}, "judge 1 was 'other' and is 'lexical_v3"),
        ({"judges": ["other"]}, "it is of 1 judges, not of 2"),
        ({"k": 3}, "k was 3 and is 1"),
        ({"uncertainty": "orders"}, "uncertainty was 'orders' and is 'margin'"),
        ({"audit_frac": 0.5}, "audit_frac was 0.5 and is 0.05"),
        ({"risk": 1.5}, "this is no calibration of a cascade"),
        ({"what": 1}, "this is no calibration of a cascade"),
    ],
)
def test_a_calibration_of_another_cascade_is_refused(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    spec = read_judge_spec(_written(tmp_path, **changes))

    with pytest.raises(ConfigError) as caught:
        load_judge(spec)

    assert said in str(caught.value)
    assert "cascade.json" in str(caught.value)


def test_a_cascade_without_a_calibration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"needs thresholds: `rubric-judge calibrate .* --cascade"
    ):
        load_judge(read_judge_spec(_yaml(tmp_path, f"uncertainty: margin\n{LEXICAL}")))
    path = _yaml(tmp_path, f"uncertainty: margin\ncalibration: none.json\n{LEXICAL}")
    with pytest.raises(ConfigError, match=r"none\.json: cannot be read \(No such file"):
        load_judge(read_judge_spec(path))


MODEL = "{type: llm, model: openai/a, temperature: 0}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"k: 0\nuncertainty: margin\n{LEXICAL}", "k: must be 1 or more"),
        (
            f"k: 1\njudges: [{MODEL}, {MODEL}]\n",
            "'consistency' compares answers: k must be 2",
        ),
        (f"uncertainty: orders\n{LEXICAL}", "judge 1 gives the same answer every time"),
        (
            f"judges: [{MODEL}, {MODEL}]\n",
            "set a temperature above 0, or `uncertainty: margin`",
        ),
        ("uncertainty: margin\njudges: [{type: lexical}]\n", "judges"),
        (f"uncertainty: margin\naudit_frac: 2\n{LEXICAL}", "audit_frac"),
        (f"uncertainty: doubt\n{LEXICAL}", "uncertainty"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_judge_spec(_yaml(tmp_path, text))

    assert said in str(caught.value)


def test_k_is_as_the_measure_needs_it() -> None:
    kinds = ("consistency", "margin", "orders")
    assert [_config(uncertainty=kind).k for kind in kinds] == [5, 1, 2]


def _threshold(**changes: object) -> dict[str, object]:
    figures = {
        "n": 100,
        "risk": 0.02,
        "bound": 0.06,
        "escalated": 0.3,
        "last_risk": 0.0,
    }
    return {"threshold": 0.5, **figures, **changes}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pooled": None}, "give pooled or criteria, one of the two: it has neither"),
        ({"criteria": {"facts": _threshold()}}, "one of the two: it has both"),
        ({"version": 2}, "version: needs 1, not 2"),
        ({"unit": "page"}, "unit: needs 'document', 'task' or 'response'"),
        ({"pooled": _threshold(threshold="0.5")}, "pooled.threshold: needs a number"),
        ({"pooled": _threshold(threshold=1.5)}, "pooled.threshold: must be 1 or less"),
        ({"pooled": _threshold(threshold=True)}, "pooled.threshold: needs a number"),
        ({"pooled": _threshold(n=0)}, "pooled.n: must be 1 or more"),
        ({"confidence": 1.0}, "confidence: must be below 1, not 1.0"),
    ],
)
def test_wrong_facts_in_a_calibration_are_named(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    path = _written(tmp_path, **changes)

    with pytest.raises(ConfigError) as caught:
        load_judge(read_judge_spec(path))

    assert said in str(caught.value)
    assert "cascade.json: this is no calibration of a cascade as" in str(caught.value)


def test_a_calibration_with_a_key_twice_or_without_its_version_is_refused(
    tmp_path: Path,
) -> None:
    spec = read_judge_spec(_written(tmp_path))
    path = tmp_path / "cascade.json"
    text = path.read_text("utf-8")
    path.write_text(text.replace('"k": 1', '"k": 1, "k": 1'), encoding="utf-8")
    with pytest.raises(ConfigError, match="same key twice"):
        load_judge(spec)
    path.write_text(text.replace('"version": 1, ', ""), encoding="utf-8")
    with pytest.raises(ConfigError, match="version: is missing"):
        load_judge(spec)


@pytest.mark.parametrize("queue", [".", "none/queue.jsonl", "cascade.yaml/queue.jsonl"])
def test_a_queue_that_cannot_be_written_is_found_when_the_judge_is_loaded(
    tmp_path: Path, queue: str
) -> None:
    path = _written(tmp_path)
    plain = path.read_text("utf-8")
    path.write_text(f"{plain}label_queue: {queue}\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"label_queue: .* cannot be written \("):
        load_judge(read_judge_spec(path))
    path.write_text(f"{plain}label_queue: queue.jsonl\n", encoding="utf-8")
    load_judge(read_judge_spec(path))
    assert not (tmp_path / "queue.jsonl").exists()


@pytest.mark.parametrize(("cut", "kept"), [(9, 1), (1, 2), (0, 2)])
def test_a_torn_last_line_of_a_queue_is_mended(
    make_view: ViewFactory, tmp_path: Path, cut: int, kept: int
) -> None:
    queue = tmp_path / "queue.jsonl"
    view = make_view("Some answer.", rubric=RUBRIC)
    ask_for_labels(queue, view, ["facts", "limit"])
    queue.write_bytes(queue.read_bytes()[: -cut or None])

    ask_for_labels(queue, view, ["style"])

    found = [row.criterion for row in read_queue(queue)]
    assert found == [*["facts", "limit"][:kept], "style"]
    assert queue.read_bytes().count(b"\n") == kept + 1
    assert [path.name for path in tmp_path.iterdir()] == ["queue.jsonl"]
