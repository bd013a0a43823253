"""Tasks with a context: what the policy may look up beside the question."""

import hashlib
import json
from pathlib import Path

import pytest

from rubric_core import (
    LeakError,
    PolicyView,
    SchemaError,
    Section,
    Task,
    check_no_leak,
    leaked_ngrams,
    read_tasks,
    write_tasks,
)
from rubric_core.formats.writing import export_tasks

PASSAGE = "The quick brown fox jumps over the lazy dog near the river bank today."
CLOSED: dict[str, object] = {
    "question": "Why does the fox jump?",
    "passage": PASSAGE,
    "criteria": [{"id": "c", "weight": 1, "description": "Says that it jumps."}],
}
SECTIONS = [
    {"doc_hash": "d1", "heading": "Animals: Foxes", "text": f"{PASSAGE} It is red."},
    {"doc_hash": "d2", "text": "Dogs sleep a lot."},
]


def task_of(**fields: object) -> Task:
    return Task.from_json({**CLOSED, **fields})


def test_a_task_with_a_context_comes_back_from_its_row() -> None:
    task = task_of(context=SECTIONS)

    row = json.loads(json.dumps(task.to_json(reveal_grounding=True)))
    assert Task.from_json(row) == task
    assert row["context"] == [SECTIONS[0], {**SECTIONS[1], "heading": ""}]


def test_the_policy_sees_the_context_and_the_judge_does_not() -> None:
    task = task_of(context=SECTIONS)

    assert task.policy_view().context == tuple(map(Section.model_validate, SECTIONS))
    assert "red" not in repr(task.judge_view("It runs."))
    assert task.judge_view("It runs.") == task_of().judge_view("It runs.")


def test_a_context_changes_neither_the_id_nor_what_is_judged() -> None:
    assert task_of(context=SECTIONS).task_id == task_of().task_id == "289b1ff590dc37c1"


def test_a_context_and_a_question_become_a_prompt() -> None:
    view = task_of(context=SECTIONS).policy_view()

    assert view.message == (
        "Read what was found, then answer the question.\n\n"
        f"[1] Animals: Foxes\n{PASSAGE} It is red.\n\n"
        "[2]\nDogs sleep a lot.\n\n"
        "Question: Why does the fox jump?"
    )
    assert view.plain_text == f"{view.message}\nAnswer:"


def test_a_closed_book_task_is_what_it_was(tmp_path: Path) -> None:
    task = task_of()

    assert task.policy_view().message == "Why does the fox jump?"
    assert task.policy_view().plain_text == "Question: Why does the fox jump?\nAnswer:"
    assert task.policy_view().model_dump() == {
        "task_id": task.task_id,
        "question": "Why does the fox jump?",
    }
    assert "context" not in task.to_json() | task.to_json(reveal_grounding=True)
    write_tasks(tmp_path / "tasks.jsonl", [task])
    export_tasks("policy", tmp_path / "policy.jsonl", [task])
    written = [
        hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()[:16]
        for name in ("tasks.jsonl", "policy.jsonl")
    ]
    assert written == ["3082626111404b0e", "9cee54c21b251295"]


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        (
            [],
            "there must be a section at least; a task without a context leaves it out",
        ),
        ([{"doc_hash": "d", "text": " "}], "'context.0.text': there must be a text"),
        ([{"doc_hash": "", "text": "x"}], "'context.0.doc_hash'"),
        ([{"text": "x"}], "'context.0.doc_hash': is missing"),
        ([{"doc_hash": "d", "text": "x"}] * 2, "there must be no section twice"),
        (
            [{"doc_hash": "d", "text": "x", "passage": "y"}],
            "'context.0.passage': is not permitted",
        ),
        (
            [{"doc_hash": "d", "text": "x", "rubric": []}],
            "'context.0.rubric': is not permitted",
        ),
        ("text", "'context': needs a list"),
    ],
)
def test_what_is_no_context_is_refused(context: object, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        task_of(context=context)


def test_a_view_cannot_be_made_with_an_empty_context() -> None:
    with pytest.raises(SchemaError, match="there must be a section"):
        PolicyView(task_id="t", question="q", context=())


def test_what_stands_in_the_context_is_no_leak() -> None:
    asked = "Why does quick brown fox jumps over the lazy dog hold?"

    assert leaked_ngrams(task_of(question=asked))
    assert leaked_ngrams(task_of(question=asked, context=SECTIONS)) == ()


def test_a_passage_run_that_the_context_lacks_is_one() -> None:
    asked = "Why does quick brown fox jumps over the lazy dog hold?"

    (overlap,) = leaked_ngrams(task_of(question=asked, context=SECTIONS[1:]))
    assert (overlap.source, overlap.held_by) == ("passage", "question")


HIDDEN = "Says that a hungry animal leaves the ground to save its strength"


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        (
            {"criteria": [{"id": "why", "weight": 1, "description": HIDDEN}]},
            "criterion why",
        ),
        (
            {"criteria": [{"id": "c", "weight": 1, "scoring_guide": HIDDEN}]},
            "criterion c",
        ),
        (
            {"criteria": [{"id": "c", "weight": 1, "required_elements": [HIDDEN]}]},
            "criterion c",
        ),
        ({"reference_answer": HIDDEN}, "reference answer"),
    ],
)
def test_a_context_that_holds_the_rubric_or_the_reference_is_refused(
    fields: dict[str, object], source: str
) -> None:
    held = [
        SECTIONS[1],
        {"doc_hash": "d3", "heading": "Notes", "text": f"See: {HIDDEN.upper()}."},
    ]
    task = task_of(context=held, **fields)

    (overlap,) = leaked_ngrams(task)
    assert (overlap.source, overlap.held_by, overlap.count) == (source, "context", 5)
    with pytest.raises(
        LeakError, match=f"1 contexts share .*its context 5 with {source}"
    ) as error:
        check_no_leak([task])
    assert error.value.task_ids == (task.task_id,)
    assert "hungry" not in str(error.value)


