import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_core import (
    Criterion,
    Evidence,
    JudgeResult,
    JudgeView,
    Outcome,
    Reason,
    Rubric,
    Usage,
)
from rubric_judge import (
    HybridConfig,
    HybridJudge,
    JudgePool,
    Ledger,
    SandboxError,
    VerificationError,
    check_executable,
    load_judge,
    load_replicas,
    read_judge_spec,
)
from rubric_judge.checks.execute import Programs
from rubric_judge.judges.capabilities import fingerprint, wants_warm_call
from rubric_judge.judges.load import hybrid_judge
from rubric_judge.testing import FailingJudge, ScriptedJudge

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio

CONFIG = HybridConfig.model_validate({"judge": {"type": "lexical"}})

SPEED = Criterion(id="speed", weight=2.0, verification_method="numeric: 12 ± 0.1 m/s")
NAMES = Criterion(
    id="names", weight=1.0, verification_method="contains_all: drag | mass"
)
PROSE = Criterion(id="prose", weight=3.0, description="Explains why drag matters.")
ORDER = Criterion(id="order", weight=1.0, verification_method="sentences: first")
MIXED = Rubric(criteria=(PROSE, SPEED, ORDER, NAMES))
RESPONSE = "The drag of its mass holds it at 43.2 km/h."


def _rubric(*criteria: Criterion) -> Rubric:
    return Rubric(criteria=criteria)


async def test_programs_score_what_they_can_and_one_call_the_rest(
    make_view: ViewFactory,
) -> None:
    reader = ScriptedJudge({"prose": 1.5, "order": 1.0})
    judge = HybridJudge(reader, CONFIG)

    result = await judge.judge(make_view(RESPONSE, rubric=MIXED))

    assert list(result.scores.items()) == [
        ("prose", 1.5), ("speed", 2.0), ("order", 1.0), ("names", 1.0)
    ]  # fmt: skip
    assert (result.total, result.max_total, result.judge) == (5.5, 7.0, judge.name)
    assert "speed 1, names 1" in result.reasoning
    (call,) = reader.calls
    assert call.rubric.ids == ("prose", "order")
    assert (call.task_id, call.response) == ("0123456789abcdef", RESPONSE)


async def test_what_the_other_judge_reports_of_its_call_is_kept(
    make_view: ViewFactory,
) -> None:
    rest = _rubric(PROSE, ORDER)
    read = JudgeResult.scored(
        rest,
        {"prose": 3.0, "order": 0.0},
        judge="reader",
        reasoning="Drag is explained.",
    ).with_call(usage=Usage(prompt_tokens=9, cost_usd=0.5), latency_s=1.25, attempts=3)
    evidence = {"prose": Evidence(quote="drag", found_in="response")}
    read = JudgeResult.model_validate({**dict(read), "evidence": evidence})
    judge = HybridJudge(ScriptedJudge(lambda _: read), CONFIG)

    result = await judge.judge(make_view(RESPONSE, rubric=MIXED))

    assert (result.usage, result.latency_s, result.attempts) == (read.usage, 1.25, 3)
    assert result.evidence == evidence
    assert result.reasoning.startswith("By program: ")
    assert result.reasoning.endswith("Drag is explained.")


async def test_without_an_executable_criterion_it_is_the_other_judge(
    make_view: ViewFactory,
) -> None:
    view = make_view(RESPONSE, rubric=_rubric(PROSE, ORDER))
    reader = ScriptedJudge(0.25)

    ours, theirs = (
        await HybridJudge(reader, CONFIG).judge(view),
        await reader.judge(view),
    )

    assert ours.model_dump(exclude={"judge"}) == theirs.model_dump(exclude={"judge"})
    assert reader.calls[0].rubric is view.rubric


async def test_with_executable_criteria_only_no_call_is_made(
    make_view: ViewFactory,
) -> None:
    reader = FailingJudge(RuntimeError("must not be called"))
    judge = HybridJudge(reader, CONFIG)

    result = await judge.judge(make_view(RESPONSE, rubric=_rubric(SPEED, NAMES)))

    assert result.scores == {"speed": 2.0, "names": 1.0}
    assert result.usage is None
    assert reader.calls == 0


