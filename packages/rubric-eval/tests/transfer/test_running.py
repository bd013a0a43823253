"""Models on benchmarks: right and wrong, stopped and gone on with, one added, one refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from scipy import stats

from rubric_core import Finish, Reason, Reply
from rubric_eval import EvalFolderError
from rubric_eval.comparison.folders import measured_of
from rubric_eval.errors import TransferAbortError
from rubric_eval.records.digests import refusing_edits
from rubric_eval.records.files import ItemRow, read_finished_run, read_rows, read_run
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.responders.spec import Weights
from rubric_eval.transfer.plan import plan_transfer
from rubric_eval.transfer.suites import SUITES, TITLES, SuiteName

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rubric_eval.records.run import Measured
    from rubric_eval.responders.opening import OpenModel
    from rubric_eval.transfer.plan import TransferPlan
    from rubric_eval.transfer.table import TransferTable

TASKS, STOCK = ([one.task for one in SUITES[name]] for name in ("paper", "stock"))


def _read(root: EvalFolder | Path, benchmark: str, model: str) -> Measured:
    folder = root if isinstance(root, EvalFolder) else EvalFolder(root)
    with refusing_edits() as edits:
        measured = measured_of(folder, read_finished_run(folder, edits=edits), edits)
    return next(
        one for one in measured if (one.benchmark, one.model) == (benchmark, model)
    )


def _wrong(prompt: str) -> str:
    del prompt
    return "The answer is \\boxed{-12345}."


def test_right_and_wrong_answers_make_the_table(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
    tmp_path: Path,
) -> None:
    table = run(plan, scripted("base", _wrong), scripted("tuned", oracle))

    base, tuned = table.rows
    assert [TITLES.get(cell.benchmark, cell.benchmark) for cell in base.cells] == [
        "GSM8K",
        "MATH",
        "GPQA Main",
        "GPQA Diamond",
    ]
    assert [cell.mean for cell in base.cells] == [0.0] * 4
    assert [cell.mean for cell in tuned.cells] == [1.0] * 4
    assert (tuned.average, tuned.average_delta) == (1.0, 1.0)
    assert base.average_delta is None
    assert [cell.chance for cell in base.cells] == [None, None, 0.25, 0.25]
    assert [cell.is_above_chance for cell in tuned.cells] == [None, None, True, True]
    assert tuned.cells[0].tokens_mean == 7
    assert tuned.cells[0].ci_low is not None
    assert tuned.cells[0].ci_low < 1
    assert read_run(EvalFolder(tmp_path / "t")).status == "finished"
    assert (
        json.loads((tmp_path / "t" / "transfer.json").read_text("utf-8"))["base"]
        == "base"
    )


def test_a_second_run_generates_nothing_and_scores_the_same(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
    asked: Callable[[OpenModel], Counter[str]],
) -> None:
    cold = run(plan, scripted("tuned", oracle))
    again = scripted("tuned", oracle)
    warm = run(plan, again)

    assert warm == cold
    assert asked(again) == Counter()


def test_a_model_never_gets_the_answers_of_another(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
    asked: Callable[[OpenModel], Counter[str]],
) -> None:
    run(plan, scripted("tuned", oracle))
    other = scripted("base", _wrong)
    table = run(plan, other)

    assert asked(other).total() == 24  # GPQA Diamond's four are in Main
    assert max(asked(other).values()) == 1
    assert [row.model for row in table.rows] == ["tuned", "base"]
    assert table.rows[1].average == 0
    assert table.rows[1].average_delta == -1


def test_a_name_that_is_another_model_now_is_refused(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
    tmp_path: Path,
) -> None:
    run(plan, scripted("tuned", oracle, weights="a"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    with pytest.raises(EvalFolderError, match="'tuned' is another one, by weights"):
        run(plan, scripted("tuned", _wrong, weights="b"))

    assert {
        path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    } == before


def test_other_weights_behind_the_same_name_are_refused(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
    asked: Callable[[OpenModel], Counter[str]],
    tmp_path: Path,
) -> None:
    first, second = (
        Weights(text_sha256="0", tokens_sha256="1", logprobs_T=(-1.0, -2.0, last))
        for last in (-3.0, -4.0)
    )
    run(plan, replace(scripted("tuned", oracle), weights=first))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    replaced = replace(scripted("tuned", _wrong), weights=second)

    with pytest.raises(EvalFolderError, match=r"by 0\.333 nats a token"):
        run(plan, replaced)

    assert asked(replaced) == Counter()
    assert {
        path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    } == before


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"limit": 2}, "questions are others"),
        ({"max_tokens": 99}, "max-tokens"),
        ({"suite": SuiteName.STOCK}, "something else"),
        ({"benchmarks": ("gsm8k",)}, "benchmarks"),
        ({"seeds": (0, 1)}, "seeds"),
    ],
)
def test_a_folder_of_something_else_is_refused(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    other: dict[str, object],
    said: str,
) -> None:
    run(plan, scripted("base", _wrong))

    with pytest.raises(EvalFolderError, match=said):
        run(plan_transfer(data="small", **other), scripted("base", _wrong))  # pyright: ignore[reportArgumentType]


def test_a_run_that_was_stopped_goes_on_where_it_was(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
    asked: Callable[[OpenModel], Counter[str]],
    tmp_path: Path,
) -> None:
    count = 0

    def stopped(prompt: str) -> str:
        nonlocal count
        count += 1
        if count > 11:
            raise KeyboardInterrupt
        return oracle(prompt)

    first = scripted("tuned", stopped, weights="same")
    with pytest.raises(KeyboardInterrupt):
        run(plan, first)
    folder = EvalFolder(tmp_path / "t")
    assert read_run(folder).status == "failed"
    assert not folder.transfer.exists()
    with pytest.raises(EvalFolderError, match="failed, not finished"):
        _read(folder, TASKS[0], "tuned")

    second = scripted("tuned", oracle, weights="same")
    table = run(plan, second)

    assert asked(second).total() == 24 - 11
    assert table.rows[0].average == 1.0
    assert read_run(folder).error is None


def test_what_was_not_answered_is_no_wrong_answer(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
    tmp_path: Path,
) -> None:
    lost = {built.prompts[0] for built in plan.built}

    def partly(prompt: str) -> str | Reply:
        return (
            Reply.unavailable(Reason.TIMEOUT, "late")
            if prompt in lost
            else oracle(prompt)
        )

    table = run(replace(plan, max_unavailable_frac=0.3), scripted("tuned", partly))

    assert [cell.mean for cell in table.rows[0].cells] == [1.0] * 4
    assert table.rows[0].cells[0].unavailable_frac == 1 / 8
    assert (table.rows[0].cells[0].n, table.items[TASKS[0]]) == (7, 8)
    measured = _read(tmp_path / "t", TASKS[0], "tuned")
    assert measured.values_NK[0] == (None,)
    assert measured.values_NK[1] == (1.0,)
    rows = read_rows(EvalFolder(tmp_path / "t").items(TASKS[0], "tuned", 0), ItemRow)
    assert (rows[0].correct, rows[0].reason) == (None, Reason.TIMEOUT)


def test_a_benchmark_with_too_few_answers_ends_the_evaluation_without_a_table(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Four of 28 are fewer than a fifth, and all of one benchmark."""
    lost = set(plan.built[3].prompts)

    def down(prompt: str) -> str | Reply:
        return (
            Reply.unavailable(Reason.CONNECTION) if prompt in lost else oracle(prompt)
        )

    with pytest.raises(TransferAbortError, match="connection 4") as caught:
        run(replace(plan, max_unavailable_frac=0.2), scripted("tuned", down))

    assert caught.value.reasons == {"connection": 4}
    folder = EvalFolder(tmp_path / "t")
    assert not folder.transfer.exists()
    assert not (folder.root / "items").exists()
    assert read_run(folder).status == "failed"


