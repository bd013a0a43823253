"""The trainer's view of a coordinator that is a class here, and not behind Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from anyio.from_thread import start_blocking_portal

from rubric_core import Answer, Reason
from rubric_train_openrlhf.cluster.judging import JudgeCoordinator
from rubric_train_openrlhf.cluster.sampling.samples import (
    Group,
    JudgementId,
    Prompt,
    Sample,
)
from rubric_train_openrlhf.policy.completion import Completion

pytest.importorskip("ray")
from rubric_train_openrlhf.cluster.sampling import judge_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anyio.from_thread import BlockingPortal

    from rubric_core import Task
    from rubric_train_openrlhf.config.train import TrainConfig


@pytest.fixture
def portal(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        monkeypatch.setattr(judge_calls, "ask", portal.call)
        yield portal


def group(task: Task, judgements: Sequence[str]) -> Group:
    samples = tuple(
        Sample(
            None,
            JudgementId.read(name),
            Completion("", Answer("")),
            tokens=8,
            ended=True,
        )
        for name in judgements
    )
    return Group(Prompt(task.question, task.task_id, task.question), samples)


def test_the_rounds_of_a_step_are_counted_together_also_by_a_coordinator_that_started_again(
    make_config: Callable[..., TrainConfig],
    tasks: Sequence[Task],
    portal: BlockingPortal,
) -> None:
    config = make_config(judge={"max_unavailable_frac": 0.3})
    first, second = JudgeCoordinator(config), JudgeCoordinator(config)

    def judged(number: int, *responses: str) -> list[str]:
        task_id = tasks[number].task_id
        return [portal.call(first.judge, task_id, one).judgement for one in responses]

    kept = group(tasks[0], judged(0, "The function fn_0 adds.", *["Nobody knows."] * 3))
    flat = group(tasks[1], judged(1, *["Nobody knows."] * 4))
    lost = [JudgementId.failed(tasks[2].task_id, Reason.TIMEOUT).text] * 2
    late = group(
        tasks[2], [*judged(2, "The function fn_2 adds.", "Nobody knows."), *lost]
    )

    coordinator = judge_calls.CoordinatorClient(first)
    assert coordinator.spread(1, [kept, flat]) == [True, False]
    assert coordinator.spread(1, [late]) == [True]
    portal.call(first.aclose)
    coordinator = _moved(coordinator, second)
    credit = coordinator.credit(1, [kept, late])

    assert credit.figures.unavailable_frac == 2 / 12
    assert credit.figures.degenerate_group_frac == pytest.approx(1 / 3)
    assert coordinator.spread(2, [kept]) == [True]
    assert coordinator.credit(2, [kept]).figures.degenerate_group_frac == 0.0
    portal.call(second.aclose)


def _moved(
    coordinator: judge_calls.CoordinatorClient, to: JudgeCoordinator
) -> judge_calls.CoordinatorClient:
    """Ray's handle stays the same when the process behind it is another one."""
    coordinator._coordinator = to
    return coordinator
