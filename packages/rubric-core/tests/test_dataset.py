import json
import os
import resource
import stat
import subprocess
import sys
import textwrap
import tracemalloc
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    Criterion,
    DocumentAnalysis,
    Grounding,
    MissingExtraError,
    Rubric,
    RubricFileError,
    SchemaError,
    Task,
    read_tasks,
    write_tasks,
)

SUFFIXES = [".jsonl", ".parquet"]
ROW: dict[str, Any] = {
    "question": "q",
    "passage": "canary",
    "criteria": [{"id": "a", "weight": 2, "description": "canary"}],
}


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def numbered(rubric: Rubric, count: int, passage: str = "passage") -> Iterator[Task]:
    for k in range(count):
        grounding = Grounding(f"{passage} {k}")
        yield Task(question=f"Question {k}?", grounding=grounding, rubric=rubric)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_tasks_come_back_as_they_were_written(
    tmp_path: Path, task: Task, suffix: str
) -> None:
    bare = Task.from_json(ROW)
    path = tmp_path / f"tasks{suffix}"

    assert write_tasks(path, [task, bare]) == 2
    assert list(read_tasks(path)) == [task, bare]
    assert [t.task_id for t in read_tasks(str(path))] == [task.task_id, bare.task_id]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_tasks_make_an_empty_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"tasks{suffix}"

    assert write_tasks(path, []) == 0
    assert list(read_tasks(path)) == []


text = st.text(st.characters(exclude_categories=("Cs",)), max_size=15)
texts = st.lists(text, max_size=3).map(tuple)
criteria = st.builds(
    Criterion,
    id=text.filter(bool),
    weight=st.floats(0.001, 1e6),
    name=text,
    description=text,
    required_elements=texts,
    scoring_guide=text,
    verification_method=text,
    expected_keywords=texts,
    expected_concepts=texts,
)
tasks = st.builds(
    Task,
    question=text.filter(str.strip),
    grounding=text.filter(str.strip).map(Grounding),
    rubric=st.lists(criteria, min_size=1, max_size=3, unique_by=lambda c: c.id).map(
        lambda chosen: Rubric(criteria=tuple(chosen))
    ),
    question_rationale=text,
    document_analysis=st.none()
    | st.builds(DocumentAnalysis, genre=text, contribution=text, concepts=texts),
    doc_hash=text.filter(bool),
    reference_answer=st.none() | text,
)


@given(st.lists(tasks, max_size=3))
def test_both_formats_keep_any_task(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[Task]
) -> None:
    folder = tmp_path_factory.mktemp("tasks")
    for suffix in SUFFIXES:
        write_tasks(folder / f"t{suffix}", chosen)

        assert list(read_tasks(folder / f"t{suffix}")) == chosen


def test_a_line_is_the_papers_json_in_readable_utf_8(
    tmp_path: Path, task: Task
) -> None:
    path = tmp_path / "tasks.jsonl"
    write_tasks(path, [task])

    (line,) = path.read_text("utf-8").splitlines()
    assert json.loads(line) == task.to_json(reveal_grounding=True)
    assert "dN/dt = −λN" in line


def test_blank_lines_are_skipped_and_still_counted(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"\n{json.dumps(ROW)}\n  \t\r\n{json.dumps(ROW)}\r\n\n{{", "utf-8")
    reading = read_tasks(path)

    assert [next(reading), next(reading)] == [Task.from_json(ROW)] * 2
    with pytest.raises(RubricFileError) as caught:
        next(reading)
    assert caught.value.line == 6


def test_the_mark_that_some_editors_put_first_is_skipped(
    tmp_path: Path, task: Task
) -> None:
    path = tmp_path / "tasks.jsonl"
    write_tasks(path, [task, task])
    path.write_bytes(BOM_UTF8 + path.read_bytes())
    assert list(read_tasks(path)) == [task, task]
    path.write_bytes(BOM_UTF8 + b"\n")
    assert list(read_tasks(path)) == []


