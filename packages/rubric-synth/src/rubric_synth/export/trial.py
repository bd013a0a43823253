"""The test of an environment before it is written, and the figures of its card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

from rubric_core import ConfigError, Judge, Task
from rubric_judge.judges.capabilities import Immediate
from rubric_judge.quality.fixtures.checking import check_fixtures
from rubric_judge.quality.wrong_answers import CONTROLS
from rubric_synth.export.card_figures import Family, Figures
from rubric_synth.export.environment import Environment
from rubric_synth.stats.controls import control_rewards

_CONTROL_TASKS = 200
_ATTACKED_TASKS = 20
_ATTACKS = 40
"""Most attacks of a family."""
_WITH_ATTACKS = ("matplotlib", "scipy")
"""Modules that the attacks need: those of the extra `reliability` of rubric-judge."""


async def tried(
    environment: Environment,
    judge: Judge | Sequence[Judge],
    *,
    low: float,
    keep_failing: bool = False,
) -> Environment:
    """Judge the fixtures, and leave out each task one of whose fixtures failed.

    Args:
        environment: With fixtures.
        judge: Its judge; or several replicas of one.
        low: Reward from which a false answer is a false pass.
        keep_failing: Whether to keep such tasks all the same.

    Raises:
        ConfigError: No task is left.
        JudgeSetupError: The judge is not there.
    """
    by_id = {task.task_id: task for task in environment.tasks}
    report = await check_fixtures(environment.fixtures, by_id, judge, low=low)
    failing = frozenset(entry.fixture.task_id for entry in report.failed)
    left_out = frozenset[str]() if keep_failing else failing
    if left_out:
        environment = without(environment, left_out)
    first = judge if isinstance(judge, Judge) else judge[0]
    figures = Figures(judge=first.name, report=report, left_out=len(left_out))
    if isinstance(first, Immediate):
        figures = replace(
            figures,
            controls=await _controls(environment.tasks[:_CONTROL_TASKS], first),
            attacks=_attacks(environment.tasks[:_ATTACKED_TASKS], first),
        )
    return replace(environment, figures=figures)


def without(environment: Environment, task_ids: frozenset[str]) -> Environment:
    """Return an environment without some tasks.

    Raises:
        ConfigError: No task is left.
    """
    splits = {
        split: [task for task in tasks if task.task_id not in task_ids]
        for split, tasks in environment.splits.items()
    }
    if not any(splits.values()):
        raise ConfigError(
            f"all {len(task_ids)} tasks fail their own test, and nothing was written: the judge "
            "does not pay their reference answers, or pays false ones; look at some with "
            "`rubric-synth show`, choose another --judge, or export them with --keep-failing",
            location="judge",
        )
    fixtures = [
        entry for entry in environment.fixtures if entry.task_id not in task_ids
    ]
    return replace(environment, splits=splits, fixtures=fixtures)


async def _controls(
    tasks: Sequence[Task], judge: Judge
) -> list[tuple[str, str, float]]:
    rewards = (await control_rewards(tasks, judge)).controls
    return [(name, CONTROLS[name], reward) for name, reward in rewards.items()]


def _attacks(tasks: Sequence[Task], judge: Immediate) -> list[Family]:
    """Attack a program's judge; nothing where what the attacks need is not installed."""
    if not all(map(find_spec, _WITH_ATTACKS)):
        return []
    from rubric_judge.quality.attack import FAMILIES, over_credit, plan_attacks

    plan = plan_attacks(tasks, FAMILIES, limit=_ATTACKS)
    controls = [[judge.judge_now(control.view) for control in plan.controls]]
    results = [judge.judge_now(case.view) for case in plan.cases]
    report = over_credit(plan, controls, results, judge="", epsilon=0.05)
    return [
        Family(family.family, family.scored, family.over_credited)
        for family in report.families
    ]
