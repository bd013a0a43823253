"""Is the judge there, and does it keep to its contract?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from rubric_core import Outcome, RubricError, normalized_reward
from rubric_judge import load_replicas
from rubric_judge.capabilities import check, close
from rubric_train_openrlhf.cluster.rehearse.addresses import why_only_there
from rubric_train_openrlhf.cluster.rehearse.checks.data import TRAIN
from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed, warning
from rubric_train_openrlhf.cluster.rehearse.judge import chosen, judging_with, language_model
from rubric_train_openrlhf.cluster.rehearse.made_tasks import made_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rubric_core import Judge, JudgeResult, Task
    from rubric_judge import JudgeSpec
    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.cluster.rehearse.subject import Subject

_CHECK_WITHIN_S: Final = 40.0
"""For a judge that keeps no time itself; a language model's client gives up before."""
_ANSWER: Final = "I do not know the answer to this question."


def check_reachable(subject: Subject) -> Iterator[Finding]:
    """Build the configuration's own judge and ask whether it is there, whoever judges here.

    What does not answer is a failure, unless only the cluster can be expected to reach it.
    """
    spec = subject.known.judge.spec
    model = language_model(spec)
    addresses = model.addresses if model else (None,)
    try:
        silent = anyio.run(_silent, spec, addresses)
    except RubricError as error:
        silent = dict.fromkeys(addresses, str(error))
    if not silent:
        yield passed(f"{model.model if model else spec.type!r} is there", where="judge.spec")
        return
    yield _unanswered(subject, silent, asked=len(addresses))


def _unanswered(subject: Subject, silent: Mapping[str | None, str], *, asked: int) -> Finding:
    cluster, choice = subject.known.cluster, subject.request.judge
    is_needed = chosen(subject) == "config" or subject.request.on_cluster
    # One that should answer says more than one that need not.
    reasons = {address: why_only_there(address, cluster) for address in silent}
    first = min(silent, key=lambda address: bool(reasons[address]))
    more = f" ({len(silent)} of {asked} servers)" if asked > 1 else ""
    said = f"{silent[first]}{more}"
    if not is_needed and choice != "auto":
        return warning(
            f"{said}; --judge {choice} does without it",
            where="judge.spec",
            remedy="have it answer before the run",
        )
    if not is_needed and reasons[first]:
        return warning(
            f"{said}; it is {reasons[first]}, and a stand-in judges here",
            where="judge.spec",
            remedy="start it before the run, and rehearse there with --on-cluster",
        )
    remedy = "repair the judge or judge.spec; the address must be one that the run reaches"
    if not is_needed:
        remedy += ". Where only the cluster reaches it: --judge fake"
    return failed(said, where="judge.spec", remedy=remedy)


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


async def _silent(spec: JudgeSpec, addresses: Sequence[str | None]) -> dict[str | None, str]:
    """Ask all replicas at once; those that do not answer, with what they say instead."""
    judges = load_replicas(spec)
    said: dict[str | None, str] = {}

    async def ask(judge: Judge, address: str | None) -> None:
        try:
            with anyio.fail_after(_CHECK_WITHIN_S):
                await check(judge)
        except TimeoutError:
            said[address] = f"no answer of {address or judge.name} within {_CHECK_WITHIN_S:.0f} s"
        except RubricError as error:
            said[address] = str(error)

    try:
        async with anyio.create_task_group() as group:
            for judge, address in zip(judges, addresses, strict=True):
                group.start_soon(ask, judge, address)
    finally:
        await _close_all(judges)
    return {address: said[address] for address in addresses if address in said}


async def _judge_one(spec: JudgeSpec, task: Task) -> JudgeResult:
    judges = load_replicas(spec)
    try:
        return await judges[0].judge(task.judge_view(task.reference_answer or _ANSWER))
    finally:
        await _close_all(judges)


async def _close_all(judges: tuple[Judge, ...]) -> None:
    for judge in judges:
        await close(judge)