def test_a_unicode_line_separator_does_not_end_a_line(tmp_path: Path) -> None:
    row = {**ROW, "passage": "one\u2028two\x85three\x0cfour"}
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(row, ensure_ascii=False), "utf-8")

    assert next(read_tasks(path)).grounding.reveal() == row["passage"]


BROKEN = {
    "cut off": (b'{"question": "canary', "not JSON: Unterminated string"),
    "two objects": (b"{} {}", "not JSON: Extra data at column 4"),
    "a list": (b"[]", "one JSON object, not list"),
    "a string": (b'"canary"', "one JSON object, not str"),
    "null": (b"null", "one JSON object, not NoneType"),
    "a repeated key": (
        b'{"question": "q", "question": "canary"}',
        "the same key twice",
    ),
    "latin-1": ('{"question": "é"}'.encode("latin-1"), "not UTF-8 at byte 14"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "BOM"),
    "deep nesting": (b"[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize(("line", "problem"), BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_named(tmp_path: Path, line: bytes, problem: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(json.dumps(ROW).encode() + b"\n" + line + b"\n")

    with pytest.raises(RubricFileError, match=problem) as caught:
        list(read_tasks(path))

    assert (caught.value.path, caught.value.line) == (path, 2)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert "canary" not in str(caught.value)


def criterion_row(**changes: object) -> dict[str, object]:
    return {
        **ROW,
        "criteria": [{"id": "z", "weight": 1}, {**ROW["criteria"][0], **changes}],
    }


WRONG = {
    "missing question": (
        {k: v for k, v in ROW.items() if k != "question"},
        "question",
        "is missing",
    ),
    "missing passage": (
        {k: v for k, v in ROW.items() if k != "passage"},
        "passage",
        "is missing",
    ),
    "missing criteria": (
        {k: v for k, v in ROW.items() if k != "criteria"},
        "criteria",
        "is missing",
    ),
    "empty rubric": ({**ROW, "criteria": []}, "criteria", "at least one criterion"),
    "duplicate ids": (criterion_row(id="z"), "criteria", "'z' occurs more than once"),
    "negative weight": (criterion_row(weight=-1), "criteria.1.weight", "not -1.0"),
    "nan weight": (
        criterion_row(weight=float("nan")),
        "criteria.1.weight",
        "finite number",
    ),
    "infinite weight": (
        criterion_row(weight=float("inf")),
        "criteria.1.weight",
        "finite number",
    ),
    "text for a weight": (
        criterion_row(weight="2"),
        "criteria.1.weight",
        "needs a number",
    ),
    "true for a weight": (
        criterion_row(weight=True),
        "criteria.1.weight",
        "needs a number",
    ),
    "all weights zero": (
        {**ROW, "criteria": [{"id": "a", "weight": 0}]},
        "criteria",
        "positive and finite, not 0.0",
    ),
    "number for a text": ({**ROW, "question": 3}, "question", "needs a text"),
    "unknown key": ({**ROW, "answer": "canary"}, "answer", "not permitted"),
}


@pytest.mark.parametrize(("row", "field", "problem"), WRONG.values(), ids=WRONG)
def test_a_wrong_row_is_named_with_its_field(
    tmp_path: Path, row: object, field: str, problem: str
) -> None:
    path = written(tmp_path / "tasks.jsonl", ROW, ROW, row)

    with pytest.raises(RubricFileError, match=problem) as caught:
        list(read_tasks(path))

    assert (caught.value.path, caught.value.line, caught.value.field) == (
        path,
        3,
        field,
    )
    assert str(caught.value).startswith(f"{path}:3: field {field!r}: ")
    assert "canary" not in str(caught.value)


def test_what_comes_before_a_broken_line_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "tasks.jsonl", ROW, "broken")
    reading = read_tasks(path)

    assert next(reading) == Task.from_json(ROW)
    with pytest.raises(RubricFileError):
        next(reading)


@pytest.mark.parametrize("name", ["tasks.csv", "tasks", "tasks.json"])
def test_another_suffix_is_refused_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(RubricFileError, match=r"\.jsonl or \.parquet"):
        read_tasks(tmp_path / name)
    with pytest.raises(RubricFileError, match=r"\.jsonl or \.parquet"):
        write_tasks(tmp_path / name, [])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_file_is_the_systems_error(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        next(read_tasks(tmp_path / f"absent{suffix}"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_folder_is_the_systems_error(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        write_tasks(tmp_path / "absent" / f"tasks{suffix}", [])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_link_and_a_pipe_stay_what_they_are(
    tmp_path: Path, rubric: Rubric, suffix: str
) -> None:
    real, link, pipe = (
        tmp_path / f"{name}{suffix}" for name in ("real", "link", "pipe")
    )
    link.symlink_to(real)
    os.mkfifo(pipe)

    with pytest.raises(OSError, match=rf"nobody reads this named pipe.*'{pipe}'"):
        write_tasks(pipe, numbered(rubric, 2))
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    for path in (link, pipe):
        write_tasks(path, numbered(rubric, 2))

    through = os.read(reader, 65536)
    os.close(reader)
    assert link.is_symlink()
    assert pipe.is_fifo()
    assert through == real.read_bytes()
    assert len(list(read_tasks(real))) == 2
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_error_in_the_tasks_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, rubric: Rubric, suffix: str
) -> None:
    path = tmp_path / f"tasks{suffix}"
    write_tasks(path, numbered(rubric, 2))
    before = path.read_bytes()

    def interrupted() -> Iterator[Task]:
        yield from numbered(rubric, 1000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_tasks(path, interrupted())

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, rubric: Rubric, suffix: str
) -> None:
    path = tmp_path / f"tasks{suffix}"
    write_tasks(path, numbered(rubric, 2))
    before = path.read_bytes()
    script = textwrap.dedent("""
        import secrets, sys
        from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks

        rubric = Rubric(criteria=(Criterion(id="a", weight=1),))
        tasks = (
            Task(question="q", grounding=Grounding(secrets.token_hex(2000)), rubric=rubric)
            for _ in range(1000)
        )
        try:
            write_tasks(sys.argv[1], tasks)
        except OSError as error:
            print(f"{type(error).__name__} {error}")
    """)

    def limit_file_size() -> None:
        # Python ignores SIGXFSZ, so that a write beyond the limit fails as on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    ended = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        preexec_fn=limit_file_size,  # a limit can only be set in the child
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout.startswith("OSError")
    assert str(path) in ended.stdout
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_unwritable_folder_leaves_nothing(tmp_path: Path, rubric: Rubric) -> None:
    (tmp_path / "tasks.jsonl").mkdir()

    with pytest.raises(IsADirectoryError):
        write_tasks(tmp_path / "tasks.jsonl", numbered(rubric, 1))

    assert [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_a_new_file_has_the_permissions_of_any_new_file(
    tmp_path: Path, rubric: Rubric
) -> None:
    (tmp_path / "other").touch()
    write_tasks(tmp_path / "tasks.jsonl", numbered(rubric, 1))

    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, rubric: Rubric, suffix: str
) -> None:
    path = tmp_path / f"tasks{suffix}"
    write_tasks(path, numbered(rubric, 1))
    list(read_tasks(path))  # imports and caches
    passage = "word " * 2000

    tracemalloc.start()
    count = write_tasks(path, numbered(rubric, 2000, passage))
    for _ in read_tasks(path):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 2000
    assert count * len(passage) >= 20_000_000
    assert peak < 10_000_000


def test_parquet_rows_are_numbered_across_batches(
    tmp_path: Path, rubric: Rubric
) -> None:
    path = tmp_path / "tasks.parquet"
    rows = [task.to_json(reveal_grounding=True) for task in numbered(rubric, 600)]
    rows[555]["question"] = ""
    pq.write_table(pa.Table.from_pylist(rows), path)

    with pytest.raises(RubricFileError) as caught:
        list(read_tasks(path))

    assert (caught.value.line, caught.value.field) == (556, "question")


def test_parquet_of_others_with_nulls_for_absent_fields_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    rows = [
        {
            **ROW,
            "criteria": [{"id": "a", "weight": 1.0, "name": None}],
            "doc_hash": "h",
        },
        {
            **ROW,
            "criteria": [{"id": "a", "weight": 1.0, "name": "n"}],
            "doc_hash": None,
        },
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)

    first, second = read_tasks(path)

    assert (first.rubric["a"].name, first.doc_hash) == ("", "h")
    assert (second.rubric["a"].name, second.doc_hash) == (
        "n",
        Grounding("canary").sha256,
    )


def test_parquet_of_the_wrong_type_is_refused_with_row_and_field(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tasks.parquet"
    rows = [{**ROW, "criteria": [{"id": "a", "weight": "1"}]}]
    pq.write_table(pa.Table.from_pylist(rows), path)

    with pytest.raises(RubricFileError, match="needs a number") as caught:
        list(read_tasks(path))

    assert (caught.value.line, caught.value.field) == (1, "criteria.0.weight")


@pytest.mark.parametrize("damage", ["not parquet", "cut off", "overwritten"])
def test_a_damaged_parquet_file_is_named(
    tmp_path: Path, rubric: Rubric, damage: str
) -> None:
    path = tmp_path / "tasks.parquet"
    write_tasks(path, numbered(rubric, 50))
    content = path.read_bytes()
    damaged = {
        "not parquet": b"question,passage\n",
        "cut off": content[: len(content) // 2],
        "overwritten": content[:4] + b"\xff" * 400 + content[404:],
    }
    path.write_bytes(damaged[damage])

    with pytest.raises(RubricFileError, match="not a readable Parquet file") as caught:
        list(read_tasks(path))

    assert caught.value.path == path


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, rubric: Rubric, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tasks.parquet"
    path.touch()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)

    with pytest.raises(MissingExtraError, match=r"rubric-core\[parquet\]"):
        next(read_tasks(path))
    with pytest.raises(MissingExtraError, match=r"rubric-core\[parquet\]"):
        write_tasks(path, numbered(rubric, 1))

    assert os.listdir(tmp_path) == ["tasks.parquet"]  # noqa: PTH208  # names alone


_ROW = {
    "question": "Why does the fox jump?",
    "passage": "The quick brown fox jumps over the lazy dog.",
    "criteria": [{"id": "c", "weight": 1, "description": "Says that it jumps."}],
}
_OF_A_TURN = {**_ROW, "criteria": [{**_ROW["criteria"][0], "judges": "turn_2"}]}
_CONVERSATION = {
    **_ROW,
    "question": "user: Why?\n\nassistant: Why what?\n\nuser: Why does it jump?",
    "conversation": True,
}


@pytest.mark.parametrize("row", [_OF_A_TURN, _CONVERSATION])
def test_parquet_keeps_conversations_and_what_criteria_judge(
    tmp_path: Path, row: dict[str, object]
) -> None:
    pytest.importorskip("pyarrow")
    tasks = [Task.from_json(row), Task.from_json(_ROW)]
    path = tmp_path / "tasks.parquet"
    write_tasks(path, tasks)

    assert list(read_tasks(path)) == tasks


def test_parquet_of_other_tasks_has_the_columns_of_older_versions(
    tmp_path: Path,
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "tasks.parquet"
    write_tasks(path, [Task.from_json(_ROW)])

    schema = parquet.read_schema(path)
    assert "conversation" not in schema.names
    criterion = schema.field("criteria").type.value_type
    assert "judges" not in [field.name for field in criterion]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (_OF_A_TURN, "has a criterion with `judges`"),
        (_CONVERSATION, "has a conversation"),
    ],
)
def test_what_comes_too_late_for_its_column_is_refused(
    tmp_path: Path, row: dict[str, object], what: str
) -> None:
    pytest.importorskip("pyarrow")
    tasks = [Task.from_json({**_ROW, "question": f"Why {n}?"}) for n in range(256)]
    with pytest.raises(SchemaError, match=f"after the first 256 {what}"):
        write_tasks(tmp_path / "tasks.parquet", [*tasks, Task.from_json(row)])