async def test_criteria_without_weight_are_no_reason_for_a_call(
    make_view: ViewFactory,
) -> None:
    free = Criterion(id="free", weight=0.0, description="Anything.")
    judge = HybridJudge(FailingJudge(RuntimeError("must not be called")), CONFIG)

    result = await judge.judge(make_view(RESPONSE, rubric=_rubric(free, SPEED)))

    assert list(result.scores.items()) == [("free", 0.0), ("speed", 2.0)]


async def test_the_work_grows_with_the_criteria_and_no_faster(
    make_view: ViewFactory,
) -> None:
    async def lines_for(count: int) -> int:
        criteria = (
            Criterion(id=f"c{n}", weight=1.0, verification_method="contains_any: mass")
            for n in range(count)
        )
        view = make_view(RESPONSE, rubric=_rubric(*criteria))
        lines = 0

        def trace(frame: FrameType, event: str, _arg: object) -> Any:
            nonlocal lines
            lines += event == "line"
            return trace if frame.f_globals["__name__"].startswith("rubric_") else None

        judge = HybridJudge(ScriptedJudge(), CONFIG)
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            result = await judge.judge(view)
        finally:
            sys.settrace(before)
        assert result.total == count
        return lines

    await lines_for(10)  # fills what is kept from call to call

    assert await lines_for(400) < 6 * await lines_for(100)


METHODS = ("regex: drag", "numeric: 12 m/s", "numeric: 7", "contains_any: lift | mass",
           "json_schema: {}", "", "Read it.", "sentences: first")  # fmt: skip


@given(st.lists(st.sampled_from(METHODS), min_size=1, max_size=6), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
async def test_the_parts_are_scored_as_they_are_alone(
    methods: list[str], share: float
) -> None:
    from rubric_core import Grounding

    rubric = _rubric(
        *(
            Criterion(id=f"c{n}", weight=n + 1.0, verification_method=m)
            for n, m in enumerate(methods)
        )
    )
    view = JudgeView(
        task_id="t",
        question="q",
        grounding=Grounding("p"),
        response=RESPONSE,
        rubric=rubric,
    )
    programs = Programs(CONFIG)

    result = await HybridJudge(ScriptedJudge(share), CONFIG).judge(view)

    for criterion in rubric:
        check = check_executable(criterion)
        alone = share if check is None else (await programs.run(check, RESPONSE)).share
        assert result.scores[criterion.id] == criterion.weight * alone
    rubric.check_scores(result.scores)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (Reason.NOT_JSON, Outcome.INVALID),
        (Reason.TIMEOUT, Outcome.UNAVAILABLE),
    ],
)
async def test_a_failure_of_the_other_judge_is_the_whole_result(
    make_view: ViewFactory, reason: Reason, outcome: Outcome
) -> None:
    judge = HybridJudge(FailingJudge(reason), CONFIG)

    result = await judge.judge(make_view(RESPONSE, rubric=MIXED))

    assert (result.outcome, result.reason, result.judge) == (
        outcome,
        reason,
        judge.name,
    )
    assert result.scores == {}


async def test_a_directive_that_cannot_run_makes_the_judgement_unavailable(
    make_view: ViewFactory,
) -> None:
    broken = Criterion(id="broken", weight=1.0, verification_method="numeric: Zyzzyva")
    reader = ScriptedJudge(1.0)

    result = await HybridJudge(reader, CONFIG).judge(
        make_view(RESPONSE, rubric=_rubric(PROSE, broken))
    )

    assert (result.outcome, result.reason) == (Outcome.UNAVAILABLE, Reason.JUDGE_ERROR)
    assert "criterion 'broken'" in result.detail
    assert "Zyzzyva" not in result.detail
    assert reader.calls == []


async def test_a_pattern_past_its_time_gives_no_credit_and_says_so(
    make_view: ViewFactory,
) -> None:
    slow = Criterion(id="slow", weight=1.0, verification_method="regex: (?:a|aa)+b")
    config = CONFIG.model_copy(update={"regex_timeout_s": 0.05})

    result = await HybridJudge(ScriptedJudge(1.0), config).judge(
        make_view("a" * 5000, rubric=_rubric(slow))
    )

    assert result.scores == {"slow": 0.0}
    assert "slow 0 (its pattern ran past 0.05 s)" in result.reasoning


