"""Audits on the judge's side of a cluster: the local backend's numbers, and after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from rubric_core import Answer, JudgeResult
from rubric_judge import LexicalJudge
from rubric_judge.testing import ScriptedJudge
from rubric_train_openrlhf.cluster import judging
from rubric_train_openrlhf.cluster.judging import JudgeCoordinator
from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
from rubric_train_openrlhf.local.auditing import Audits
from rubric_train_openrlhf.local.rollout import JudgedGroup, background_judge
from rubric_train_openrlhf.policy.completion import Completion
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.step.audit import Auditor
from rubric_train_openrlhf.step.rewards import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_core import JudgeView, Task
    from rubric_train_openrlhf.config.train import TrainConfig

    MakeConfig = Callable[..., TrainConfig]

pytestmark = pytest.mark.anyio
SIZES = Sizes.of([[8] * 4] * 2, [[True] * 4] * 2)
WATCHED: dict[str, Any] = {
    "judge": {"spec": {"type": "lexical"}},
    "audit": {"spec": {"type": "claims"}, "start": 16, "training_frac": 0.5},
}


def by_length(view: JudgeView) -> float:
    return (len(view.response) % 7) / 7


@pytest.fixture
def audit_judge(monkeypatch: pytest.MonkeyPatch) -> ScriptedJudge:
    """An audit judge that disagrees with the other, in the place of the judge of claims."""
    judge = ScriptedJudge(by_length, name="audit")
    load = judging.load_replicas
    monkeypatch.setattr(
        judging,
        "load_replicas",
        lambda spec: (judge,) if spec.type == "claims" else load(spec),
    )
    return judge


def answers(number: int) -> list[Answer]:
    return [
        Answer(text)
        for text in (
            f"The function fn_{number} takes left_{number} and it returns something.",
            f"fn_{number} returns left_{number} returns returns left_{number}",
            f"The function fn_{number} takes left_{number} and no more.",
            "",
        )
    ]


async def judged(
    coordinator: JudgeCoordinator, tasks: Sequence[Task], numbers: Sequence[int]
) -> tuple[list[list[str]], list[list[Answer]]]:
    names: list[list[str]] = []
    for number in numbers:
        verdicts = [
            await coordinator.judge(tasks[number].task_id, answer)
            for answer in answers(number)
        ]
        names.append([verdict.judgement for verdict in verdicts])
    return names, [answers(number) for number in numbers]


async def test_audits_are_those_of_the_local_backend(
    make_config: MakeConfig,
    tasks: Sequence[Task],
    tmp_path: Path,
    audit_judge: ScriptedJudge,
) -> None:
    config = make_config(**WATCHED)
    coordinator = JudgeCoordinator(config)
    heldout = await judged(coordinator, tasks, [6, 7])
    reward = await coordinator.heldout(0, *heldout)
    for step in (1, 2, 3):
        names, written = await judged(coordinator, tasks, [step, step + 1])
        await coordinator.credit(step, names, SIZES)  # which forgets them
        watched = await coordinator.watch(step, names, written)
        assert watched.audit is not None
        assert watched.monitor["length"] > 0
    await coordinator.aclose()

    assert reward.audit is not None
    there = RunFolder(config.out).read_audit()
    local = config.model_copy(update={"out": tmp_path / "local"})
    local.out.mkdir()
    assert config.audit is not None
    with background_judge(audit_judge, config=config.audit) as background:
        audits = Audits(Auditor(local, RunFolder(local.out)), background)
        for row in there:
            numbers = [6, 7] if row.source == "heldout" else [row.step, row.step + 1]
            groups = [await judged_here(tasks[number], number) for number in numbers]
            audit = audits.start(
                row.source, row.step, groups, [tasks[number] for number in numbers]
            )
            assert audit is not None
            audits.finish(audit)
    here = RunFolder(local.out).read_audit()

    assert [row.step for row in there] == [0, 1, 2, 3]
    assert any(row.gap for row in there)
    assert here == there


async def judged_here(task: Task, number: int) -> JudgedGroup:
    judge = LexicalJudge()
    completions = tuple(Completion("", answer) for answer in answers(number))
    results: list[JudgeResult] = []
    for completion in completions:
        view = task.judge_view(completion.answer)
        if view.unanswered is None:
            results.append(await judge.judge(view))
        else:
            why = view.unanswered
            results.append(
                JudgeResult.without_answer(task.rubric, why, judge="lexical")
            )
    return JudgedGroup(
        task.policy_view(), cast("Any", None), completions, tuple(results)
    )


async def test_a_request_that_is_repeated_counts_once_also_after_a_restart(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    config = make_config(**WATCHED)
    coordinator = JudgeCoordinator(config)
    names, written = await judged(coordinator, tasks, [1, 2])
    first = await coordinator.watch(1, names, written)
    assert await coordinator.watch(1, names, written) == first
    await coordinator.aclose()
    again = JudgeCoordinator(config)
    assert await again.watch(1, names, written) == first
    later = await again.watch(2, names, written)
    await again.aclose()

    assert later.audit is not None
    assert [row.step for row in RunFolder(config.out).read_audit()] == [1, 2]


def test_the_policy_s_side_knows_what_an_alarm_does_and_not_who_audits(
    make_config: MakeConfig,
) -> None:
    plain = PolicyRun.of(make_config(), namespace="x")
    assert "watch" not in plain.model_dump()
    assert "best_by" not in plain.checkpoint.model_dump()
    watched = PolicyRun.of(make_config(**WATCHED), namespace="x")
    assert watched.watch == "log"
    assert "claims" not in watched.model_dump_json()
    assert PolicyRun.of(make_config(monitors=True), namespace="x").watch == "log"
