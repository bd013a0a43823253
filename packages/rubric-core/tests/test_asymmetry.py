"""No object shows the passage, the rubric's texts or the response unless it is asked by name."""

import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from rubric_core import (
    Criterion,
    DocumentAnalysis,
    Grounding,
    JudgeResult,
    JudgeView,
    PolicyView,
    Rubric,
    Task,
    check_no_leak,
    leaked_ngrams,
    read_tasks,
)

# Nine letters that no message, field name or number holds.
canaries = st.text("äöüßçñøåþ", min_size=9, max_size=9)


def hidden_criterion(canary: str) -> Criterion:
    return Criterion(
        id="c",
        weight=1,
        name=canary,
        description=f"before {canary} after",
        required_elements=(canary,),
        scoring_guide=canary,
        verification_method=canary,
        expected_keywords=("k", canary),
        expected_concepts=(canary, "k"),
    )


def hidden_task(canary: str) -> Task:
    return Task(
        question="Why?",
        grounding=Grounding(f"before {canary} after"),
        rubric=Rubric(criteria=(hidden_criterion(canary),)),
        question_rationale=canary,
        document_analysis=DocumentAnalysis(
            genre=canary, contribution=canary, concepts=(canary,), reasoning_mode=canary
        ),
        reference_answer=canary,
    )


def every_object(canary: str) -> list[object]:
    task = hidden_task(canary)
    view = task.judge_view(canary)
    return [
        task.grounding,
        task.rubric,
        task.rubric.criteria,
        list(task.rubric),
        task,
        view,
        task.policy_view(),
        JudgeResult.from_reply(task.rubric, canary),
        JudgeResult.from_reply(task.rubric, json.dumps({canary: canary})),
        JudgeResult.from_reply(task.rubric, json.dumps({"scores": {canary: 1}})),
        leaked_ngrams(task),
    ]


@given(canaries)
def test_no_way_of_printing_shows_a_hidden_text(canary: str) -> None:
    for value in every_object(canary):
        shown = [repr(value), str(value), f"{value}", f"{value!r}", f"{value!s:>10}"]
        shown += ["%s %r" % (value, value), "{} {!r}".format(value, value)]  # noqa: UP031, UP032  # logging's way too
        record = logging.LogRecord("n", logging.INFO, "p", 1, "%s", (value,), None)

        assert not any(canary in text for text in [*shown, record.getMessage()])


@given(canaries)
def test_no_way_of_dumping_shows_a_hidden_text(canary: str) -> None:
    for value in every_object(canary):
        if not isinstance(value, BaseModel):
            continue
        everything = set(type(value).model_fields)
        dumps = [
            value.model_dump(),
            value.model_dump(mode="json"),
            value.model_dump(round_trip=True),
            value.model_dump(include=everything),
            value.model_dump(exclude_defaults=True),
            value.model_dump(serialize_as_any=True),
            value.model_dump_json(),
            TypeAdapter(type(value)).dump_json(value).decode(),
            json.dumps(value.model_dump(mode="json"), ensure_ascii=False),
            json.dumps(value, default=str, ensure_ascii=False),
            json.dumps(value, default=repr, ensure_ascii=False),
        ]

        assert not any(canary in str(dump) for dump in dumps)


@given(canaries)
def test_the_json_of_a_task_hides_unless_asked(canary: str) -> None:
    task = hidden_task(canary)

    assert canary not in json.dumps(task.to_json(), ensure_ascii=False)
    assert canary in json.dumps(task.to_json(reveal_grounding=True), ensure_ascii=False)


@given(canaries)
def test_the_policys_side_cannot_hold_a_hidden_text(canary: str) -> None:
    view = hidden_task(canary).policy_view()

    assert all(canary not in str(value) for value in vars(view).values())
    assert vars(view).keys() == PolicyView.model_fields.keys()