def test_what_rubric_and_context_both_quote_from_the_passage_is_no_leak() -> None:
    quoted = {"id": "c", "weight": 1, "description": f"Says that {PASSAGE}"}
    task = task_of(criteria=[quoted], reference_answer=PASSAGE, context=SECTIONS)

    assert leaked_ngrams(task) == ()


def test_a_rubric_in_the_question_is_a_leak_even_where_the_context_has_it() -> None:
    quoted = {"id": "c", "weight": 1, "description": PASSAGE}
    asked = "Is it true that the quick brown fox jumps over the lazy dog?"
    overlaps = leaked_ngrams(
        task_of(question=asked, criteria=[quoted], context=SECTIONS)
    )

    assert [(one.source, one.held_by) for one in overlaps] == [
        ("criterion c", "question")
    ]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_contexts_are_kept_in_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("pyarrow")
    tasks = [task_of(context=SECTIONS), task_of(question="What else?")]
    path = tmp_path / f"tasks{suffix}"
    write_tasks(path, tasks)

    assert list(read_tasks(path)) == tasks


def test_a_parquet_file_of_closed_book_tasks_has_no_column_for_a_context(
    tmp_path: Path,
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "tasks.parquet"
    write_tasks(path, [task_of()])

    assert "context" not in parquet.read_schema(path).names


def test_a_context_that_comes_too_late_for_its_column_is_refused(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyarrow")
    tasks = [task_of(question=f"Why {n}?") for n in range(256)]
    with pytest.raises(SchemaError, match="after the first 256 has a context"):
        write_tasks(tmp_path / "tasks.parquet", [*tasks, task_of(context=SECTIONS)])
    assert not (tmp_path / "tasks.parquet").exists()


def test_an_exported_prompt_holds_the_context(tmp_path: Path) -> None:
    task, path = task_of(context=SECTIONS), tmp_path / "policy.jsonl"
    export_tasks("policy", path, [task])

    (row,) = map(json.loads, path.read_text().splitlines())
    assert row["prompt"] == [{"role": "user", "content": task.policy_view().message}]


def test_an_example_for_the_warm_start_has_the_prompt_of_its_task() -> None:
    task = task_of(context=SECTIONS, reference_answer="It flees.")
    example = task.sft_example()

    assert example is not None
    assert example.policy_view() == task.policy_view()
    assert task_of().sft_example() is None
