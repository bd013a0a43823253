from __future__ import annotations

import json
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

from rubric_core import Outcome, PluginError, Reason, Reply, ResponderError, RubricError
from rubric_eval import EvalFolderError, HeldoutAbortError
from rubric_eval.comparison.folders import measured_of
from rubric_eval.heldout.plan import HeldoutPlan, plan_of
from rubric_eval.heldout.run import rejudge_heldout
from rubric_eval.heldout.table import HeldoutTable
from rubric_eval.records.digests import refusing_edits
from rubric_eval.records.files import (
    ReasoningRow,
    ScoreRow,
    read_finished_run,
    read_rows,
    read_run,
)
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.scores.scoring import read_judges
from rubric_judge import JudgeSetupError
from rubric_judge.testing import FakeCall, FakeEndpoint, Fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rubric_core import Ask
    from rubric_eval.records.run import Measured
    from rubric_eval.responders.opening import OpenModel

    Evaluate = Callable[..., HeldoutTable]
    Scripted = Callable[..., OpenModel]
    Plan = Callable[..., HeldoutPlan]
    JudgeFile = Callable[..., Path]

_QUOTED = re.compile(r"worth (\d+)%")


def _worth(call: FakeCall) -> dict[str, float]:
    """Award the share that the response says it is worth; a judge that reads."""
    found = _QUOTED.search(call.messages[-1]["content"])
    return (
        {name: weight * int(found[1]) / 100 for name, weight in call.weights.items()}
        if found
        else {}
    )


def _judged(endpoint: FakeEndpoint) -> Counter[str]:
    """The responses that an endpoint was asked about, without the question whether it is there."""
    found = (_QUOTED.search(call.messages[-1]["content"]) for call in endpoint.calls)
    return Counter(one[0] for one in found if one)


def _by_question(base: int) -> Callable[[Ask], str]:
    """Answers that are worth more from question to question, and are all different."""

    def script(ask: Ask) -> str:
        number = int(re.findall(r"\d+", ask.view.question)[0])
        return f"Answer {ask.seed} is worth {base + number}%."

    return script


def test_models_seeds_samples_and_judges_make_table_1(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
) -> None:
    models = [scripted("base", _by_question(10)), scripted("grpo", _by_question(60))]
    plan = make_plan(seeds=(0, 7), samples=2)
    with FakeEndpoint(_worth) as one, FakeEndpoint(0.25) as other:
        judges = [
            judge_file(one.url, name="reads"),
            f"flat={judge_file(other.url, name='other')}",
        ]
        table = evaluate(plan, models, judges)
    assert [(row.model, row.judge) for row in table.rows] == [
        ("base", "reads"), ("base", "flat"), ("grpo", "reads"), ("grpo", "flat"),
    ]  # fmt: skip
    assert [row.mean for row in table.rows] == pytest.approx([0.155, 0.25, 0.655, 0.25])
    assert [row.score_10 for row in table.rows] == pytest.approx([1.55, 2.5, 6.55, 2.5])
    assert {row.n for row in table.rows} == {12}
    assert {row.values for row in table.rows} == {48}
    assert table.missing == ()
    (pair,) = table.judge_pairs
    assert (pair.a, pair.b, pair.answers) == ("reads", "flat", 96)
    assert pair.mean_difference == pytest.approx(0.155)
    assert pair.rank_correlation is None
    folder = EvalFolder(tmp_path / "eval")
    assert HeldoutTable.model_validate_json(folder.heldout.read_bytes()) == table
    with refusing_edits() as edits:
        assert read_finished_run(folder, edits=edits).seeds == (0, 7)


ROUTER = """
model_list:
  - {{model_name: judge, litellm_params: {{model: openai/small, api_key: k, api_base: "{one}"}}}}
  - {{model_name: spare, litellm_params: {{model: openai/large, api_key: k, api_base: "{other}"}}}}
router_settings: {{fallbacks: [{{judge: [spare]}}]}}
"""