CODE = Criterion(
    id="code",
    weight=4.0,
    verification_method="python_tests:\nassert f(2) == 4\nassert f(3) == 9\nassert f(-1) == 1",
)
CODED = "It squares.\n```python\ndef f(x):\n    return x * abs(x)\n```"


async def test_unit_tests_that_are_not_switched_on_go_to_the_other_judge(
    make_view: ViewFactory,
) -> None:
    reader = ScriptedJudge(0.5)

    result = await HybridJudge(reader, CONFIG).judge(
        make_view(CODED, rubric=_rubric(CODE))
    )

    assert result.scores == {"code": 2.0}
    assert reader.calls[0].rubric.ids == ("code",)


# --- as a judge among others ----------------------------------------------------------------------


async def test_the_fingerprint_covers_programs_limits_and_the_other_judge() -> None:
    first, second = ScriptedJudge(1.0, name="a"), ScriptedJudge(1.0, name="b")
    seen = {
        fingerprint(HybridJudge(first, CONFIG)),
        fingerprint(HybridJudge(second, CONFIG)),
        fingerprint(
            HybridJudge(first, CONFIG.model_copy(update={"regex_timeout_s": 0.5}))
        ),
    }
    more = CONFIG.model_copy(
        update={"sandbox": CONFIG.sandbox.model_copy(update={"at_once": 9})}
    )

    assert len(seen) == 3
    assert fingerprint(HybridJudge(first, more)) in seen
    assert not wants_warm_call(HybridJudge(first, CONFIG))


async def test_it_runs_in_a_pool_and_is_found_again_in_a_ledger(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    reader = ScriptedJudge(0.5)
    views = [make_view(f"{RESPONSE} {number}", rubric=MIXED) for number in range(6)]

    with Ledger(tmp_path / "judgements.ledger") as ledger:
        pool = JudgePool(
            HybridJudge(reader, CONFIG), workers=2, micro_batch=2, ledger=ledger
        )
        first = await pool.judge_all(views)
        again = JudgePool(
            HybridJudge(reader, CONFIG), workers=2, micro_batch=2, ledger=ledger
        )
        second = await again.judge_all(views)

    assert [result.outcome for result in first] == [Outcome.SCORED] * 6
    assert [result.scores for result in second] == [result.scores for result in first]
    assert len(reader.calls) == 6
    assert {id(call.rubric) for call in reader.calls} == {id(reader.calls[0].rubric)}


async def test_it_is_built_from_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(
        "type: hybrid\nregex_timeout_s: 0.5\njudge:\n  type: llm\n  model: openai/fake\n"
        "  transport: direct\n  api_base: [http://127.0.0.1:1/v1, http://127.0.0.1:2/v1]\n"
    )
    spec = read_judge_spec(path)
    assert isinstance(spec, HybridConfig)

    replicas = load_replicas(spec)
    plugin = hybrid_judge({"judge": {"type": "lexical"}})

    assert [type(one) for one in replicas] == [HybridJudge, HybridJudge]
    assert len({fingerprint(one) for one in replicas}) == 1
    assert isinstance(plugin, HybridJudge)
    assert plugin.name == "hybrid_v2 + lexical_v3"
    for one in replicas:
        assert isinstance(one, HybridJudge)
        await one.aclose()
    assert isinstance(load_judge(CONFIG), HybridJudge)


def test_a_hybrid_judge_in_a_hybrid_judge_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text("type: hybrid\njudge:\n  type: hybrid\n  judge: {type: lexical}\n")

    with pytest.raises(ValueError, match="judge"):
        read_judge_spec(path)


def test_a_directive_that_cannot_run_is_found_before_a_run() -> None:
    broken = Criterion(id="broken", weight=1.0, verification_method="json_schema: {")

    with pytest.raises(
        VerificationError, match="criterion 'broken': verification_method"
    ):
        check_executable(broken)
    assert check_executable(PROSE) is None
    assert check_executable(ORDER) is None
    assert check_executable(CODE) is None
    assert check_executable(CODE, python_tests=True) is not None


def test_the_error_of_a_sandbox_crosses_processes() -> None:
    error = SandboxError("needs Linux")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