def test_cut_answers_and_those_without_an_answer_are_counted(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
) -> None:
    cut = Reply.answered("It is, I think,", finish=Finish.TRUNCATED, tokens=5)
    (row,) = run(plan, scripted("base", lambda _: cut)).rows

    assert [cell.truncated_frac for cell in row.cells] == [1.0] * 4
    assert [cell.no_answer_frac for cell in row.cells] == [1.0] * 4


def test_rows_say_what_was_asked_what_is_right_and_what_was_read(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
    tmp_path: Path,
) -> None:
    def cut(prompt: str) -> str:
        return "I never came to" if "loaves" in prompt else oracle(prompt)

    run(plan, scripted("base", _wrong), scripted("tuned", cut))
    folder = EvalFolder(tmp_path / "t")
    for built in plan.built:
        base, tuned = (
            read_rows(folder.items(built.benchmark.task, name, 0), ItemRow)
            for name in ("base", "tuned")
        )
        documents = built.task.dataset["test"]
        assert [row.target for row in base] == [one["target"] for one in documents]
        for row, prompt in zip(base, built.prompts, strict=True):
            assert row.question in prompt
        has_letters = "gpqa" in built.benchmark.task
        assert {row.stated for row in base} == {None if has_letters else "-12345"}
        assert [row.stated for row in tuned if row.correct] == [
            row.target for row in tuned if row.correct
        ]
        assert [row.stated is not None for row in tuned] == [
            row.is_answered for row in tuned
        ]
    unread = read_rows(folder.items("rubric_gsm8k", "tuned", 0), ItemRow)[0]
    assert (unread.target, unread.stated, unread.is_answered) == ("44", None, False)