FAULTS: dict[str, Callable[[str], object]] = {
    "a passage that is a list": lambda c: Grounding([c]),  # pyright: ignore[reportArgumentType]
    "a passage with a surrogate": lambda c: Grounding(f"{c}\ud800"),
    "a passage that is changed": lambda c: setattr(Grounding(c), "_text", c),
    "json of a passage": lambda c: json.dumps(Grounding(c)),
    "a format of a passage": lambda c: f"{Grounding(c):>20}",
    "a text for a passage": lambda c: Task.model_validate(
        {"question": "q", "grounding": c, "rubric": {"criteria": []}}
    ),
    "a text for a rubric": lambda c: Rubric.model_validate({"criteria": c}),
    "a text for a criterion": lambda c: Rubric.model_validate({"criteria": [c]}),
    "a text for a weight": lambda c: Criterion.model_validate({"id": "a", "weight": c}),
    "a list for a text": lambda c: Criterion.model_validate(
        {"id": "a", "weight": 1, "description": [c]}
    ),
    "a text for a list": lambda c: Criterion.model_validate(
        {"id": "a", "weight": 1, "required_elements": c}
    ),
    "two criteria alike": lambda c: Rubric(criteria=(hidden_criterion(c),) * 2),
    "a criterion that is changed": lambda c: setattr(hidden_criterion(c), "name", c),
    "a text that is deleted": lambda c: delattr(hidden_criterion(c), "name"),
    "a rubric without the id": lambda c: Rubric(criteria=(hidden_criterion(c),))["d"],
    "a response that is a list": lambda c: hidden_task(c).judge_view([c]),  # pyright: ignore[reportArgumentType]
    "a view that is changed": lambda c: setattr(
        hidden_task(c).judge_view(c), "response", c
    ),
    "an answer under another key": lambda c: JudgeView.model_validate({"answer": c}),
    "a passage for the policy": lambda c: PolicyView.model_validate(
        {"task_id": "t", "question": "q", "passage": c}
    ),
    "a row of the wrong types": lambda c: Task.from_json(
        {"question": [c], "passage": [c], "criteria": [{"id": "a", "weight": c}]}
    ),
    "a row that is too much": lambda c: Task.from_json(
        {**hidden_task(c).to_json(reveal_grounding=True), "more": c}
    ),
    "a result of the wrong type": lambda c: JudgeResult.model_validate({"outcome": c}),
    "a leak": lambda c: check_no_leak([_leaky(c)], n=2),
}


def _leaky(canary: str) -> Task:
    row = hidden_task(canary).to_json(reveal_grounding=True)
    return Task.from_json({**row, "question": f"before {canary}?"})


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@given(canary=canaries)
def test_no_error_shows_a_hidden_text(
    fault: Callable[[str], object], canary: str
) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError, KeyError)) as caught:
        fault(canary)

    error = caught.value
    shown = [
        str(error),
        repr(error),
        f"{error}",
        *map(str, getattr(error, "__notes__", [])),
    ]
    # The traceback as a logger writes it, with the errors that it shows as causes.
    shown += traceback.format_exception(error)
    assert not any(canary in text for text in shown)


@given(canaries)
def test_no_error_of_a_file_shows_a_hidden_text(
    tmp_path_factory: pytest.TempPathFactory, canary: str
) -> None:
    row = hidden_task(canary).to_json(reveal_grounding=True)
    whole = json.dumps(row, ensure_ascii=False)
    broken = [
        whole[:-1],
        whole.replace(canary, f"{canary}\n", 1),
        whole.replace('"passage"', '"question"'),
        json.dumps({**row, "criteria": [canary]}),
        json.dumps({**row, "question": [canary]}),
        json.dumps([canary]),
    ]
    path: Path = tmp_path_factory.mktemp("broken") / "tasks.jsonl"
    for text in broken:
        path.write_text(text, "utf-8")

        with pytest.raises(ValueError, match=r"tasks\.jsonl") as caught:
            list(read_tasks(path))

        assert canary not in "".join(traceback.format_exception(caught.value))