def test_the_table_counts_what_a_fallback_judged(
    tmp_path: Path, scripted: Scripted, make_plan: Plan, evaluate: Evaluate
) -> None:
    judge = tmp_path / "judge.yaml"
    judge.write_text(
        "type: llm\nmodel: judge\nlitellm_config: router.yaml\nallow_fallback_models: true\n"
    )
    # The first answers the check and one judgement.
    broken = [None, None, *[Fault.SERVER_ERROR] * 40]
    with FakeEndpoint(0.5, faults=broken) as one, FakeEndpoint(0.25) as other:
        (tmp_path / "router.yaml").write_text(
            ROUTER.format(one=one.url, other=other.url)
        )
        table = evaluate(make_plan(), [scripted("m", _by_question(0))], [judge])
    (row,) = table.rows
    assert (row.values, row.by_fallback) == (12, {"spare": 11})


def test_rows_come_back_as_values_of_each_question(
    tmp_path: Path, scripted: Scripted, make_plan: Plan, judge_file: JudgeFile, evaluate: Evaluate,
    read_heldout: Callable[..., Measured],
) -> None:  # fmt: skip
    plan = make_plan(samples=2)
    with FakeEndpoint(_worth) as endpoint:
        evaluate(plan, [scripted("m", _by_question(0))], [judge_file(endpoint.url)])
    measured = read_heldout(tmp_path / "eval", "judge", "m")
    assert measured.ids == tuple(task.task_id for task in plan.tasks)
    assert measured.clusters == tuple(task.doc_hash for task in plan.tasks)
    assert len(set(measured.clusters)) == 4
    assert len(set(measured.prompts)) == 12
    assert measured.values_NK == tuple((n / 100, n / 100) for n in range(12))
    assert measured.criteria_z_N[3] == pytest.approx({"purpose": 0.03, "returns": 0.03})
    assert measured.tokens_mean == 3
    assert (measured.invalid_frac, measured.unavailable_frac) == (0.0, 0.0)


def test_a_folder_whose_first_files_were_cut_short_is_gone_on_with(
    tmp_path: Path, scripted: Scripted, make_plan: Plan, judge_file: JudgeFile, evaluate: Evaluate,
    killed_at_writing: Callable[[], AbstractContextManager[None]],
) -> None:  # fmt: skip
    with FakeEndpoint(_worth) as endpoint:
        judge = judge_file(endpoint.url)
        with killed_at_writing():
            evaluate(make_plan(), [scripted("m", _by_question(0))], [judge])
        (tmp_path / "eval").mkdir(exist_ok=True)
        (tmp_path / "eval" / ".run.json.0a1b2c3d.tmp").write_text('{"kind"', "utf-8")
        table = evaluate(make_plan(), [scripted("m", _by_question(0))], [judge])
    assert [row.n for row in table.rows] == [12]
    folder = EvalFolder(tmp_path / "eval")
    with refusing_edits() as edits:
        (measured,) = measured_of(folder, read_finished_run(folder, edits=edits), edits)
    assert len(measured.ids) == 12


def test_nothing_that_is_done_is_generated_or_judged_again(
    scripted: Scripted, make_plan: Plan, judge_file: JudgeFile, evaluate: Evaluate
) -> None:
    with FakeEndpoint(_worth) as endpoint:
        judge = judge_file(endpoint.url)
        first = evaluate(make_plan(), [scripted("m", _by_question(0))], [judge])
        calls = len(endpoint.calls)
        again = scripted("m", _by_question(50))
        assert evaluate(make_plan(), [again], [judge]) == first
        assert len(endpoint.calls) == calls
    assert again.responder.asked == {}
    # The endpoint is gone, and nothing is left to be asked: a finished evaluation needs no judge.
    assert evaluate(make_plan(), [again], [judge]) == first


