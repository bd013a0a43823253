"""Over-credit rates from judgements of attacks."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean

from rubric_core import JudgeResult, Outcome, normalized_reward
from rubric_judge.quality.attack.cases import Case
from rubric_judge.quality.attack.plan import AttackPlan, Control, ControlName
from rubric_judge.quality.attack.report import (
    AttackReport,
    ControlCredit,
    FamilyCredit,
    WorstCase,
)
from rubric_judge.statistics.shares import binomial_test_limits

_Judged = tuple[Case, JudgeResult]
_Bounds = dict[tuple[str, str], float]
"""Reward of an honest text, by task and name."""

_MOST_WORST = 5
_ROUNDING = 1e-9
"""A sum of scores that is ε but for its rounding is not above ε."""
_DESERVES: dict[ControlName, str] = {
    "reference": "most of the weight",
    "right_in_other_words": "most of the weight: it meets every criterion",
    "false_in_the_same_words": "nothing: it meets no criterion",
    "weak": "little or nothing",
    "off_topic": "nothing: it answers a question of another document",
}


def over_credit(
    plan: AttackPlan,
    controls_RN: Sequence[Sequence[JudgeResult]],
    cases_N: Sequence[JudgeResult],
    *,
    judge: str,
    epsilon: float = 0.05,
    confidence: float = 0.95,
) -> AttackReport:
    """Compare the rewards of attacks with the most that they deserve.

        over-credit:  r > b + ε,   b = 0, or the highest reward of the base alone over R judgements

    Args:
        plan: the attacks and controls that were judged.
        controls_RN: R judgements of every control, in the plan's order.
        cases_N: one judgement of every case, in the plan's order.
        judge: the judge's name.
        epsilon: ε ≥ 0; at least twice the noise of one reward, so that noise is no over-credit.
        confidence: confidence of the Wilson intervals.

    Returns:
        Rates over the cases that have scores and a bound; the others are counted separately.

    Source: Wilson, Probable inference, Journal of the American Statistical Association 22 (1927).
    """
    honest = [
        (control, result)
        for results in controls_RN
        for control, result in zip(plan.controls, results, strict=True)
    ]
    bounds = _bounds(plan, honest)
    by_family: defaultdict[str, list[_Judged]] = defaultdict(list)
    for case, result in zip(plan.cases, cases_N, strict=True):
        by_family[case.family].append((case, result))
    families = [
        _family(name, judged, bounds, epsilon=epsilon, confidence=confidence)
        for name, judged in by_family.items()
    ]
    rewards_by_task = [
        (bounds[task_id, "reference"], bounds[task_id, "weak"])
        for task_id in {task.task_id for task in plan.tasks}
        if (task_id, "reference") in bounds and (task_id, "weak") in bounds
    ]
    return AttackReport(
        judge=judge,
        tasks=len(plan.tasks),
        cases=len(plan.cases),
        epsilon=epsilon,
        confidence=confidence,
        families=tuple(sorted(families, key=lambda family: -(family.rate or 0.0))),
        controls=tuple(_controls(honest)),
        separated=sum(
            high > low + epsilon + _ROUNDING for high, low in rewards_by_task
        ),
        separable=len(rewards_by_task),
    )


def _bounds(plan: AttackPlan, honest: Sequence[tuple[Control, JudgeResult]]) -> _Bounds:
    """Return the most that attacks deserve, by task and base."""
    bounds = {(task.task_id, "nothing"): 0.0 for task in plan.tasks}
    for control, result in honest:
        if result.outcome is Outcome.SCORED:
            key = control.view.task_id, control.name
            reward = normalized_reward(result, control.view.rubric)
            bounds[key] = max(bounds.get(key, 0.0), reward)
    return bounds


def _family(
    name: str,
    judged: Sequence[_Judged],
    bounds: _Bounds,
    *,
    epsilon: float,
    confidence: float,
) -> FamilyCredit:
    outcomes = Counter(result.outcome for _, result in judged)
    graded: list[WorstCase] = []
    for case, result in judged:
        task = case.target.task
        bound = bounds.get((task.task_id, case.attack.base))
        if result.outcome is Outcome.SCORED and bound is not None:
            reward = normalized_reward(result, task.rubric)
            graded.append(
                WorstCase(
                    id=case.id,
                    reward=reward,
                    bound=bound,
                )
            )
    over = sorted(
        (case for case in graded if case.reward > case.bound + epsilon + _ROUNDING),
        key=lambda case: case.bound - case.reward,
    )
    excesses = [max(0.0, case.reward - case.bound) for case in graded]
    low = None
    high = None
    if graded:
        low, high = binomial_test_limits(
            len(over), len(graded), confidence, method="wilson"
        )
    return FamilyCredit(
        family=name,
        cases=len(judged),
        scored=len(graded),
        over_credited=len(over),
        rate=len(over) / len(graded) if graded else None,
        low=low,
        high=high,
        mean_over_credit=fmean(excesses) if graded else None,
        invalid=outcomes[Outcome.INVALID],
        unavailable=outcomes[Outcome.UNAVAILABLE],
        unbounded=outcomes[Outcome.SCORED] - len(graded),
        worst=tuple(over[:_MOST_WORST]),
    )


def _controls(honest: Sequence[tuple[Control, JudgeResult]]) -> Iterator[ControlCredit]:
    for name, deserves in _DESERVES.items():
        judged = [
            (control.view.rubric, result)
            for control, result in honest
            if control.name == name
        ]
        rewards = [
            normalized_reward(result, rubric)
            for rubric, result in judged
            if result.outcome is Outcome.SCORED
        ]
        if judged:
            yield ControlCredit(
                name=name,
                deserves=deserves,
                responses=len(judged),
                scored=len(rewards),
                mean_reward=fmean(rewards) if rewards else None,
            )
