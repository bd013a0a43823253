"""`rubric-eval heldout --controls`: answers that no model wrote, beside the models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rubric_core import Ask, ConfigError, Decoding, Section
from rubric_eval.comparison.folders import compare_folders
from rubric_eval.findings.reading import ReportSources
from rubric_eval.heldout.plan import HeldoutPlan
from rubric_eval.report.page import write_report
from rubric_eval.responders.opening import CONTROLS, open_controls
from rubric_eval.responders.spec import parse_models
from rubric_judge.quality.labels import written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_core import Task
    from rubric_eval.heldout.table import HeldoutTable
    from rubric_eval.responders.opening import OpenModel

REFERENCE = "Query {n} finds a mean of the values. It returns one number."


@pytest.fixture
def answered(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The questions, each with a reference answer of its own."""
    return tuple(
        task.model_copy(update={"reference_answer": REFERENCE.format(n=number)})
        for number, task in enumerate(tasks)
    )


def _silent(ask: Ask) -> str:
    del ask
    return "Nothing is said here."


def _quoting(ask: Ask) -> str:
    return ask.view.question


async def _texts(model: OpenModel, tasks: tuple[Task, ...]) -> list[str | None]:
    asks = [Ask(view=task.policy_view(), seed=0) for task in tasks]
    return [reply.text async for _, reply in model.responder.respond(asks, Decoding())]


@pytest.mark.anyio
async def test_controls_are_wrong_answers_of_the_reference(
    answered: tuple[Task, ...],
) -> None:
    models = {one.name: one for one in open_controls(answered)}
    others = {"context_start", "nearest_sentences", *written.CONTROLS.values()}
    assert list(models) == [
        f"control_{name}" for name in CONTROLS if name not in others
    ]
    first = [(await _texts(model, answered))[0] or "" for model in models.values()]
    template, shuffled, negated, other = first
    assert "is a function that is used to compute" in template
    words = REFERENCE.format(n=0).lower().replace(".", "").split()
    assert sorted(shuffled.lower().replace(".", "").split()) == sorted(words)
    assert shuffled != REFERENCE.format(n=0)
    assert negated.startswith("It is not true that query 0 finds")
    assert negated.endswith(" It does not return one number.")
    others = (
        n for n, task in enumerate(answered) if task.doc_hash != answered[0].doc_hash
    )
    assert other in {REFERENCE.format(n=n) for n in others}
    assert len({one.fingerprint for one in models.values()}) == len(models)


@pytest.mark.anyio
async def test_open_book_questions_have_controls_copied_from_their_context(
    answered: tuple[Task, ...],
) -> None:
    text = f"Dogs sleep. Function {{n}} adds numbers. {'Cats sleep too. ' * 30}"
    opened = tuple(
        task.model_copy(
            update={
                "context": (Section(doc_hash="d", heading="H", text=text.format(n=n)),)
            }
        )
        for n, task in enumerate(answered)
    )
    models = {one.name: one for one in open_controls(opened)}
    somebody = set(written.CONTROLS.values())
    assert list(models) == [
        f"control_{name}" for name in CONTROLS if name not in somebody
    ]
    (start,) = set(
        map(len, map(str.split, await _texts(models["control_context_start"], opened)))
    )
    assert start == 80
    nearest = await _texts(models["control_nearest_sentences"], opened)
    assert all(
        f"Function {n} adds numbers." in (text or "") for n, text in enumerate(nearest)
    )
    assert all(len((text or "").split(".")) <= 4 for text in nearest)
    assert len(open_controls((*opened[1:], answered[0]))) == len(models) - 2


def test_without_reference_answers_there_is_the_template(
    answered: tuple[Task, ...],
) -> None:
    one = answered[0].model_copy(update={"reference_answer": None})
    assert [model.name for model in open_controls((one, *answered[1:]))] == [
        "control_fixed_template"
    ]
    assert len(open_controls(answered[:3])) == 3  # all of one document


def test_a_model_cannot_have_the_name_of_a_control(answered: tuple[Task, ...]) -> None:
    with pytest.raises(ConfigError, match="control_negated"):
        open_controls(answered, beside=parse_models(["control_negated=policy:here"]))


def test_controls_stand_beside_the_models_and_are_neither_compared_nor_suspected(
    tmp_path: Path,
    answered: tuple[Task, ...],
    scripted: Callable[..., OpenModel],
    evaluate: Callable[..., HeldoutTable],
) -> None:
    lexical = tmp_path / "lexical.yaml"
    lexical.write_text("type: lexical\n", encoding="utf-8")
    plan = HeldoutPlan(
        tasks=answered, source="test.jsonl", decoding=Decoding(temperature=1.0)
    )
    models = [
        scripted("base", _silent),
        scripted("tuned", _quoting),
        *open_controls(answered),
    ]
    table = evaluate(plan, models, [lexical])
    assert [row.model for row in table.rows] == [
        "base",
        "tuned",
        *(m.name for m in models[2:]),
    ]
    compared, _ = compare_folders([tmp_path / "eval"])
    assert {one.model for one in compared.scores} == {"base", "tuned"}
    files = write_report(ReportSources((tmp_path / "eval",)))
    page = files.page.read_text(encoding="utf-8")
    assert "Controls: no model wrote them" in page
    assert "control_shuffled (the reference answer, the words" in page
    heldout = next(path for path in files.tables if path.name == "table1_heldout.md")
    assert "control_negated".replace("_", "\\_") in heldout.read_text(encoding="utf-8")
    signs = next(path for path in files.tables if path.name == "hacking_signs.md")
    assert "control" not in signs.read_text(encoding="utf-8")


def test_written_answers_are_judged_where_there_are_any(
    tmp_path: Path,
    answered: tuple[Task, ...],
    scripted: Callable[..., OpenModel],
    evaluate: Callable[..., HeldoutTable],
) -> None:
    rows = [
        {
            "task_id": task.task_id,
            "question": task.question,
            "truth": truth,
            "response": text,
            "author": "Anna",
        }
        for task in answered[:3]
        for truth, text in (("right", "RUBRIC-CANARY"), ("false", "There is nothing."))
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / written.WRITTEN_FILE).write_text(lines, encoding="utf-8")
    known = written.WrittenAnswers(tmp_path).to(answered)
    models = [scripted("base", _silent), *open_controls(answered, known=known.controls)]
    lexical = tmp_path / "lexical.yaml"
    lexical.write_text("type: lexical\n", encoding="utf-8")
    plan = HeldoutPlan(
        tasks=answered, source="test.jsonl", decoding=Decoding(temperature=1.0)
    )
    table = evaluate(plan, models, [lexical])
    rewards = {row.model: row for row in table.rows}
    assert rewards["control_negated"].n == len(answered)
    right = rewards["control_right_in_other_words"]
    false = rewards["control_false_in_the_same_words"]
    assert (right.n, right.values, false.n, false.values) == (3, 3, 3, 3)
    assert right.clusters <= 3
    assert right.unavailable_frac == 0  # nothing failed: nobody has written the others
    page = write_report(ReportSources((tmp_path / "eval",))).page.read_text(
        encoding="utf-8"
    )
    assert "control_false_in_the_same_words (what somebody wrote to meet none" in page
    # What a policy can earn at the most is no control that it should surpass.
    assert "control_right_in_other_words" in page
    assert "control_right_in_other_words (" not in page
    others = open_controls(answered[3:], known=known.controls)
    assert not {one.name for one in others} & {f"control_{n}" for n in known.controls}
