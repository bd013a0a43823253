"""One pool in a process, whoever calls it from wherever, and one answer to every outcome."""

import asyncio
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from rubric_core import (
    ConfigError,
    Criterion,
    CriterionKind,
    Grounding,
    Judge,
    JudgeResult,
    JudgeView,
    MissingExtraError,
    Reason,
    Rubric,
    Task,
    UnavailableRewardError,
)
from rubric_judge import JudgeConfig, JudgeSetupError, LexicalConfig, LexicalJudge
from rubric_judge.adapters.scoring import (
    RubricScorer,
    Submission,
    shared_scorer,
    stack_module,
)
from rubric_judge.errors import JudgeContractError, LedgerError
from rubric_judge.testing import FailingJudge, FakeEndpoint, Fault, ScriptedJudge

SCORES = {"loss": 3.0, "target": 0.0}


def _mixed(judge: Callable[[JudgeView], object]) -> Judge:
    """A judge that fails for the reasons that `judge` returns, and scores else."""

    class Mixed(ScriptedJudge):
        async def judge(self, view: JudgeView):  # noqa: ANN202
            found = judge(view)
            if isinstance(found, Reason):
                return await FailingJudge(found).judge(view)
            return await super().judge(view)

    return Mixed(SCORES)


def submissions(tasks: dict[str, Task], *responses: str) -> list[Submission]:
    first = next(iter(tasks))
    return [Submission({"task_id": first}, response) for response in responses]


def test_a_stack_without_a_place_for_records_refuses_them(
    tasks: dict[str, Task], judge_file: str
) -> None:
    with pytest.raises(
        ConfigError, match="log_judgements: this stack's log has no place"
    ):
        RubricScorer(judge=LexicalJudge(), tasks=tasks, log_judgements=True)
    scorer = RubricScorer(
        judge=judge_file, tasks=tasks, log_judgements=True, can_log=True
    )

    (judgement,) = pickle.loads(pickle.dumps(scorer)).judge_from_thread(
        submissions(tasks, "It is the cross entropy.")
    )

    assert list(judgement.log_entry) == ["rubric/judgement"]


def test_each_outcome_has_its_reward_and_its_metrics(tasks: dict[str, Task]) -> None:
    def judge(view: JudgeView) -> object:
        failing = {"invalid": Reason.NOT_JSON, "unavailable": Reason.TIMEOUT}
        return failing.get(view.response, {"loss": 3.0, "target": 0.0})

    scorer = RubricScorer(judge=_mixed(judge), tasks=tasks)

    scored, invalid, lost = scorer.judge_from_thread(
        submissions(tasks, "fine", "invalid", "unavailable")
    )

    assert [one.reward for one in (scored, invalid, lost)] == [0.75, 0.0, None]
    thoughts = dict.fromkeys(("thought", "unclosed_thought", "empty_answer"), 0.0)
    nothing = {
        f"rubric/{name}": 0.0 for name in ("score", "invalid", "unavailable", *thoughts)
    }
    assert scored.metrics == {**nothing, "rubric/score": 0.75}
    assert scored.criteria == {"rubric/loss": 1.0, "rubric/target": 0.0}
    assert invalid.metrics | {"rubric/invalid": 1.0} == invalid.metrics
    assert lost.metrics == {**nothing, "rubric/unavailable": 1.0}
    assert invalid.criteria == lost.criteria == {}


def test_a_criterion_without_weight_has_no_metric(tasks: dict[str, Task]) -> None:
    _, second = tasks
    scorer = RubricScorer(judge=ScriptedJudge(), tasks=tasks)

    (judgement,) = scorer.judge_from_thread([Submission({"task_id": second}, "y")])

    assert judgement.criteria == {"rubric/optimiser": 1.0}


def test_a_criterion_cannot_take_the_name_of_a_metric() -> None:
    rubric = [{"id": "score", "weight": 1.0}, {"id": "depth", "weight": 3.0}]
    scorer = RubricScorer(judge=ScriptedJudge({"score": 1.0, "depth": 0.0}))

    (judgement,) = scorer.judge_from_thread([Submission({"rubric": rubric}, "y")])

    assert judgement.metrics["rubric/score"] == 0.25
    assert judgement.by_id == {"rubric/depth": 0.0}
    assert judgement.criteria == {
        "rubric/kind.none": 0.5
    }  # of rows without tasks, ids may be any


