"""What one call each is to judge: one response, or all different responses to a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rubric_core import Judge, JudgeView
from rubric_judge.capabilities import GroupJudge, check_group, group_identity
from rubric_judge.pool.schedule import Wanted

Key = Callable[[JudgeView, str], str]
"""From a view, and what identifies the group that it is judged in, to the ledger's key."""


def wanted_of(views: Sequence[JudgeView], judge: Judge, *, key: Key | None) -> list[list[Wanted]]:
    """Part views into calls.

    Args:
        views: in any order.
        judge: for a `GroupJudge` the views of a task are one call, and a response that stands in
            it twice is shown once.
        key: of the ledger; without one, a judge of single responses judges each view.

    Returns:
        What is wanted of each call. With a key, what is the same twice is wanted once.

    Raises:
        JudgeSetupError: a group is larger than the judge takes.
    """
    if isinstance(judge, GroupJudge):
        return _groups(views, judge, key=key)
    if key is None:
        return [[Wanted([position], view)] for position, view in enumerate(views)]
    by_key: dict[str, Wanted] = {}
    for position, view in enumerate(views):
        name = key(view, "")
        by_key.setdefault(name, Wanted([], view, name)).positions.append(position)
    return [[one] for one in by_key.values()]


def _groups(
    views: Sequence[JudgeView], judge: GroupJudge, *, key: Key | None
) -> list[list[Wanted]]:
    groups: dict[object, dict[str, Wanted]] = {}
    for position, view in enumerate(views):
        group = groups.setdefault((view.task_id, view.question, view.grounding, view.rubric), {})
        group.setdefault(view.response, Wanted([], view)).positions.append(position)
    for group in groups.values():
        check_group(judge, [one.view for one in group.values()])
        if key is not None:
            identity = group_identity(group)
            for one in group.values():
                one.key = key(one.view, identity)
    return [list(group.values()) for group in groups.values()]
