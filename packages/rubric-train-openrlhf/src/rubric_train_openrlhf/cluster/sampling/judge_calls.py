"""How the other processes of a run ask the judge's side, which may die and come back."""

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
from rubric_train_openrlhf.run.records import HeldoutReward
from rubric_train_openrlhf.step.credit import StepCredit
from rubric_train_openrlhf.step.rewards import Sizes

COORDINATOR = "rubric-judge"
"""The coordinator's name in the namespace of its run."""
PATIENCE_S = 300.0
"""How long a coordinator that died is waited for, from the first call that finds it dead: its
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
    """Call a method of the coordinator and wait for its answer, also through a restart.

    Args:
        method: such as `coordinator.credit`.
        args: its arguments. A call may be carried out twice; the coordinator's methods allow it.

    Raises:
        ClusterError: the coordinator stays away.
        Exception: whatever the method raises.
    """
    patience = _Deadline()
    while True:
        try:
            return ray.get(method.remote(*args))
        except RayTaskError as error:
            # Ray's error quotes the worker's stack; the cause is what was raised there.
            raise error.cause from None
        except RayActorError as error:
            if patience.ends(error):
                raise ClusterError(
                    f"the judge coordinator does not answer ({type(error).__name__}); see the "
                    "logs of the run and continue with --resume"
                ) from None
        time.sleep(_TRY_AGAIN_S)


async def verdict_of(coordinator: Any, task_id: str, answer: Answer) -> Verdict:
    """Have the answer in a response judged.

    Returns:
        The verdict; `unavailable` where the coordinator fails or stays away. Nothing is raised.
    """
    patience = _Deadline()
    while True:
        try:
            return await coordinator.judge.remote(task_id, answer)
        except RayActorError as error:
            if patience.ends(error):
                return _unreachable(task_id, Reason.CONNECTION, error)
        # The named boundary of the executor: a response without a verdict is masked, and the
        # share of those stops the run when it grows.
        except Exception as error:  # noqa: BLE001
            return _unreachable(task_id, Reason.JUDGE_ERROR, error)
        await asyncio.sleep(_TRY_AGAIN_S)


class _Deadline:
    """The deadline of one call, which runs only while the coordinator is away."""

    def __init__(self) -> None:
        self._gives_up_s: float | None = None

    def ends(self, error: RayActorError) -> bool:
        """Note that it is away; return whether it has ended or been away too long."""
        now_s = time.monotonic()
        if self._gives_up_s is None:
            self._gives_up_s = now_s + PATIENCE_S
        # It is started again for ever, unless the run was ended.
        return not isinstance(error, ActorUnavailableError) or now_s > self._gives_up_s


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
    """Hands over names of judgements and lengths, never a text.

    What was drawn for a step is remembered here: the coordinator may die in between.
    """

    coordinator: Any
    _step: int | None = None
    _drawn: list[list[str]] = field(default_factory=list[list[str]])

    def spread(self, step: int, groups: Sequence[Group]) -> list[bool]:
        """Whether the rewards of each group differ; once for every round of a step.

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
        """Divide the credit of a step between the groups that it is trained on.

        Raises:
            JudgeAbortError: too many judgements failed.
        """
        kept = {tuple(group.judgements) for group in groups}
        drawn = self._drawn if step == self._step else []
        dropped = [names for names in drawn if tuple(names) not in kept]
        return ask(self.coordinator.credit, step, *_columns(groups), dropped)

    def heldout(self, step: int, groups: Sequence[Group]) -> HeldoutReward:
        """Average the rewards of a held-out pass.

        Raises:
            JudgeAbortError: too many judgements failed.
        """
        return ask(
            self.coordinator.heldout, step, [group.judgements for group in groups]
        )


def _columns(groups: Sequence[Group]) -> tuple[list[list[str]], Sizes]:
    sizes = Sizes.of(
        [group.lengths for group in groups], [group.ended for group in groups]
    )
    return [group.judgements for group in groups], sizes