def test_values_are_ready_to_be_compared(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
    tmp_path: Path,
) -> None:
    run(
        replace(plan, seeds=(0, 1)), scripted("base", _wrong), scripted("tuned", oracle)
    )
    base, tuned = (_read(tmp_path / "t", TASKS[2], name) for name in ("base", "tuned"))

    assert base.ids == tuned.ids
    assert base.prompts == tuned.prompts
    assert base.protocol == tuned.protocol
    assert base.fingerprint != tuned.fingerprint
    assert tuned.values_NK == ((1.0, 1.0),) * 8
    assert tuned.chance == 0.25
    assert set(tuned.fields) == {"Physics", "Chemistry", "Biology"}


def test_models_get_the_budget_of_the_benchmark_and_no_target(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
) -> None:
    model = scripted("base", _wrong)
    run(plan, model)

    responder = model.responder
    assert [one.max_tokens for one in responder.decodings] == [1024, 2048, 2048]  # pyright: ignore[reportAttributeAccessIssue]
    assert all("Correct" not in prompt for prompt in responder.asked)  # pyright: ignore[reportAttributeAccessIssue]


def test_the_stock_suite_runs_too(
    run: Callable[..., TransferTable],
    scripted: Callable[..., OpenModel],
    tmp_path: Path,
) -> None:
    plan = plan_transfer(suite=SuiteName.STOCK, data="small")
    targets = {
        prompt: str(built.task.doc_to_target(document))
        for built in plan.built
        for prompt, document in zip(built.prompts, built.task.eval_docs, strict=True)
    }

    def stock(prompt: str) -> str:
        target = targets[prompt]
        return (
            f"${target}$"
            if prompt.startswith("Problem:")
            else f"The final answer is {target}"
        )

    (row,) = run(plan, scripted("tuned", stock)).rows

    assert [cell.mean for cell in row.cells] == [1.0] * 4
    assert [cell.no_answer_frac for cell in row.cells] == [0.0] * 4
    folder = EvalFolder(tmp_path / "t")
    stated = [
        read_rows(folder.items(name, "tuned", 0), ItemRow)[0].stated for name in STOCK
    ]
    assert stated == ["44", None, "(B)", "(B)"]  # hendrycks_math does not say


def test_a_model_is_closed_before_the_next_one_is_asked(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    is_closed: Callable[[OpenModel], bool],
) -> None:
    base = scripted("base", _wrong)
    seen: set[bool] = set()

    def noting(prompt: str) -> str:
        seen.add(is_closed(base))
        return _wrong(prompt)

    tuned = scripted("tuned", noting)
    run(plan, base, tuned)

    assert seen == {True}
    assert is_closed(tuned)


def test_seeds_that_are_all_wrong_or_all_right_are_no_certainty(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    oracle: Callable[[str], str],
) -> None:
    """More seeds of the same items must not make an interval a point."""
    seeds = replace(plan, seeds=(0, 1))
    base, tuned = run(seeds, scripted("base", _wrong), scripted("tuned", oracle)).rows

    for low, high in zip(base.cells, tuned.cells, strict=True):
        # Wilson's limit for as many answers as there are items, with Student's t.
        t2 = stats.t.ppf(0.975, low.n - 1) ** 2
        assert (low.mean, low.ci_low, low.ci_high) == (
            0.0,
            0.0,
            pytest.approx(t2 / (low.n + t2)),
        )
        assert high.ci_low == pytest.approx(1 - (low.ci_high or 0))


def test_a_folder_whose_first_files_were_cut_short_is_gone_on_with(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    killed_at_writing: Callable[[], AbstractContextManager[None]],
    tmp_path: Path,
) -> None:
    with killed_at_writing():
        run(plan, scripted("base", _wrong))
    (tmp_path / "t").mkdir(exist_ok=True)
    (tmp_path / "t" / ".run.json.0a1b2c3d.tmp").write_text('{"kind"', "utf-8")

    (row,) = run(plan, scripted("base", _wrong)).rows

    assert row.average == 0
    assert _read(tmp_path / "t", "rubric_gsm8k", "base").values_NK[0] == (0.0,)


def test_a_folder_of_somebody_else_is_left_alone(
    run: Callable[..., TransferTable],
    plan: TransferPlan,
    scripted: Callable[..., OpenModel],
    tmp_path: Path,
) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "questions.jsonl").write_text("mine\n", "utf-8")

    with pytest.raises(
        EvalFolderError, match=r"holds 'questions.jsonl' and no run.json"
    ):
        run(plan, scripted("base", _wrong))

    assert (tmp_path / "t" / "questions.jsonl").read_text("utf-8") == "mine\n"
