"""Judges that do what a test tells them to."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from rubric_core import JudgeResult, JudgeView, Outcome, Reason

Script = Callable[[JudgeView], JudgeResult | Mapping[str, float] | float]
"""Function from a view to a whole result, scores by criterion id, or one share of all weights."""


@dataclass(eq=False)
class ScriptedJudge:
    """Answers by a function of the view, and keeps what it was asked.

    >>> judge = ScriptedJudge(lambda view: 0.5 if "because" in view.response else 0.0)
    """

    script: Script | JudgeResult | Mapping[str, float] | float = 1.0
    """The answer, or a function that gives it; by default full marks."""
    _: KW_ONLY
    name: str = "scripted"
    """The judge's name in its results."""
    before: Callable[[JudgeView], Awaitable[None]] | None = None
    """Awaited at the start of every call, for tests that hold calls back."""
    calls: list[JudgeView] = field(default_factory=list[JudgeView], init=False)
    in_flight: int = field(default=0, init=False)
    peak_in_flight: int = field(default=0, init=False)

    def refuse_excerpt(self, view: JudgeView) -> str:
        """Return "": the function may look at a view's `excerpt`."""
        del view
        return ""

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Answer as scripted."""
        self.calls.append(view)
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        try:
            if self.before is not None:
                await self.before(view)
            answer = self.script(view) if callable(self.script) else self.script
        finally:
            self.in_flight -= 1
        if isinstance(answer, JudgeResult):
            return answer
        if isinstance(answer, Mapping):
            return JudgeResult.scored(view.rubric, dict(answer), judge=self.name)
        scores = {criterion.id: criterion.weight * answer for criterion in view.rubric}
        return JudgeResult.scored(view.rubric, scores, judge=self.name)


class FailingJudge:
    """Fails every call, with a reason or with an exception."""

    def __init__(self, failure: Reason | Exception = Reason.TIMEOUT) -> None:
        """Set the failure.

        Args:
            failure: a reason becomes an `invalid` or `unavailable` result, whichever it belongs
                to; an exception is raised, as no judge should.
        """
        self.name = "failing"
        self.calls = 0
        self._failure = failure

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Fail."""
        del view
        self.calls += 1
        if isinstance(self._failure, Exception):
            raise self._failure
        if self._failure.outcome is Outcome.UNAVAILABLE:
            return JudgeResult.unavailable(self._failure, judge=self.name)
        return JudgeResult.invalid(self._failure, judge=self.name)