def test_ids_that_do_not_repeat_are_one_metric_a_kind() -> None:
    kinds = CriterionKind.CAUSE, CriterionKind.LIMIT
    tasks = [
        Task(
            question=f"Question {p}?",
            grounding=Grounding("A passage."),
            rubric=Rubric(
                criteria=tuple(
                    Criterion(id=f"free_{p}_{m}", weight=1, kind=kinds[m // 2])
                    for m in range(3)
                )
            ),
        )
        for p in range(140)
    ]

    def scores(view: JudgeView) -> dict[str, float]:
        return {one.id: float(place == 0) for place, one in enumerate(view.rubric)}

    scorer = RubricScorer(judge=ScriptedJudge(scores), tasks=tasks)
    judged = scorer.judge_from_thread(
        [Submission({"task_id": one.task_id}, "y") for one in tasks]
    )

    assert {name for one in judged for name in one.criteria} == {
        "rubric/kind.cause", "rubric/kind.limit"
    }  # fmt: skip
    assert judged[0].criteria == {"rubric/kind.cause": 0.5, "rubric/kind.limit": 0.0}
    assert len({name for one in judged for name in one.by_id}) == 420


def test_tasks_that_can_be_gone_through_once_reach_a_copy_too(
    judge_file: str, tasks: dict[str, Task]
) -> None:
    scorer = RubricScorer(judge=judge_file, tasks=iter(tasks.values()))

    copy = pickle.loads(pickle.dumps(scorer))

    assert len(copy.judge_from_thread(submissions(tasks, "y"))) == 1


def test_an_outage_is_told_once_for_each_reason_and_so_is_its_end(
    tasks: dict[str, Task],
) -> None:
    def script(view: JudgeView) -> JudgeResult | float:
        if view.response in {"auth", "timeout"}:
            return JudgeResult.unavailable(
                Reason(view.response), detail=f"a {view.response}"
            )
        return 0.5

    scorer = RubricScorer(judge=ScriptedJudge(script), tasks=tasks)

    def told(*responses: str) -> list[dict[str, object]]:
        with capture_logs() as logs:
            scorer.judge_from_thread(submissions(tasks, *responses))
        known = {"lost", "of", "reason", "detail", "missing"}
        return [{key: log[key] for key in log.keys() & known} for log in logs]

    assert told("a", "b") == []
    auth = {"reason": "auth", "detail": "a auth"}
    assert told("auth", "a", "auth") == [{"lost": 2, "of": 3, **auth}]
    timeout = {"lost": 1, "of": 3, "reason": "timeout", "detail": "a timeout"}
    assert told("auth", "a", "timeout") == [timeout]
    assert told(*"abcdefg") == told("auth") == told(*"abcdefg") == []
    assert told("h") == [{"missing": 5}]
    assert told("auth") == [{"lost": 1, "of": 1, **auth}]
    assert told(*"abcdefghijklmno") == []
    assert told("p") == [{"missing": 1}]


def test_a_judge_that_stops_keeping_to_its_contract_is_told_of_as_an_outage_is(
    tasks: dict[str, Task],
) -> None:
    def judge(view: JudgeView) -> object:
        return {"a": Reason.NOT_JSON, "b": Reason.TRUNCATED}.get(
            view.response[0], SCORES
        )

    scorer = RubricScorer(judge=_mixed(judge), tasks=tasks)

    def told(*responses: str) -> list[tuple[str, object, object]]:
        with capture_logs() as logs:
            scorer.judge_from_thread(submissions(tasks, *responses))
        return [(one["event"], one.get("reason"), one["invalid"]) for one in logs]

    assert told("fine", "a1", "a2") == [("judge.reward.invalid", "not_json", 2)]
    assert told("a3", "b1") == [("judge.reward.invalid", "truncated", 1)]
    assert told("a4", *(f"fine {n}" for n in range(7))) == []
    assert told(*(f"fine {n}" for n in range(8))) == [("judge.reward.valid", None, 5)]
    assert told("a5") == [("judge.reward.invalid", "not_json", 1)]


def test_a_judge_that_breaks_its_contract_for_good_ends_the_training(
    tasks: dict[str, Task],
) -> None:
    def judge(view: JudgeView) -> object:
        return Reason.NOT_JSON if view.response.startswith("bad") else SCORES

    half = [f"fine {n}" for n in range(256)] + [f"bad {n}" for n in range(256)]
    scorer = RubricScorer(judge=_mixed(judge), tasks=tasks)
    scorer.judge_from_thread(submissions(tasks, *half))
    with pytest.raises(
        JudgeContractError, match=r"257 of the last 512.*max_invalid_frac=0\.5"
    ):
        scorer.judge_from_thread(submissions(tasks, "bad again"))
    patient = RubricScorer(judge=_mixed(judge), tasks=tasks, max_invalid_frac=1.0)
    patient.judge_from_thread(submissions(tasks, *(f"bad {n}" for n in range(600))))


@pytest.mark.parametrize(
    "failure", [Reason.TIMEOUT, RuntimeError("the passage says so")]
)
def test_the_policy_decides_what_a_missing_judgement_is(
    failure: Reason | Exception, tasks: dict[str, Task]
) -> None:
    def rewards(policy: str) -> list[float | None]:
        scorer = RubricScorer(
            judge=FailingJudge(failure), tasks=tasks, on_unavailable=policy
        )  # pyright: ignore[reportArgumentType]
        return [
            one.reward for one in scorer.judge_from_thread(submissions(tasks, "a", "b"))
        ]

    assert rewards("mask") == [None, None]
    assert rewards("zero") == [0.0, 0.0]
    with pytest.raises(UnavailableRewardError, match="2 of 2 judgements") as caught:
        rewards("raise")
    assert "passage" not in str(caught.value)


def test_loops_and_threads_share_one_pool_and_its_bound(tasks: dict[str, Task]) -> None:
    loops: set[int] = set()

    async def before(view: JudgeView) -> None:
        del view
        loops.add(id(asyncio.get_running_loop()))
        if judge.in_flight == 4:
            full.set()
        await full.wait()

    full = asyncio.Event()
    judge = ScriptedJudge(before=before)
    scorer = RubricScorer(judge=judge, tasks=tasks, workers=1)
    batch = submissions(tasks, *"abcdefgh")

    with ThreadPoolExecutor(6) as threads:
        from_threads = [
            threads.submit(scorer.judge_from_thread, batch) for _ in range(3)
        ]
        from_loops = [
            threads.submit(asyncio.run, scorer.judge(batch)) for _ in range(3)
        ]
        found = [future.result() for future in (*from_threads, *from_loops)]

    assert [[one.view.response for one in judgements] for judgements in found] == [
        list("abcdefgh")
    ] * 6
    assert judge.peak_in_flight == 4
    assert len(loops) == 1
    assert scorer.statistics().done == 48


def test_a_step_that_is_cancelled_cancels_its_calls(tasks: dict[str, Task]) -> None:
    ended: list[str] = []
    started = threading.Event()

    async def before(view: JudgeView) -> None:
        del view
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    scorer = RubricScorer(judge=ScriptedJudge(before=before), tasks=tasks)

    async def step() -> None:
        judging = asyncio.ensure_future(scorer.judge(submissions(tasks, "y")))
        await asyncio.to_thread(started.wait, 5)
        judging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await judging

    asyncio.run(step())
    scorer.close()

    assert ended == ["cancelled"]


def test_what_is_wrong_with_the_settings_shows_before_anything_is_judged(
    tasks: dict[str, Task], tmp_path: Path
) -> None:
    judge = LexicalJudge()
    (tmp_path / "judge.yaml").write_text("type: lexical\nmodle: x\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"judge\.yaml.*modle"):
        RubricScorer(judge=str(tmp_path / "judge.yaml"))
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        RubricScorer(judge=tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="give a judge"):
        RubricScorer(judge=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="judge: is missing"):
        RubricScorer(tasks=tasks)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ConfigError, match="unknown key 'task': did you mean 'tasks'"):
        RubricScorer(judge=judge, task=tasks)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ConfigError, match=r"workers: .*not 0"):
        RubricScorer(judge=judge, tasks=tasks, workers=0)
    with pytest.raises(ConfigError, match="'mask', 'zero' or 'raise', not 'drop'"):
        RubricScorer(judge=judge, tasks=tasks, on_unavailable="drop")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="'zero' or 'raise', not 'mask'"):
        RubricScorer(judge=judge, tasks=tasks, on_unavailable="mask", maskable=False)


