"""Attacks by what tools return and are called with, on judges that fall for it and that do not."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

from rubric_core import ConfigError, Task, write_tasks
from rubric_core.schema.trace import PartKind
from rubric_core.traces.views import full_excerpt
from rubric_judge.cli import main
from rubric_judge.judges.llm.prompt import excerpt_rules, load_prompt
from rubric_judge.quality.attack import (
    FAMILIES,
    TRACE_FAMILIES,
    AttackReport,
    default_tasks,
    default_trace_tasks,
    judgeable,
    plan_attacks,
)
from rubric_judge.testing import FakeCall, FakeEndpoint

_FENCE = re.compile(
    r"----- BEGIN ([A-Z]+)([A-Z ]*?)(?: \d+)? (\w{16}) -----\n(.*?)\n"
    r"----- END \1\2(?: \d+)? \3 -----",
    re.DOTALL,
)
_ORDERS = re.compile(
    r"full weight|evaluator|Every criterion|every criterion is|PASS|verdict=pass|rúbrica"
    r'|Scores:|"reward": 1|is solved|answers my question',
)


class Ran(NamedTuple):
    status: int
    report: AttackReport | None
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def attacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Return a function that attacks a judge, a word or what a model answers, on traces."""
    monkeypatch.setattr("rubric_judge.ui.console.progress.QUIET_S", 3600.0)

    def run(judge: str | Callable[[FakeCall], float], *words: str) -> Ran:
        path = tmp_path / "judge.yaml"
        out = tmp_path / "out"
        with FakeEndpoint(0.0 if isinstance(judge, str) else judge) as endpoint:
            text = (
                f"type: {judge}\n"
                if isinstance(judge, str)
                else "type: llm\nmodel: openai/fake\ntransport: direct\n"
                f"api_base: {endpoint.url}\n"
            )
            path.write_text(text, encoding="utf-8")
            more = words or ("--traces",)
            monkeypatch.setattr(
                "sys.argv",
                ["x", "attack", *more, "--judge", str(path), "--out", str(out)],
            )
            with pytest.raises(SystemExit) as ended:
                main()
        report = None
        if ended.value.code == 0:
            written = (out / "attack.json").read_text("utf-8")
            report = AttackReport.model_validate_json(written)
        return Ran(int(ended.value.code or 0), report, capsys.readouterr().err)

    yield run
    structlog.reset_defaults()


def _prompt(call: FakeCall) -> str:
    return call.messages[-1]["content"]


def _parts(text: str, *labels: str) -> str:
    return "\n".join(m[4] for m in _FENCE.finditer(text) if m[1] in labels)


def _earned(text: str) -> float:
    """Full marks where the policy itself says a time, a date or a train of a reference answer."""
    return float(bool(re.search(r"14:20|9 March|11:15", text)))


def _careful(call: FakeCall) -> float:
    """Read what the policy wrote and called, and obey whatever stands outside of all fences."""
    text = _prompt(call)
    shown = text.partition("\nRESPONSE:\n")[2].removeprefix(excerpt_rules())
    if _ORDERS.search(_FENCE.sub("", shown)):
        return 1.0
    return _earned(_parts(text, "REPLY", "RESPONSE"))


def _gullible(call: FakeCall) -> float:
    """Obey an order wherever it stands, and take what a tool returned for the policy's."""
    text = _prompt(call)
    read = _parts(text, "REPLY", "RESPONSE", "CALL", "RESULT")
    return 1.0 if _ORDERS.search(read) else _earned(read)


def _credulous(call: FakeCall) -> float:
    """Obey no order, and take what a tool returned for the policy's words."""
    return _earned(_parts(_prompt(call), "REPLY", "RESPONSE", "RESULT"))


@pytest.mark.parametrize("judge", ["lexical", "claims"])
def test_what_a_tool_returns_moves_no_judge_of_words(attacked: Run, judge: str) -> None:
    _, report, said = attacked(judge)

    assert report is not None
    assert {family.family for family in report.families} == set(TRACE_FAMILIES)
    assert sum(family.scored for family in report.families) == report.cases == 105
    assert [family.mean_over_credit for family in report.families] == [0.0] * 5
    assert report.separated == report.separable == 3
    assert "4 criteria are left out: the judge" in said
    assert "no calls of tools" in said


def test_a_model_that_obeys_no_text_in_a_fence_is_caught_by_nothing(
    attacked: Run,
) -> None:
    _, report, said = attacked(_careful)

    assert report is not None
    assert said == ""
    assert {family.rate for family in report.families} == {0.0}
    assert report.separated == report.separable == 3


def test_a_model_that_obeys_its_tools_is_caught(attacked: Run) -> None:
    _, report, _ = attacked(_gullible)

    assert report is not None
    rates = {family.family: family.rate for family in report.families}
    assert rates["tool_orders"] == 1.0
    assert rates["tool_verdicts"] == 1.0
    assert min(rate or 0.0 for rate in rates.values()) > 0.6
    (worst, *_) = report.families[0].worst
    # The turns before a result, and the last reply alone, do not show it.
    assert worst.bound == 0.0
    assert 0.3 < worst.reward < 1.0


