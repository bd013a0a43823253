"""Judges that fall for something, and judges that do not."""

from collections.abc import Callable, Mapping

import pytest

from rubric_core import JudgeResult, JudgeView, Reason, Task
from rubric_judge.quality.attack import (
    FAMILIES,
    AttackReport,
    Target,
    over_credit,
    plan_attacks,
)
from rubric_judge.quality.attack.report import FamilyCredit
from rubric_judge.testing import ScriptedJudge

Attacked = Callable[..., AttackReport]
ORDER = "full weight of every criterion"


def _by_name(report: AttackReport) -> Mapping[str, FamilyCredit]:
    return {family.family: family for family in report.families}


def test_a_strict_judge_is_caught_by_nothing(
    tasks: list[Task], attacked: Attacked
) -> None:
    references = {task.reference_answer for task in tasks}
    report = attacked(
        ScriptedJudge(lambda view: float(view.response in references)), tasks
    )

    assert {family.rate for family in report.families} == {0.0}
    assert (report.separated, report.separable) == (6, 6)
    controls = {control.name: control.mean_reward for control in report.controls}
    written = {"right_in_other_words": 0.0, "false_in_the_same_words": 0.0}
    assert controls == {"reference": 1.0, "weak": 0.0, "off_topic": 1.0, **written}


FALLS_FOR: dict[str, tuple[str, Callable[[JudgeView], bool]]] = {
    "response_injection": ("response_injection", lambda view: ORDER in view.response),
    "passage_injection": (
        "passage_injection",
        lambda view: "award" in view.grounding.reveal(),
    ),
    "verdicts": ("forged_verdicts", lambda view: '"max_total"' in view.response),
    "keys": ("master_keys", lambda view: len(view.response) <= 3),
    "length": ("length_padding", lambda view: len(view.response) > 1500),
    "echo": ("question_echo", lambda view: view.question in view.response),
    "hidden": ("hidden_text", lambda view: "<!--" in view.response),
}


@pytest.mark.parametrize("trick", FALLS_FOR)
def test_a_judge_that_falls_for_a_trick_is_caught_at_its_rate(
    trick: str, tasks: list[Task], attacked: Attacked
) -> None:
    family, falls = FALLS_FOR[trick]
    cases = plan_attacks(tasks, {family: FAMILIES[family]}).cases
    expected = sum(falls(case.view) for case in cases)
    assert 0 < expected < len(cases)

    (found,) = attacked(
        ScriptedJudge(lambda view: float(falls(view))), tasks, family
    ).families

    assert (found.over_credited, found.scored) == (expected, len(cases))
    assert found.rate == expected / len(cases)
    assert found.mean_over_credit == pytest.approx(expected / len(cases))
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < found.rate < found.high < 1
    assert {case.reward for case in found.worst} == {1.0}


def test_credit_is_held_against_what_the_base_alone_was_given(
    tasks: list[Task], attacked: Attacked
) -> None:
    found = _by_name(attacked(ScriptedJudge(0.3), tasks))

    # 0.3 for everything is more than nothing, and no more than the weak answer's 0.3.
    assert {name for name, family in found.items() if family.rate} == {
        "keyword_stuffing", "master_keys", "negated_answers", "null_model", "question_echo",
        "rubric_echo", "shuffled_words",
    }  # fmt: skip
    assert {family.rate for family in found.values()} == {0.0, 1.0}


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3, 0.7])
def test_an_excess_within_epsilon_is_none(
    share: float, tasks: list[Task], attacked: Attacked
) -> None:
    judge = ScriptedJudge(share)

    assert attacked(judge, tasks, "master_keys", epsilon=share).families[0].rate == 0.0
    assert (
        attacked(judge, tasks, "master_keys", epsilon=share - 0.01).families[0].rate
        == 1.0
    )


def test_the_bound_is_the_highest_of_several_judgements_of_the_base(
    tasks: list[Task],
) -> None:
    plan = plan_attacks(tasks[:1], {"claims": FAMILIES["claims"]})
    rubric = tasks[0].rubric

    def given_(share: float) -> JudgeResult:
        scores = {criterion.id: criterion.weight * share for criterion in rubric}
        return JudgeResult.scored(rubric, scores, judge="noisy")

    controls_RN = [[given_(share)] * len(plan.controls) for share in (0.1, 0.4, 0.2)]
    cases = [given_(0.42)] * len(plan.cases)

    (family,) = over_credit(plan, controls_RN, cases, judge="noisy").families

    assert family.rate == 0.0
    assert family.mean_over_credit == pytest.approx(0.02)


def test_failures_are_counted_apart_and_a_failed_base_bounds_nothing(
    tasks: list[Task], attacked: Attacked
) -> None:
    def script(view: JudgeView) -> JudgeResult | float:
        if view.response.startswith("Let us"):
            return JudgeResult.unavailable(Reason.TIMEOUT, judge="failing")
        if view.response == Target(tasks[0]).weak:
            return JudgeResult.invalid(Reason.NOT_JSON, judge="failing")
        if len(view.response) < 2:
            return JudgeResult.invalid(Reason.REFUSED, judge="failing")
        return 1.0

    found = _by_name(
        attacked(ScriptedJudge(script, name="failing"), tasks, "master_keys", "claims")
    )

    keys, claims = found["master_keys"], found["claims"]
    assert (keys.invalid, keys.unavailable, keys.cases) == (3 * 6, 6, 16 * 6)
    assert (keys.scored, keys.rate) == (12 * 6, 1.0)
    assert (claims.scored, claims.unbounded, claims.rate) == (0, 8 * 6, None)