def test_a_row_without_a_task_is_an_error_and_no_zero(tasks: dict[str, Task]) -> None:
    scorer = RubricScorer(judge=FailingJudge(), tasks=tasks, on_unavailable="zero")

    with pytest.raises(ConfigError, match="no task has the id"):
        scorer.judge_from_thread([Submission({"task_id": "unknown"}, "y")])


def test_a_scorer_starts_anew_in_another_process(
    judge_file: str, tasks: dict[str, Task], tasks_file: str
) -> None:
    scorer = RubricScorer(judge=judge_file, tasks=tasks_file, workers=2)
    before = scorer.judge_from_thread(
        submissions(tasks, "The cross entropy is minimised.")
    )

    copy = pickle.loads(pickle.dumps(scorer))

    assert copy.statistics().done == 0
    assert copy.statistics().limit == 8
    assert (
        copy.judge_from_thread(submissions(tasks, "The cross entropy is minimised."))
        == before
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads
@pytest.mark.parametrize(
    "config", [LexicalJudge(), LexicalConfig()], ids=["judge", "config"]
)
def test_the_child_of_a_fork_judges_on_a_loop_of_its_own(
    config: LexicalJudge | LexicalConfig, tasks: dict[str, Task]
) -> None:
    scorer = RubricScorer(judge=config, tasks=tasks)
    before = scorer.judge_from_thread(
        submissions(tasks, "The cross entropy is minimised.")
    )
    if not (child := os.fork()):
        signal.alarm(20)  # ends a child that hangs
        again = scorer.judge_from_thread(
            submissions(tasks, "The cross entropy is minimised.")
        )
        in_loop = asyncio.run(
            scorer.judge(submissions(tasks, "The cross entropy is minimised."))
        )
        same = again == in_loop == before and scorer.statistics().done == 2
        scorer.close()
        os._exit(0 if same else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert scorer.statistics().done == 1
    scorer.close()


def test_a_scorer_that_was_closed_starts_again(tasks: dict[str, Task]) -> None:
    scorer = RubricScorer(judge=LexicalConfig(), tasks=tasks)
    threads = set(threading.enumerate())

    for _ in range(2):
        assert len(scorer.judge_from_thread(submissions(tasks, "y"))) == 1
        scorer.close()
        assert set(threading.enumerate()) <= threads


def test_a_scorer_that_is_let_go_of_in_its_own_thread_is_closed(
    tasks: dict[str, Task], scorers: list[RubricScorer]
) -> None:
    """As the garbage collector does, which runs in whichever thread needs memory."""
    before = set(threading.enumerate())
    RubricScorer(judge=LexicalConfig(), tasks=tasks)
    scorers[0].judge_from_thread(submissions(tasks, "y"))
    portal, _ = scorers[0]._running()
    (loop,) = set(threading.enumerate()) - before

    def let_go() -> None:
        scorers.clear()
        gc.collect()

    portal.call(let_go)

    loop.join(timeout=600)
    assert not loop.is_alive()


def test_a_process_ends_without_waiting_for_a_judge(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import asyncio, threading, anyio
        from rubric_judge.adapters.scoring import RubricScorer, Submission
        from rubric_judge.testing import ScriptedJudge
        started = threading.Event()
        async def forever(view):
            started.set()
            await anyio.sleep_forever()
        scorer = RubricScorer(judge=ScriptedJudge(before=forever))
        row = {"rubric": [{"id": "a", "weight": 1.0}]}
        waiting = threading.Thread(
            target=lambda: asyncio.run(scorer.judge([Submission(row, "y")])), daemon=True
        )
        waiting.start()
        assert started.wait(600)
        print("ended")
    """)

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


def test_a_process_has_one_scorer_for_equal_settings(
    judge_file: str, tasks_file: str
) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(
            threads.map(
                lambda workers: shared_scorer(
                    "test", judge=judge_file, tasks=tasks_file, workers=workers
                ),
                [1, 1, 1, 1, 2, 1, 1, 1],
            )
        )

    assert len({id(scorer) for scorer in found}) == 2


def test_a_stack_that_is_not_there_is_named_with_its_remedy() -> None:
    with pytest.raises(
        MissingExtraError, match=r"no_such_stack.*pip install no-such-stack"
    ):
        stack_module("no_such_stack.part", install="no-such-stack")


@pytest.mark.parametrize(
    "transport", ["direct", pytest.param("litellm", marks=pytest.mark.slow)]
)
def test_a_model_behind_an_endpoint_is_called_from_threads_and_loops_alike(
    transport: str, tasks: dict[str, Task], tasks_file: str, tmp_path: Path
) -> None:
    batch = submissions(tasks, *"abcd")

    with FakeEndpoint(0.5, faults=[None, Fault.SERVER_ERROR] * 6) as endpoint:
        (tmp_path / "judge.yaml").write_text(
            f"type: llm\nmodel: openai/fake\napi_base: {endpoint.url}\n"
            f"transport: {transport}\nmax_transport_attempts: 1\n",
            encoding="utf-8",
        )
        scorer = RubricScorer(judge=tmp_path / "judge.yaml", tasks=tasks_file)
        found = scorer.judge_from_thread(batch)
        for _ in range(2):  # every step of a trainer may have a loop of its own
            found += asyncio.run(scorer.judge(batch))
        scorer.close()

    rewards = [one.reward for one in found]
    assert rewards.count(0.5) == rewards.count(None) == 6
    reasons = {str(one.result.reason) for one in found if one.unavailable}
    assert reasons == {"server_error"}


def test_readings_of_a_judge_by_probability_come_with_the_judgement(
    tasks: dict[str, Task], tasks_file: str, tmp_path: Path
) -> None:
    with FakeEndpoint(0.25) as endpoint:
        (tmp_path / "judge.yaml").write_text(
            f"type: llm\nmodel: openai/fake\napi_base: {endpoint.url}\n"
            "verdict: probability\n",
            encoding="utf-8",
        )
        scorer = RubricScorer(judge=tmp_path / "judge.yaml", tasks=tasks_file)
        found = scorer.judge_from_thread(submissions(tasks, "a", "b"))
        scorer.close()

    for judgement in found:
        assert judgement.reward == pytest.approx(0.25)
        readings = judgement.result.probabilities
        weighty = [c.id for c in judgement.view.rubric if c.weight]
        assert list(readings) == weighty
        assert [reading.met for reading in readings.values()] == [
            pytest.approx(0.25)
        ] * len(weighty)


@pytest.mark.parametrize("fault", [Fault.UNAUTHORIZED, Fault.NOT_FOUND])
def test_a_judge_that_will_never_answer_ends_the_training_at_once(
    fault: Fault, tasks: dict[str, Task]
) -> None:
    with FakeEndpoint(faults={fault: 1.0}) as endpoint:
        config = JudgeConfig(model="m", transport="direct", api_base=endpoint.url)
        scorer = RubricScorer(judge=config, tasks=tasks)
        with pytest.raises(JudgeSetupError, match="does not answer"):
            asyncio.run(scorer.judge(submissions(tasks, "one", "two")))
        with pytest.raises(JudgeSetupError):
            scorer.judge_from_thread(submissions(tasks, "one"))
        scorer.close()


def test_a_ledger_keeps_what_was_judged_across_scorers(
    tasks: dict[str, Task], tmp_path: Path
) -> None:
    judge = ScriptedJudge(0.5)
    batch = submissions(tasks, *"abca")

    for _ in range(2):
        scorer = RubricScorer(judge=judge, tasks=tasks, ledger=tmp_path / "run.ledger")
        assert [one.reward for one in scorer.judge_from_thread(batch)] == [0.5] * 4
        scorer.close()

    assert sorted(view.response for view in judge.calls) == ["a", "b", "c"]


def test_a_file_that_is_no_ledger_is_refused_when_the_scorer_is_made(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.ledger").write_text(
        "not a ledger, but some text of some length\n" * 100
    )

    with pytest.raises(LedgerError, match=r"run\.ledger"):
        RubricScorer(judge=ScriptedJudge(), ledger=tmp_path / "run.ledger")