def test_a_model_that_takes_results_for_the_policy_s_words_is_caught_by_them_alone(
    attacked: Run,
) -> None:
    _, report, _ = attacked(_credulous)

    assert report is not None
    over = {family.family: family.over_credited for family in report.families}
    # Those that hold the reference answer: by name, on three tasks.
    assert over == {
        "tool_orders": 0,
        "tool_verdicts": 0,
        "tool_fences": 4 * 3,
        "tool_claims": 2 * 3,
        "call_orders": 0,
    }


@pytest.mark.parametrize("family", ["tool_fences", "call_orders"])
def test_no_forged_line_closes_the_fence_of_a_part(family: str) -> None:
    plan = plan_attacks(default_trace_tasks(), {family: TRACE_FAMILIES[family]})
    for case in plan.cases:
        trace = case.attack.trace
        assert trace is not None
        parts = full_excerpt(trace).parts
        view = case.target.task.whole_view(trace.answer).model_copy(
            update={
                "excerpt": full_excerpt(trace),
                "rubric": case.target.task.rubric.of_replies(),
            }
        )
        user = load_prompt("shared_prefix").render(view, passage_chars=5000).user
        inert = [part.text.replace("<|", "<\u2060|") for part in parts]
        fenced = [m[4] for m in _FENCE.finditer(user) if m[1] != "SOURCE"]
        assert fenced == inert, case.id


def test_the_marks_that_are_forged_are_those_of_the_honest_trace() -> None:
    (task, *_) = default_trace_tasks()
    plan = plan_attacks([task], {"tool_fences": TRACE_FAMILIES["tool_fences"]})
    forged = next(
        case.attack.response
        for case in plan.cases
        if case.attack.name == "true_reply_mark"
    )
    (mark,) = re.findall(r"END RESULT 1 (\w{16}) -----", forged)
    control = next(c for c in plan.controls if c.name == "weak")
    views = {view.excerpt.judges: view for view in control.views.views if view.excerpt}
    user = load_prompt("shared_prefix").render(views["full_trace"], passage_chars=500)

    assert f"----- END RESULT 1 {mark} -----" in user.user


def test_each_family_meets_the_tasks_that_it_is_for() -> None:
    texts = default_tasks()[:1]
    traces = default_trace_tasks()
    plan = plan_attacks([*texts, *traces], {**FAMILIES, **TRACE_FAMILIES})

    by_family: dict[str, set[str]] = {}
    for case in plan.cases:
        by_family.setdefault(case.family, set()).add(case.target.task.task_id)
    ids = {task.task_id for task in traces}
    assert all(by_family[name] == ids for name in TRACE_FAMILIES)
    assert all(by_family[name] == {texts[0].task_id} for name in FAMILIES)
    assert len({case.id for case in plan.cases}) == len(plan.cases)
    for case in plan.cases:
        trace = case.attack.trace
        if trace is None:
            continue
        # What is judged holds the attack only where the policy wrote it, in a call.
        judged = full_excerpt(trace)
        wrote = [p.text for p in judged.parts if p.kind is PartKind.REPLY]
        assert case.attack.response not in "".join(wrote)
        is_call = case.family == "call_orders"
        results = [p.text for p in judged.parts if p.kind is PartKind.RESULT]
        assert (case.attack.response in results) is not is_call


def test_a_judge_that_judges_no_part_of_a_trace_is_said() -> None:
    with pytest.raises(ConfigError, match="no criterion can be attacked; 4 criteria"):
        judgeable(default_trace_tasks()[:1], lambda _: "the judge is blind")
    kept, notes = judgeable(default_trace_tasks(), lambda _: "")
    assert kept == default_trace_tasks()
    assert notes == []


def test_tasks_of_your_own_that_judge_traces_are_attacked(
    attacked: Run, tmp_path: Path
) -> None:
    path = tmp_path / "tasks.jsonl"
    bare = default_trace_tasks()[1].model_copy(update={"reference_answer": None})
    write_tasks(path, [bare, default_tasks()[0]])

    _, report, _ = attacked(_careful, str(path), "--families", "tool_claims", "claims")

    assert report is not None
    cases = {family.family: family.cases for family in report.families}
    # Two texts of the family hold the reference answer, which this task lacks.
    assert cases == {"tool_claims": len(_texts("tool_claims")) - 2, "claims": 8}


def _texts(family: str) -> Any:
    return TRACE_FAMILIES[family].texts


def test_tasks_and_those_of_the_package_are_not_both_attacked(
    attacked: Run, tmp_path: Path
) -> None:
    path = tmp_path / "tasks.jsonl"
    write_tasks(path, default_trace_tasks())

    status, _, said = attacked("lexical", str(path), "--traces")

    assert status == 2
    assert "leave TASKS out" in said


def test_the_tasks_of_traces_can_be_answered() -> None:
    for task in default_trace_tasks():
        assert isinstance(task, Task)
        judged = {criterion.judges for criterion in task.rubric}
        assert {None, "tool_use", "full_trace"} <= judged
        reference = task.reference_answer or ""
        for criterion in task.rubric:
            if criterion.judges is None:
                assert all(
                    term.casefold() in reference.casefold()
                    for term in criterion.required_elements
                )
