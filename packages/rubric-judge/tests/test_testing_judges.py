from collections.abc import Callable

import pytest

from rubric_core import Judge, JudgeResult, JudgeView, Outcome, Reason, SchemaError
from rubric_judge.testing import FailingJudge, ScriptedJudge

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio


async def test_a_scripted_judge_answers_with_shares_scores_or_whole_results(
    make_view: ViewFactory,
) -> None:
    view = make_view()
    assert (await ScriptedJudge(0.5).judge(view)).scores == {
        "names the loss": 1,
        "gives_limit": 0.5,
    }
    given = {"names the loss": 2.0, "gives_limit": 0.0}
    assert (await ScriptedJudge(given).judge(view)).scores == given
    whole = JudgeResult.invalid(Reason.REFUSED)
    assert await ScriptedJudge(lambda _: whole).judge(view) is whole


async def test_a_scripted_judge_keeps_what_it_was_asked(make_view: ViewFactory) -> None:
    judge = ScriptedJudge()
    views = [make_view("one"), make_view("two")]
    for view in views:
        await judge.judge(view)
    assert judge.calls == views
    assert judge.peak_in_flight == 1


async def test_a_script_cannot_award_more_than_the_weight(
    make_view: ViewFactory,
) -> None:
    with pytest.raises(SchemaError):
        await ScriptedJudge(1.5).judge(make_view())


async def test_a_failing_judge_fails_with_the_outcome_of_its_reason(
    make_view: ViewFactory,
) -> None:
    unavailable = await FailingJudge(Reason.CONNECTION).judge(make_view())
    assert (unavailable.outcome, unavailable.reason) == (
        Outcome.UNAVAILABLE,
        Reason.CONNECTION,
    )
    invalid = await FailingJudge(Reason.NOT_JSON).judge(make_view())
    assert (invalid.outcome, invalid.reason) == (Outcome.INVALID, Reason.NOT_JSON)


def test_the_doubles_are_judges() -> None:
    assert isinstance(ScriptedJudge(), Judge)
    assert isinstance(FailingJudge(), Judge)
