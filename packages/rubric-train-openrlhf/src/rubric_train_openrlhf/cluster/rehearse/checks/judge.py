"""Is the judge there, and does it keep to its contract?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from rubric_core import Outcome, RubricError, normalized_reward
from rubric_judge import load_replicas
from rubric_judge.capabilities import check, close
from rubric_train_openrlhf.cluster.rehearse.checks.data import TRAIN
from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed, unchecked
from rubric_train_openrlhf.cluster.rehearse.judge import chosen, judging_with, language_model
from rubric_train_openrlhf.cluster.rehearse.made_tasks import made_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_core import Judge, JudgeResult, Task
    from rubric_judge import JudgeSpec
    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.cluster.rehearse.subject import Subject

_CHECK_WITHIN_S: Final = 30.0
_ANSWER: Final = "I do not know the answer to this question."


def check_reachable(subject: Subject) -> Iterator[Finding]:
    """Build the configuration's own judge and ask whether it is there, whoever judges here."""
    spec = subject.known.judge.spec
    try:
        anyio.run(_check_all, spec)
    except (RubricError, TimeoutError) as error:
        detail = str(error) or f"no answer within {_CHECK_WITHIN_S:.0f} s"
        remedy = "repair the judge or judge.spec; the address must be one that the run reaches"
        if chosen(subject) == "config" or subject.request.on_cluster:
            yield failed(detail, where="judge.spec", remedy=remedy)
        else:
            why = f"from this machine: {detail}"
            yield unchecked(why, where="judge.spec", remedy="on the cluster: `--judge config`")
        return
    model = language_model(spec)
    yield passed(f"{model.model if model else spec.type!r} is there", where="judge.spec")


def check_contract(subject: Subject) -> Iterator[Finding]:
    """Have the chosen judge score one task: one of the run's where they are here."""
    task = next(iter(subject.tasks.get(TRAIN, ())), made_tasks()[0])
    try:
        with judging_with(subject) as spec:
            result = anyio.run(_judge_one, spec, task)
    except RubricError as error:
        remedy = "repair the judge or judge.spec"
        yield failed(str(error), where="judge.spec", remedy=remedy)
        return
    judge = chosen(subject)
    who = "" if judge == "config" else f" (the {judge} judge)"
    if result.outcome is not Outcome.SCORED:
        reason = result.reason.value if result.reason else "no reason"
        yield failed(
            f"the judgement of task {task.task_id} is {result.outcome.value}: {reason}"
            f"{f', {result.detail}' if result.detail else ''}{who}",
            where="judge.spec",
            remedy="every response would be treated like this one: repair the judge first",
        )
        return
    reward = normalized_reward(result, task.rubric)
    seconds = f" in {result.latency_s:.2f} s" if result.latency_s is not None else ""
    yield passed(
        f"task {task.task_id}: {len(task.rubric)} criteria scored{seconds}, "
        f"reward {reward:.2f}{who}",
        where="judge.spec",
    )


async def _check_all(spec: JudgeSpec) -> None:
    judges = load_replicas(spec)
    try:
        with anyio.fail_after(_CHECK_WITHIN_S):
            for judge in judges:
                await check(judge)
    finally:
        await _close_all(judges)


async def _judge_one(spec: JudgeSpec, task: Task) -> JudgeResult:
    judges = load_replicas(spec)
    try:
        return await judges[0].judge(task.judge_view(task.reference_answer or _ANSWER))
    finally:
        await _close_all(judges)


async def _close_all(judges: tuple[Judge, ...]) -> None:
    for judge in judges:
        await close(judge)