def test_an_answer_that_two_models_give_is_judged_once_and_counted_for_both(
    scripted: Scripted, make_plan: Plan, judge_file: JudgeFile, evaluate: Evaluate
) -> None:
    def same(ask: Ask) -> str:
        return f"{ask.view.question} is worth 50%"

    with FakeEndpoint(_worth, latency=0.02) as endpoint:
        models = [scripted("a", same), scripted("b", same)]
        table = evaluate(make_plan(samples=3), models, [judge_file(endpoint.url)])
        assert sum(_judged(endpoint).values()) == 12
    assert [row.values for row in table.rows] == [36, 36]


def test_a_model_and_a_judge_are_added_to_a_finished_evaluation(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
) -> None:
    first = scripted("first", _by_question(0))
    with FakeEndpoint(_worth) as endpoint, FakeEndpoint(1.0) as kind:
        judge = judge_file(endpoint.url)
        evaluate(make_plan(), [first], [judge])
        table = evaluate(make_plan(), [scripted("second", _by_question(50))], [judge])
        assert [row.model for row in table.rows] == ["first", "second"]
        folder = EvalFolder(tmp_path / "eval")
        plan = plan_of(folder, make_plan().tasks, source="elsewhere.jsonl")
        judges = read_judges([str(judge_file(kind.url, name="kind", passage_chars=10))])
        table = anyio.run(partial(rejudge_heldout, folder.root, plan, judges))
    assert [(row.model, row.judge, row.mean) for row in table.rows if row.judge == "kind"] == [
        ("first", "kind", 1.0), ("second", "kind", 1.0),
    ]  # fmt: skip
    assert len(table.rows) == 4
    assert first.responder.asked.total() == 12


def test_a_judge_that_one_model_lacks_is_said_to_be_missing(
    scripted: Scripted, make_plan: Plan, judge_file: JudgeFile, evaluate: Evaluate
) -> None:
    with FakeEndpoint(_worth) as endpoint:
        judge = judge_file(endpoint.url)
        evaluate(make_plan(), [scripted("a", _by_question(0))], [judge])
        strict = judge_file(endpoint.url, name="strict", passage_chars=10)
        table = evaluate(make_plan(), [scripted("b", _by_question(0))], [strict])
    assert table.missing == (("a", "strict"), ("b", "judge"))
    assert [(row.model, row.judge) for row in table.rows] == [
        ("a", "judge"),
        ("b", "strict"),
    ]


def test_other_seeds_and_samples_are_refused_and_the_folder_stays_as_it_is(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
) -> None:
    with FakeEndpoint(_worth) as endpoint:
        judge = judge_file(endpoint.url)
        evaluate(make_plan(), [scripted("m", _by_question(0))], [judge])
        before = (tmp_path / "eval" / "run.json").read_bytes()
        with pytest.raises(EvalFolderError, match=r"its seeds are \(0,\), not \(1,\)"):
            evaluate(make_plan(seeds=(1,)), [scripted("m", _by_question(0))], [judge])
        with pytest.raises(EvalFolderError, match="its samples are 1, not 2"):
            evaluate(make_plan(samples=2), [scripted("m", _by_question(0))], [judge])
        assert (tmp_path / "eval" / "run.json").read_bytes() == before
        assert (tmp_path / "eval" / "heldout.json").exists()


def test_other_questions_decoding_models_and_judges_under_a_known_name_are_refused(
    scripted: Scripted, make_plan: Plan, judge_file: JudgeFile, evaluate: Evaluate
) -> None:
    plan = make_plan()
    with FakeEndpoint(_worth) as endpoint:
        judge = judge_file(endpoint.url)
        evaluate(plan, [scripted("m", _by_question(0))], [judge])
        fewer = make_plan(tasks=plan.tasks[:5])
        with pytest.raises(
            EvalFolderError, match=r"questions are others \(12 of test\.jsonl, not 5"
        ):
            evaluate(fewer, [scripted("m", _by_question(0))], [judge])
        cooler = make_plan(
            decoding=plan.decoding.model_copy(update={"temperature": 0.5})
        )
        with pytest.raises(EvalFolderError, match=r"its temperature is 1\.0, not 0\.5"):
            evaluate(cooler, [scripted("m", _by_question(0))], [judge])
        with pytest.raises(
            EvalFolderError, match="its model 'm' is another one, by weights"
        ):
            evaluate(plan, [scripted("m", _by_question(0), weights="new")], [judge])
        with pytest.raises(
            EvalFolderError, match="its judge 'judge' is another one, by finger"
        ):
            evaluate(
                plan,
                [scripted("m", _by_question(0))],
                [judge_file(endpoint.url, passage_chars=10)],
            )


