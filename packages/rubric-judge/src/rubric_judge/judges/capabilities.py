"""Optional abilities of judges beyond `Judge`, and the defaults for judges without them."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from rubric_core import Judge, JudgeResult, JudgeView, Reason
from rubric_core.schema.judged import TOOL_USE
from rubric_judge.errors import JudgeSetupError


@runtime_checkable
class Fingerprinted(Protocol):
    """A judge whose scores depend on more than its name says."""

    @property
    def fingerprint(self) -> str:
        """Changes with everything that may change a score: model, prompt, parameters; no key."""
        ...


@runtime_checkable
class Warming(Protocol):
    """A judge behind an endpoint with a prefix cache."""

    @property
    def warm_call(self) -> bool:
        """Whether the cache is filled only when a call ends, so that a group's first goes alone."""
        ...


@runtime_checkable
class GroupJudge(Protocol):
    """A judge that scores the responses to a task beside each other: a score depends on them all.

    It is a `Judge` too; asked for one response alone, it judges a group of one.
    """

    @property
    def max_group(self) -> int:
        """Most different responses that one call takes."""
        ...

    async def judge_group(self, views: Sequence[JudgeView]) -> list[JudgeResult]:
        """Score different responses to one task in one call.

        Args:
            views: as `check_group` lets them through, in any order; the scores must not follow it.

        Returns:
            One result for each view, in their order: all scored, or all with one failure. What the
            call took is divided among them, by `rubric_core.judgement.call.call_shares`. A judge
            that asks about each response in calls of its own may give each its own outcome: it says
            so by an attribute `fails_apart` that is true.

        Never raises for what a model or a network does. Cancellation passes through.
        """
        ...


@runtime_checkable
class Immediate(Protocol):
    """A judge that answers in the thread that asks it: a program, cheaper to run than to wait for.

    What it answers is not worth keeping: it gives the same again, and nobody else is asked.
    """

    def judge_now(self, view: JudgeView) -> JudgeResult:
        """Return the result of `Judge.judge`, without an event loop."""
        ...


@runtime_checkable
class WordMatching(Protocol):
    """A judge that looks for a criterion's words in a response."""

    @property
    def name(self) -> str:
        """The judge's name, as in its results."""
        ...

    @property
    def reads_claims(self) -> bool:
        """Whether it holds a response to the claim of a criterion that states one."""
        ...


@runtime_checkable
class ReadsExcerpts(Protocol):
    """A judge that can judge a part of a trace; others are not given any."""

    def refuse_excerpt(self, view: JudgeView) -> str:
        """Return why it cannot judge the view's excerpt; "" where it can."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A judge that keeps connections or processes."""

    async def aclose(self) -> None:
        """Let go of them; the judge is not called again."""
        ...


@runtime_checkable
class Checking(Protocol):
    """A judge that can say whether its endpoint is there."""

    async def check(self) -> None:
        """Ask it, within seconds.

        Raises:
            JudgeSetupError: it is not; says what to do.
        """
        ...


async def check(judge: Judge) -> None:
    """Check a judge that can be checked; see `Checking.check`."""
    if isinstance(judge, Checking):
        await judge.check()


def fingerprint(judge: Judge) -> str:
    """Return what identifies a judge's scores: its fingerprint, or else its name."""
    return judge.fingerprint if isinstance(judge, Fingerprinted) else judge.name


def group_identity(responses: Iterable[str]) -> str:
    """Return 64 hex digits from the responses of a group, in whatever order they come."""
    hashes = sorted(
        hashlib.sha256(response.encode()).digest() for response in responses
    )
    return hashlib.sha256(b"".join(hashes)).hexdigest()


def check_group(judge: GroupJudge, views: Sequence[JudgeView]) -> None:
    """Refuse a group that cannot be judged in one call.

    Raises:
        JudgeSetupError: it has more responses than the judge takes.
        ValueError: there is no view, or they are of several tasks, or have a response twice.
    """
    tasks = {
        (view.task_id, view.question, view.grounding, view.rubric) for view in views
    }
    if len(tasks) != 1 or len({view.identity for view in views}) < len(views):
        raise ValueError(
            f"{len(views)} views of {len(tasks)} tasks: give different responses to one task"
        )
    if len(views) > judge.max_group:
        raise JudgeSetupError(
            f"task {views[0].task_id!r} has {len(views)} different responses to judge "
            f"together, and max_group is {judge.max_group}: raise max_group as far as the "
            "context of the judge's model goes, or hand over fewer responses to a task at "
            "once"
        )


def refuse_groups(judge: Judge, *, by: str) -> None:
    """Refuse a `GroupJudge` where responses are not judged beside the others of their task.

    Args:
        judge: any judge.
        by: what judges them.

    Raises:
        JudgeSetupError: it is one.
    """
    if isinstance(judge, GroupJudge):
        raise JudgeSetupError(
            f"the judge {judge.name!r} scores the responses to a task beside each other, and "
            f"{by}: give a judge of single responses, such as `type: llm`"
        )


def excerpt_refusal(judge: Judge, view: JudgeView) -> str:
    """Return why a judge cannot judge a view with an excerpt of a trace; "" where it can."""
    if isinstance(judge, ReadsExcerpts):
        return judge.refuse_excerpt(view)
    return f"the judge {judge.name!r} judges single responses, without turns and tools"


def refuse_tool_use(judge: Judge, view: JudgeView) -> str:
    """Return why a judge that reads text alone cannot judge an excerpt; "" where it can."""
    if view.excerpt is None or view.excerpt.judges != TOOL_USE:
        return ""
    return f"the judge {judge.name!r} reads what a policy writes, and no calls of tools"


def no_judgement(judge: Judge, detail: str) -> JudgeResult:
    """Return the result of what a judge cannot judge, or has failed to."""
    return JudgeResult.unavailable(Reason.JUDGE_ERROR, judge=judge.name, detail=detail)


def require_excerpts(judge: Judge, views: Sequence[JudgeView]) -> None:
    """Refuse views of traces that a judge cannot judge, before anything is asked.

    Raises:
        JudgeSetupError: there is one; names the part of the trace, a criterion and the judge.
    """
    for view in views:
        if view.excerpt is None:
            continue
        problem = excerpt_refusal(judge, view)
        if problem:
            raise JudgeSetupError(
                f"criterion {view.rubric.ids[0]!r} of task {view.task_id!r} judges "
                f"{view.excerpt.judges!r}, and {problem}: judge it by `type: llm`, or let the "
                "criterion judge the last reply"
            )


def reads_claims(judge: object) -> bool:
    """Return whether a judge holds responses to the claims that criteria state."""
    return isinstance(judge, WordMatching) and judge.reads_claims


def wants_warm_call(judge: Judge) -> bool:
    """Return whether the first response of a group should be judged before the others."""
    return isinstance(judge, Warming) and judge.warm_call


async def close(judge: Judge) -> None:
    """Close a judge that keeps something open."""
    if isinstance(judge, Closing):
        await judge.aclose()
