"""Calls of a run's other processes to the judge's side, which may die and restart."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
import structlog
from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

from rubric_core import Answer, Reason
from rubric_train_openrlhf.cluster.sampling.samples import Group, Verdict
from rubric_train_openrlhf.errors import ClusterError
from rubric_train_openrlhf.run.records import HeldoutReward, Watched
from rubric_train_openrlhf.step.credit import StepCredit
from rubric_train_openrlhf.step.rewards import Sizes

COORDINATOR = "rubric-judge"
"""The coordinator's name in the namespace of its run."""
PATIENCE_S = 300.0
"""How long to wait for a dead coordinator to return, from the first call that finds it dead: its
process imports, reads the tasks and starts the judge's actors again."""
_TRY_AGAIN_S = 1.0

_log = structlog.get_logger()


def find_coordinator(namespace: str) -> Any:
    """Find the coordinator of a run.

    Raises:
        ClusterError: there is none.
    """
    try:
        return ray.get_actor(COORDINATOR, namespace=namespace)
    except ValueError as error:
        raise ClusterError(
            f"no judge coordinator in Ray's namespace {namespace!r}: it has ended for good; "
            "see the logs of the run"
        ) from error


def ask(method: Any, *args: object) -> Any:
    """Call a method of the coordinator and wait for its answer, even across a restart.

    Args:
        method: such as `coordinator.credit`.
        args: its arguments. A call may be carried out twice; the coordinator's methods allow it.

    Raises:
        ClusterError: the coordinator did not come back.
        Exception: whatever the method raises.
    """
    deadline = _Deadline()
    while True:
        try:
            return ray.get(method.remote(*args))
        except RayTaskError as error:
            # Ray's error quotes the worker's stack; the cause is what was raised there.
            raise error.cause from None
        except RayActorError as error:
            deadline.note_failure(error)
            if deadline.is_over:
                raise ClusterError(
                    f"the judge coordinator does not answer ({type(error).__name__}); see the "
                    "logs of the run and continue with --resume"
                ) from None
        time.sleep(_TRY_AGAIN_S)


async def verdict_of(coordinator: Any, task_id: str, answer: Answer) -> Verdict:
    """Have the answer in a response judged.

    Returns:
        The verdict; `unavailable` where the coordinator fails or does not come back. Nothing is
        raised.
    """
    deadline = _Deadline()
    while True:
        try:
            return await coordinator.judge.remote(task_id, answer)
        except RayActorError as error:
            deadline.note_failure(error)
            if deadline.is_over:
                return _unreachable(task_id, Reason.CONNECTION, error)
        # The coordinator runs third-party judges: any error masks this response only. The run stops
        # when the share of masked responses grows too large.
        except Exception as error:  # noqa: BLE001
            return _unreachable(task_id, Reason.JUDGE_ERROR, error)
        await asyncio.sleep(_TRY_AGAIN_S)


class _Deadline:
    """The deadline of one call, which runs only while the coordinator is away."""

    def __init__(self) -> None:
        self._gives_up_s: float | None = None
        self.is_over = False
        """Whether the coordinator has ended for good or been away too long."""

    def note_failure(self, error: RayActorError) -> None:
        """Note that the coordinator did not answer a call."""
        now_s = time.monotonic()
        if self._gives_up_s is None:
            self._gives_up_s = now_s + PATIENCE_S
        # Ray restarts it without limit, unless the run was ended.
        has_ended = not isinstance(error, ActorUnavailableError)
        self.is_over = has_ended or now_s > self._gives_up_s


def _unreachable(task_id: str, reason: Reason, error: Exception) -> Verdict:
    cause = getattr(error, "cause", None) or error
    _log.warning(
        "cluster.judge.unreachable",
        task_id=task_id,
        reason=reason.value,
        error=type(cause).__name__,
    )
    return Verdict.unreachable(task_id, reason)


@dataclass
class CoordinatorClient:
    """Sends judgement ids and lengths to the coordinator, and answers to be audited or monitored.

    What was drawn for a step is remembered here, because the coordinator may die in between.
    """

    coordinator: Any
    _step: int | None = None
    _drawn: list[list[str]] = field(default_factory=list[list[str]])

    def spread(self, step: int, groups: Sequence[Group]) -> list[bool]:
        """Return whether the rewards of each group differ; called once per round of a step.

        Raises:
            JudgeAbortError: too many judgements of the step failed so far.
        """
        if step != self._step:
            self._step = step
            self._drawn = []
        differs = ask(self.coordinator.spread, step, *_columns(groups), self._drawn)
        self._drawn += [group.judgements for group in groups]
        return differs

    def credit(self, step: int, groups: Sequence[Group]) -> StepCredit:
        """Return the advantages of the groups a step trains on.

        Raises:
            JudgeAbortError: too many judgements failed.
        """
        kept = {tuple(group.judgements) for group in groups}
        drawn = self._drawn if step == self._step else []
        dropped = [names for names in drawn if tuple(names) not in kept]
        return ask(self.coordinator.credit, step, *_columns(groups), dropped)

    def watch(self, step: int, groups: Sequence[Group]) -> Watched:
        """Return what audits and monitors say of the groups a step trains on."""
        return ask(self.coordinator.watch, step, _names(groups), _answers(groups))

    def heldout(
        self, step: int, groups: Sequence[Group], *, watch: bool = False
    ) -> HeldoutReward:
        """Average the rewards of a held-out pass.

        Args:
            step: that the pass comes after.
            groups: of the pass.
            watch: whether the judge's side wants the answers too.

        Raises:
            JudgeAbortError: too many judgements failed.
        """
        answers = (_answers(groups),) if watch else ()
        return ask(self.coordinator.heldout, step, _names(groups), *answers)


def _names(groups: Sequence[Group]) -> list[list[str]]:
    return [group.judgements for group in groups]


def _answers(groups: Sequence[Group]) -> list[list[Answer]]:
    return [[sample.completion.answer for sample in group.samples] for group in groups]


def _columns(groups: Sequence[Group]) -> tuple[list[list[str]], Sizes]:
    sizes = Sizes.of(
        [group.lengths for group in groups], [group.ended for group in groups]
    )
    return _names(groups), sizes