def test_a_folder_of_something_else_is_left_alone(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "thesis.tex").write_text("mine", encoding="utf-8")
    with (
        FakeEndpoint(_worth) as endpoint,
        pytest.raises(EvalFolderError, match=r"thesis\.tex"),
    ):
        evaluate(
            make_plan(), [scripted("m", _by_question(0))], [judge_file(endpoint.url)]
        )


def test_a_judge_that_is_not_there_leaves_no_evaluation_behind(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
) -> None:
    with FakeEndpoint(_worth) as endpoint:
        good = judge_file(endpoint.url)
    model = scripted("m", _by_question(0))
    with pytest.raises(JudgeSetupError):
        evaluate(make_plan(), [model], [good])
    assert model.responder.asked == {}
    assert not (tmp_path / "eval" / "run.json").exists()
    with FakeEndpoint(_worth) as endpoint:
        evaluate(
            make_plan(), [scripted("m", _by_question(0))], [judge_file(endpoint.url)]
        )


def test_a_judge_that_goes_down_ends_the_run_without_a_table_and_what_is_judged_is_kept(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
    read_heldout: Callable[..., Measured],
) -> None:
    plan = make_plan(samples=5, workers=1)
    down_at = 36  # of 60
    faults = [None] * down_at + [Fault.SERVER_ERROR] * 100
    folder = EvalFolder(tmp_path / "eval")
    with FakeEndpoint(_worth, faults=faults) as endpoint:
        with pytest.raises(
            HeldoutAbortError, match="model 'm', judge 'judge'"
        ) as caught:
            evaluate(plan, [scripted("m", _by_question(0))], [judge_file(endpoint.url)])
        assert len(endpoint.calls) < 60
        answered = _judged_well(endpoint)
    assert caught.value.reasons == {"judge: server_error": 4}
    assert not folder.heldout.exists()
    assert not folder.scores("judge", "m", 0).exists()
    run = read_run(folder)
    assert run.status == "failed"
    assert "no judgement for 4 of 60" in (run.error or "")
    with pytest.raises(EvalFolderError, match="is failed, not finished: model 'm'"):
        read_heldout(folder, "judge", "m")
    with FakeEndpoint(_worth) as endpoint:
        again = scripted("m", _by_question(0))
        table = evaluate(plan, [again], [judge_file(endpoint.url)])
        assert not answered & set(_judged(endpoint))
    assert len(answered) == down_at - 1
    assert table.rows[0].unavailable_frac == 0.0


def _judged_well(endpoint: FakeEndpoint) -> set[str]:
    quotes = (
        (call, _QUOTED.search(call.messages[-1]["content"])) for call in endpoint.calls
    )
    return {quote.string for call, quote in quotes if quote and call.fault is None}


def test_a_judge_that_never_gave_a_score_may_be_mended_under_its_name(
    scripted: Scripted, make_plan: Plan, judge_file: JudgeFile, evaluate: Evaluate
) -> None:
    faults = [
        None,
        *[Fault.SERVER_ERROR] * 100,
    ]  # it says that it is there, and no more
    old = scripted("m", _by_question(0), weights="old")
    with (
        FakeEndpoint(_worth, faults=faults) as endpoint,
        pytest.raises(HeldoutAbortError),
    ):
        evaluate(make_plan(), [old], [judge_file(endpoint.url, passage_chars=10)])
    with FakeEndpoint(_worth) as endpoint:
        judge = judge_file(endpoint.url)
        table = evaluate(
            make_plan(), [scripted("m", _by_question(0), weights="new")], [judge]
        )
        assert table.rows[0].mean == pytest.approx(0.055)
        again = scripted("m", _by_question(0), weights="new")
        with pytest.raises(EvalFolderError, match="its judge 'judge' is another one"):
            evaluate(make_plan(), [again], [judge_file(endpoint.url, passage_chars=10)])


