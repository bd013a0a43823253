"""Calls of a judge: what each of them judges, and how one is made."""

import math
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from rubric_core import Judge, JudgeResult, JudgeView, Outcome, Reason, Usage
from rubric_core.judgement import call as judge_call
from rubric_judge import events
from rubric_judge.errors import EventLoopError
from rubric_judge.judges.capabilities import GroupJudge, check_group, group_identity
from rubric_judge.models.replicas import Replica

CallResults = tuple[JudgeResult, ...]
"""Results of a call: one for each judgement that it asks for."""


@dataclass(slots=True, eq=False)
class Hedge:
    """The second call for a straggler."""

    replica: Replica[Judge]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    results: CallResults | None = None
    """The results; None if it was cancelled."""


@dataclass(slots=True, eq=False)
class Wanted:
    """One judgement that is asked for."""

    positions: list[int]
    """Positions of its result; several if the same judgement is asked for more than once."""
    view: JudgeView
    key: str = ""
    """Its key in the ledger; "" without a ledger."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of a judge: for one judgement, or, of a `GroupJudge`, for a whole group."""

    wanted: Sequence[Wanted]
    """The judgements that it asks for: at least one, all of one task."""
    replica: Replica[Judge]
    """The replica that it is sent to; before that, any replica."""
    moves: int = 0
    """How often it was sent to another replica because one was not reached."""
    spent: int = 0
    """Attempts beyond the result's: on replicas not reached, and of a call that lost."""
    usage: Usage | None = None
    """Usage of those attempts, where it is known."""
    begun_s: float = 0.0
    """Time when it was first sent; 0 before."""
    started_s: float = 0.0
    """Time when it was last sent."""
    answer: CallResults | None = None
    """The first usable answer."""
    first: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    second: Hedge | None = None

    @property
    def task_id(self) -> str:
        """The task of all its judgements."""
        return self.wanted[0].view.task_id

    def add_spent(self, results: CallResults | None) -> None:
        """Count attempts whose results are not used; None of a call that was cancelled."""
        if results is None:
            self.spent += 1
            return
        self.spent += sum(result.attempts for result in results)
        for result in results:
            if result.usage is not None:
                self.usage = result.usage.plus(self.usage)

    def with_spent(self, results: CallResults) -> CallResults:
        """Return the results, with the unused attempts added to the first of them."""
        if not self.spent:
            return results
        first, *others = results
        usage = self.usage if first.usage is None else first.usage.plus(self.usage)
        attempts = first.attempts + self.spent
        return first.with_call(attempts=attempts, usage=usage), *others


Key = Callable[[JudgeView, str], str]
"""Function from a view and the identity of the group that it is judged in to the ledger's key."""


def wanted_of(
    views: Sequence[JudgeView], judge: Judge, *, key: Key | None, among: Sequence[int]
) -> list[list[Wanted]]:
    """Divide views into calls.

    Args:
        views: the views, in any order.
        judge: the judge; for a `GroupJudge` the views of a task are one call, in which equal
            responses are shown once.
        key: the ledger's function; without it, a judge of single responses judges each view.
        among: positions of the views that are to be judged.

    Returns:
        The judgements of each call. With a key, equal judgements are asked for once.

    Raises:
        JudgeSetupError: a group is larger than the judge allows.
    """
    if isinstance(judge, GroupJudge):
        return _groups(views, judge, key=key, among=among)
    if key is None:
        return [[Wanted([position], views[position])] for position in among]
    by_key: dict[str, Wanted] = {}
    for position in among:
        view = views[position]
        name = key(view, "")
        by_key.setdefault(name, Wanted([], view, name)).positions.append(position)
    return [[wanted] for wanted in by_key.values()]


def _groups(
    views: Sequence[JudgeView],
    judge: GroupJudge,
    *,
    key: Key | None,
    among: Sequence[int],
) -> list[list[Wanted]]:
    groups: dict[object, dict[str, Wanted]] = {}
    for position in among:
        view = views[position]
        shared = (view.task_id, view.question, view.grounding, view.rubric)
        group = groups.setdefault(shared, {})
        group.setdefault(view.identity, Wanted([], view)).positions.append(position)
    for group in groups.values():
        check_group(judge, [wanted.view for wanted in group.values()])
        if key is not None:
            identity = group_identity(group)
            for wanted in group.values():
                wanted.key = key(wanted.view, identity)
    return [list(group.values()) for group in groups.values()]


async def ask_for(judge: Judge, views: Sequence[JudgeView]) -> CallResults:
    """Make one call of a judge.

    Args:
        judge: the judge; a `GroupJudge` where there are several views.
        views: the views that it judges.

    Returns:
        A result for each view. If the judge raises, or does not return one valid result for each
        view, with scores of its rubric and one outcome (of a judge that `fails_apart`, any), they
        are `unavailable` with reason `judge_error`; if it cancels itself, they are `cancelled`.

    Raises:
        SystemExit, KeyboardInterrupt: the judge asked for the program to end, in the main thread.
        EventLoopError: the judge is in use on another event loop.

    Cancellation from outside of the judge passes through.
    """
    try:
        # An `isinstance` check of `GroupJudge` took a thirtieth of a judgement.
        ask_group = getattr(judge, "judge_group", None)
        if ask_group:
            answers = await ask_group(views)
        else:
            answers = [await judge.judge(views[0])]
        # An instance passes through; anything else that a plugin may return is an error.
        results = tuple(map(JudgeResult.model_validate, answers))
        _check_results(views, results, apart=getattr(judge, "fails_apart", False))
    except anyio.get_cancelled_exc_class():
        # A library below the judge may cancel its own task and raise that. Only if the call itself
        # is being cancelled has the deadline passed for good.
        if anyio.current_effective_deadline() == -math.inf:
            raise
        return without_answer(
            len(views),
            Reason.CANCELLED,
            judge=judge.name,
            detail="the judge cancelled its own call",
        )
    # The first is the caller's mistake; the second does not concern this call.
    except (EventLoopError, GeneratorExit):
        raise
    # The boundary for judges: a judge that breaks its promise not to raise costs its own judgement,
    # not the step. The message may hold a text, so only the type and place are logged.
    except BaseException as error:
        # Ctrl-C reaches only the main thread: in another, both were raised by the judge itself.
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and isinstance(error, SystemExit | KeyboardInterrupt):
            raise
        kind = type(error).__name__
        task_id = views[0].task_id
        where = innermost(traceback.extract_tb(error.__traceback__))
        events.unexpected_exception(
            judge=judge.name, task_id=task_id, error=kind, where=where
        )
        return without_answer(
            len(views),
            Reason.JUDGE_ERROR,
            judge=judge.name,
            detail=f"the judge raised {kind}",
        )
    return results


def _check_results(
    views: Sequence[JudgeView], results: CallResults, *, apart: bool
) -> None:
    for view, result in zip(views, results, strict=True):
        if result.outcome is Outcome.SCORED:
            view.rubric.check_scores(result.scores)
    if not apart and len({result.outcome for result in results}) != 1:
        raise ValueError("the results of one call have several outcomes")


def without_answer(
    count: int, reason: Reason, *, judge: str, detail: str, attempts: int = 1
) -> CallResults:
    """Return the results of a call without an answer; its attempts are counted once."""
    result = JudgeResult.unavailable(reason, judge=judge, detail=detail)
    shares = judge_call.call_shares(judge_call.Call(attempts=attempts), count)
    return tuple(result.with_call(**share) for share in shares)


def innermost(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return file and line of the innermost frame."""
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
