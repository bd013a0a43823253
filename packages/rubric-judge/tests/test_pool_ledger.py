from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_core import JudgeResult, JudgeView, Outcome, Reason, Usage
from rubric_judge import JudgePool, Ledger
from rubric_judge.testing import ScriptedJudge

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio


def _scored(view: JudgeView) -> JudgeResult:
    scores = dict.fromkeys(view.rubric.ids, 0.5)
    result = JudgeResult.scored(view.rubric, scores, judge="scripted")
    return result.with_call(
        usage=Usage(prompt_tokens=10, completion_tokens=2), attempts=1
    )


async def test_what_a_ledger_holds_is_not_asked_for_again(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    def script(view: JudgeView) -> JudgeResult:
        if view.response == "unavailable":
            return JudgeResult.unavailable(Reason.TIMEOUT)
        if view.response == "invalid":
            return JudgeResult.invalid(Reason.NOT_JSON)
        return _scored(view)

    views = [make_view(text) for text in ("a", "unavailable", "invalid", "b")]
    with Ledger(tmp_path / "judgements.db") as ledger:
        before = await JudgePool(ScriptedJudge(script), ledger=ledger).judge_all(views)
    judge = ScriptedJudge(_scored)
    seen: list[int] = []
    with Ledger(tmp_path / "judgements.db") as ledger:
        pool = JudgePool(judge, ledger=ledger)
        after = await pool.judge_all(
            views, on_result=lambda position, _: seen.append(position)
        )
        again = await pool.judge_all(views)
        replicate = await pool.judge_all(views, replicate=1)
    assert [view.response for view in judge.calls[:1]] == ["unavailable"]
    assert after[0] == before[0]
    assert (after[2], after[3]) == (before[2], before[3])
    assert after[1].outcome is Outcome.SCORED
    assert again == after
    assert sorted(seen) == [0, 1, 2, 3]
    assert len(judge.calls) == 1 + 4
    assert {result.outcome for result in replicate} == {Outcome.SCORED}
    statistics = pool.statistics()
    assert (statistics.done, statistics.from_ledger) == (12, 7)
    assert statistics.usage == Usage(
        prompt_tokens=50, completion_tokens=10
    )  # of the five calls
    assert statistics.attempts == 5


async def test_the_same_twice_is_asked_for_once_where_there_is_a_ledger(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    views = [make_view(text) for text in ("a", "b", "a", "a")]
    with Ledger(tmp_path / "judgements.db") as ledger:
        judge = ScriptedJudge(_scored)
        pool = JudgePool(judge, ledger=ledger)
        results = await pool.judge_all(views)
        assert len(list(ledger.entries())) == 2
    assert len(judge.calls) == 2
    assert results[0] == results[2] == results[3]
    assert (pool.statistics().done, pool.statistics().attempts) == (4, 2)
    without = ScriptedJudge(_scored)
    await JudgePool(without).judge_all(views)
    assert len(without.calls) == 4


async def test_what_a_deadline_cut_off_is_asked_for_on_the_next_run(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    import anyio

    async def wait(view: JudgeView) -> None:
        if view.response == "slow":
            await anyio.sleep_forever()

    views = [make_view("quick"), make_view("slow")]
    with Ledger(tmp_path / "judgements.db") as ledger:
        first = await JudgePool(ScriptedJudge(before=wait), ledger=ledger).judge_all(
            views, deadline_s=0.05
        )
        judge = ScriptedJudge()
        second = await JudgePool(judge, ledger=ledger).judge_all(views)
    assert [result.reason for result in first] == [None, Reason.TIMEOUT]
    assert [view.response for view in judge.calls] == ["slow"]
    assert {result.outcome for result in second} == {Outcome.SCORED}