def test_one_model_with_too_many_failures_is_not_hidden_by_the_others(
    scripted: Scripted, make_plan: Plan, judge_file: JudgeFile, evaluate: Evaluate
) -> None:
    def broken(ask: Ask) -> str | Reply:
        if "function 3 " in ask.view.question:
            return Reply.unavailable(Reason.CONNECTION, "nobody there")
        return "x"

    models = [scripted(f"good{n}", _by_question(n)) for n in range(4)]
    said = r"model 'bad'.*1 of 12.*model: connection 1 \(first: nobody there\)"
    with FakeEndpoint(_worth) as endpoint, pytest.raises(HeldoutAbortError, match=said):
        evaluate(
            make_plan(), [*models, scripted("bad", broken)], [judge_file(endpoint.url)]
        )


def test_what_is_allowed_to_be_missing_is_left_out_and_counted(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
    read_heldout: Callable[..., Measured],
) -> None:
    def script(ask: Ask) -> str | Reply:
        if "function 3 " in ask.view.question:
            return Reply.unavailable(Reason.TIMEOUT, "no answer in 5 s")
        return f"{ask.view.question} is worth 50%"

    with FakeEndpoint(_worth) as endpoint:
        plan = make_plan(max_unavailable_frac=0.1)
        (row,) = evaluate(
            plan, [scripted("m", script)], [judge_file(endpoint.url)]
        ).rows
    assert (row.mean, row.n, row.values) == (pytest.approx(0.5), 11, 11)
    assert row.unavailable_frac == pytest.approx(1 / 12)
    assert row.reasons == {"timeout": 1}
    scores = read_rows(EvalFolder(tmp_path / "eval").scores("judge", "m", 0), ScoreRow)
    assert [row.outcome for row in scores].count(Outcome.UNAVAILABLE) == 1
    assert scores[3].reward is None
    assert read_heldout(tmp_path / "eval", "judge", "m").values_NK[3] == (None,)


def test_an_invalid_judgement_is_0_in_the_reward_and_in_every_criterion(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
    read_heldout: Callable[..., Measured],
) -> None:
    def award(call: FakeCall) -> dict[str, float] | str:
        return (
            "I would rather not."
            if "worth 3%" in call.messages[-1]["content"]
            else _worth(call)
        )

    with FakeEndpoint(award) as endpoint:
        (row,) = evaluate(
            make_plan(), [scripted("m", _by_question(0))], [judge_file(endpoint.url)]
        ).rows
    assert row.invalid_frac == pytest.approx(1 / 12)
    assert row.reasons == {"not_json": 1}
    assert row.zero_frac == pytest.approx(2 / 12)  # the answer that is worth 0 too
    measured = read_heldout(tmp_path / "eval", "judge", "m")
    assert measured.values_NK[3] == (0.0,)
    assert measured.criteria_z_N[3] == {"purpose": 0.0, "returns": 0.0}


def test_no_file_but_the_judges_own_can_hold_a_passage(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
) -> None:
    def quoting(call: FakeCall) -> str:
        scores = _worth(call)
        return json.dumps(
            {
                "reasoning": "It says PASSAGE-CANARY.",
                "scores": scores,
                "total": sum(scores.values()),
                "max_total": sum(call.weights.values()),
            }
        )

    with FakeEndpoint(quoting) as endpoint:
        evaluate(
            make_plan(), [scripted("m", _by_question(0))], [judge_file(endpoint.url)]
        )
    root = tmp_path / "eval"
    holding = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*")
        if path.is_file() and b"CANARY" in path.read_bytes()
    }
    assert holding <= {"judgements", "ledger.sqlite", "ledger.sqlite-wal"}
    folder = EvalFolder(root)
    path = folder.judgements("judge", "m", 0)
    assert path.stat().st_mode & 0o077 == 0
    assert {row.reasoning for row in read_rows(path, ReasoningRow)} == {
        "It says PASSAGE-CANARY."
    }


