"""Attacks on a judge: texts with a known bound of their credit, and the judge's rewards.

Needs the extra `reliability`.
"""

from rubric_core.errors import needing_extra

with needing_extra("rubric-judge", "reliability", by="attack"):
    from rubric_judge.quality.attack.cases import Target
    from rubric_judge.quality.attack.credit import over_credit
    from rubric_judge.quality.attack.families import FAMILIES
    from rubric_judge.quality.attack.plan import AttackPlan, default_tasks, plan_attacks
    from rubric_judge.quality.attack.report import AttackReport
    from rubric_judge.quality.attack.suites import read_suite
    from rubric_judge.quality.attack.traces import (
        TRACE_FAMILIES,
        default_trace_tasks,
        judgeable,
    )

__all__ = [
    "FAMILIES", "TRACE_FAMILIES", "AttackPlan", "AttackReport", "Target", "default_tasks",
    "default_trace_tasks", "judgeable", "over_credit", "plan_attacks", "read_suite",
]  # fmt: skip
