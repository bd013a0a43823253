"""GPQA by the letter that a model finds likeliest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_core import ConfigError, Decoding, Reason, Reply
from rubric_eval.findings.evaluations import read_evaluations
from rubric_eval.records.files import AnswerRow, ItemRow, read_rows
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.report.page import facts
from rubric_eval.transfer.plan import plan_transfer
from rubric_eval.transfer.suites import TITLES, SuiteName

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_eval.responders.opening import OpenModel
    from rubric_eval.transfer.plan import TransferPlan
    from rubric_eval.transfer.table import TransferTable


@pytest.fixture(scope="module")
def choosing() -> TransferPlan:
    return plan_transfer(suite=SuiteName.LIKELIHOOD, data="small")


def _targets(plan: TransferPlan) -> dict[str, str]:
    return {
        prompt: item.target
        for built in plan.built
        for item, prompt in zip(built.items, built.prompts, strict=True)
    }


def test_the_likeliest_letters_make_the_table(
    run: Callable[..., TransferTable],
    choosing: TransferPlan,
    scripted: Callable[..., OpenModel],
    tmp_path: Path,
) -> None:
    targets = _targets(choosing)
    sure = scripted("sure", targets.__getitem__)
    other = scripted("other", lambda prompt: "BCDA"["ABCD".index(targets[prompt])])

    table = run(choosing, other, sure)

    assert [
        TITLES.get(cell.benchmark, cell.benchmark) for cell in table.rows[0].cells
    ] == [
        "GPQA Main, likeliest",
        "GPQA Diamond, likeliest",
    ]
    assert [[cell.mean for cell in row.cells] for row in table.rows] == [
        [0.0] * 2,
        [1.0] * 2,
    ]
    assert {cell.chance for cell in table.rows[0].cells} == {0.25}
    assert {cell.no_answer_frac for cell in table.rows[0].cells} == {0.0}
    folder = EvalFolder(tmp_path / "t")
    items = read_rows(folder.items("rubric_gpqa_main_choice", "sure", 0), ItemRow)
    assert all(one.stated == one.target == one.response for one in items)
    answers = read_rows(folder.answers("sure", 0), AnswerRow)
    assert {tuple(sorted(one.choice_logprobs)) for one in answers} == {
        (-2.0, -2.0, -2.0, -1.0)
    }
    assert (
        run(choosing, scripted("sure", targets.__getitem__)) == table
    )  # all from the folder
    _, transfer = read_evaluations([folder.root])
    assert transfer is not None
    assert ("Decoding", "the likeliest of the choices; nothing is written") in facts(
        transfer
    )


def test_an_item_that_nobody_answered_is_neither_right_nor_wrong(
    run: Callable[..., TransferTable],
    scripted: Callable[..., OpenModel],
    tmp_path: Path,
) -> None:
    plan = plan_transfer(
        suite=SuiteName.LIKELIHOOD, data="small", max_unavailable_frac=0.5
    )
    targets = _targets(plan)
    lost = plan.built[0].prompts[0]

    def say(prompt: str) -> str | Reply:
        return (
            Reply.unavailable(Reason.SERVER_ERROR)
            if prompt == lost
            else targets[prompt]
        )

    table = run(plan, scripted("some", say))

    assert [cell.mean for cell in table.rows[0].cells] == [1.0, 1.0]
    items = read_rows(
        EvalFolder(tmp_path / "t").items("rubric_gpqa_main_choice", "some", 0), ItemRow
    )
    assert [one.correct for one in items][:2] == [None, True]
    assert (items[0].stated, items[0].is_answered) == (None, False)


def test_a_model_that_only_writes_is_refused_before_it_is_asked(
    run: Callable[..., TransferTable],
    choosing: TransferPlan,
    scripted: Callable[..., OpenModel],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    server = scripted("server", lambda _: "A")
    monkeypatch.setattr(type(server.responder), "scores_choices", False)

    with pytest.raises(
        ConfigError, match=r"server \(server=scripted:server\) does not say how"
    ):
        run(choosing, server)

    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "given",
    [{"decoding": Decoding(temperature=0.8)}, {"max_tokens": 96}, {"seeds": (0, 1)}],
)
def test_what_draws_is_refused_where_nothing_is_drawn(given: dict[str, object]) -> None:
    with pytest.raises(
        ConfigError, match="'likelihood' compares how likely the choices are"
    ):
        plan_transfer(suite=SuiteName.LIKELIHOOD, data="small", **given)  # pyright: ignore[reportArgumentType]