def test_scores_of_other_answers_are_not_taken_for_these(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
    read_heldout: Callable[..., Measured],
) -> None:
    with FakeEndpoint(_worth) as endpoint:
        evaluate(
            make_plan(), [scripted("m", _by_question(0))], [judge_file(endpoint.url)]
        )
    path = EvalFolder(tmp_path / "eval").scores("judge", "m", 0)
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(EvalFolderError, match="scores of 11 answers, not of 12"):
        read_heldout(tmp_path / "eval", "judge", "m")
    key = json.loads(lines[0])["key"]
    path.write_text("".join(lines).replace(key, "0" * 64), encoding="utf-8")
    with pytest.raises(EvalFolderError, match="is of no answer"):
        read_heldout(tmp_path / "eval", "judge", "m")


def test_a_model_that_does_not_run_is_named_and_no_half_is_reported(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
) -> None:
    def script(ask: Ask) -> str:
        raise ResponderError(f"no memory for {ask.view.task_id}")

    models = [scripted("good", _by_question(0)), scripted("big", script)]
    with (
        FakeEndpoint(_worth) as endpoint,
        pytest.raises(ResponderError, match="no memory"),
    ):
        evaluate(make_plan(), models, [judge_file(endpoint.url)])
    assert read_run(EvalFolder(tmp_path / "eval")).status == "failed"
    assert not (tmp_path / "eval" / "heldout.json").exists()
    # Without the one that does not run, the rest is complete, and the other is forgotten.
    with FakeEndpoint(_worth) as endpoint:
        table = evaluate(
            make_plan(), [scripted("good", _by_question(0))], [judge_file(endpoint.url)]
        )
    assert [row.model for row in table.rows] == ["good"]
    assert table.missing == ()
    assert [model.name for model in read_run(EvalFolder(tmp_path / "eval")).models] == [
        "good"
    ]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            AttributeError("no attribute 'reorder'"),
            r"AttributeError at test_run.py:\d+: no attr",
        ),
        (PluginError("this template wants tools"), "this template wants tools"),
        (
            ZeroDivisionError(),
            r"model 'm' cannot answer: ZeroDivisionError at test_run.py:\d+$",
        ),
    ],
)
def test_a_model_that_fails_before_its_first_answer_says_why(
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
    error: Exception,
    told: str,
) -> None:
    def script(ask: Ask) -> str:
        del ask
        raise error

    with FakeEndpoint(_worth) as endpoint, pytest.raises(RubricError, match=told):
        evaluate(make_plan(), [scripted("m", script)], [judge_file(endpoint.url)])


@pytest.mark.parametrize("answered", [0, 1, 5])
def test_an_interrupt_is_not_taken_for_the_end_of_a_model_without_judgements(
    tmp_path: Path,
    scripted: Scripted,
    make_plan: Plan,
    judge_file: JudgeFile,
    evaluate: Evaluate,
    answered: int,
) -> None:
    waiting = scripted("grpo", _by_question(0))
    waiting.responder.stops_after = answered
    models = [scripted("base", _by_question(0)), waiting]
    with (
        FakeEndpoint(_worth, latency=0.05) as endpoint,
        pytest.raises(KeyboardInterrupt),
    ):
        evaluate(make_plan(), models, [judge_file(endpoint.url)])
    ended = read_run(EvalFolder(tmp_path / "eval"))
    assert (ended.status, ended.error) == ("failed", "stopped before the end")
    assert not (tmp_path / "eval" / "heldout.json").exists()
