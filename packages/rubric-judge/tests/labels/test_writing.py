"""Written answers: their file, whatever ends the process, and the tasks they are drawn for."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_core.errors import FolderLockError, RubricFileError
from rubric_judge.quality.labels.likeness import longest_shared_run, words
from rubric_judge.quality.labels.writing import (
    draw_tasks,
    open_written,
    tasks_in_order,
    written_answer,
)
from rubric_judge.quality.labels.written import (
    Truth,
    WrittenAnswers,
    is_blank,
    read_written,
)

RUBRIC = Rubric(
    criteria=(Criterion(id="fact", weight=2.0, description="Says that it is."),)
)
TASKS = [
    Task(
        question=f"Question {p}?",
        grounding=Grounding(f"Passage {p // 3}."),
        rubric=RUBRIC,
    )
    for p in range(12)
]
KNOWN = {task.task_id: task for task in TASKS}

WRITER = """
import random, sys
from pathlib import Path
from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_judge.quality.labels.writing import open_written, written_answer
from rubric_judge.quality.labels.written import Truth

path, seed = Path(sys.argv[1]), sys.argv[2]
rubric = Rubric(criteria=(Criterion(id="fact", weight=2.0, description="Says that it is."),))
tasks = [
    Task(question=f"Question {p}?", grounding=Grounding("Passage."), rubric=rubric)
    for p in range(6)
]
generator = random.Random(seed)
with open_written(path, {task.task_id: task for task in tasks}) as store:
    print("open", flush=True)
    while True:
        task, truth = generator.choice(tasks), generator.choice(list(Truth))
        text = "" if generator.random() < 0.2 else "x" * generator.randint(1, 2000)
        print("try", task.question[9], truth, len(text), flush=True)
        if text:
            store.put([written_answer(task, truth, text, author="Anna")])
        else:
            store.remove("Anna", task.task_id, truth)
        print("kept", flush=True)
"""


def _texts(path: Path) -> list[tuple[str | None, Truth, str, str]]:
    return [
        (one.task_id, one.truth, one.response, one.author)
        for _, one in read_written(path)
    ]


def test_each_box_is_there_once_after_it_was_written_changed_and_emptied(
    tmp_path: Path,
) -> None:
    path, (first, second, *_) = tmp_path / "written_answers.jsonl", TASKS
    with open_written(path, KNOWN) as store:
        store.put([written_answer(first, Truth.RIGHT, "One.", author="Anna")])
        assert json.loads(path.read_text())["response"] == "One."  # already
        store.put([written_answer(first, Truth.RIGHT, "Two.", author="Anna")])
        before = path.stat()
        store.put([written_answer(first, Truth.RIGHT, "Two.", author="Anna")])
        assert path.stat() == before
        store.put([written_answer(first, Truth.RIGHT, "Three.", author="Ben")])
        both = [
            written_answer(second, one, one, author="m", by_model=True) for one in Truth
        ]
        store.put(both)
        store.remove("Ben", first.task_id, Truth.RIGHT)
        store.remove("Ben", first.task_id, Truth.RIGHT)

        assert (store.authors(), store.authors(by_model=True)) == (
            {"Anna": 1},
            {"m": 2},
        )
        assert store.of("m") == {}
    assert _texts(path) == [
        (first.task_id, Truth.RIGHT, "Two.", "Anna"),
        (second.task_id, Truth.RIGHT, "right", "m"),
        (second.task_id, Truth.FALSE, "false", "m"),
    ]
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert (
        WrittenAnswers(tmp_path).to(TASKS).texts[Truth.RIGHT][first.task_id] == "Two."
    )


def test_what_is_of_no_task_here_stays_and_what_has_no_id_is_of_the_task_that_asks_it(
    tmp_path: Path,
) -> None:
    path, (first, second, third, *_) = tmp_path / "written.jsonl", TASKS
    strange = {
        "question": "Another?",
        "truth": "right",
        "response": "Yes.",
        "author": "Anna",
    }
    lines = [strange, strange, {**strange, "question": first.question}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with open_written(path, KNOWN) as store:
        assert (store.strange, store.authors()) == (2, {"Anna": 1})
        store.put([written_answer(first, Truth.RIGHT, "No.", author="Anna")])
        store.put([written_answer(second, Truth.RIGHT, "No.", author="Anna")])
    with open_written(path, {third.task_id: third}) as store:
        assert (store.strange, len(store)) == (4, 4)
    found = [(question, text) for _, _, text, _ in _texts(path) for question in [text]]
    assert [text for _, text in found] == ["Yes.", "Yes.", "No.", "No."]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"question": "Another?"}, "another version of the question of task"),
        ({"rubric_sha256": "0"}, "another version of the rubric of task"),
        ({}, "'Anna' has written a second answer .* that is right, as line 1 is"),
        ({"truth": "perhaps"}, "truth is right or false"),
        ({"response": " "}, "must hold a text"),
    ],
)
def test_a_line_that_does_not_fit_is_refused_with_its_place(
    tmp_path: Path, change: dict[str, str], told: str
) -> None:
    path = tmp_path / "written.jsonl"
    line = written_answer(TASKS[0], Truth.RIGHT, "Yes.", author="Anna").line_of_file()
    content = line + json.dumps(json.loads(line) | change).encode() + b"\n"
    path.write_bytes(content)
    with (
        pytest.raises(RubricFileError, match=rf"written\.jsonl:2: .*{told}"),
        open_written(path, KNOWN),
    ):
        pass
    assert path.read_bytes() == content


@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(Truth),
            st.sampled_from(["Anna", "Ben"]),
            st.text(st.characters(codec="utf-8"), max_size=5),
        ),
        max_size=10,
    ),
    opened=st.integers(0, 10),
)
def test_the_file_is_what_was_done_last_also_when_opened_again(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, Truth, str, str]],
    opened: int,
) -> None:
    path = tmp_path_factory.mktemp("written") / "written.jsonl"
    expected: dict[tuple[str | None, Truth, str], str] = {}
    for some in (steps[:opened], steps[opened:]):
        with open_written(path, KNOWN) as store:
            for p, truth, author, text in some:
                place = TASKS[p].task_id, truth, author
                if not is_blank(text):
                    store.put([written_answer(TASKS[p], truth, text, author=author)])
                    expected[place] = text
                else:
                    store.remove(author, TASKS[p].task_id, truth)
                    expected.pop(place, None)
    found = {(task, truth, author): text for task, truth, text, author in _texts(path)}
    assert found == expected


@given(cut=st.integers(1, 300))
def test_an_answer_torn_at_any_byte_is_cut_off(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("written") / "written.jsonl"
    whole = written_answer(TASKS[0], Truth.RIGHT, "Yes.", author="Anna").line_of_file()
    torn = (
        written_answer(TASKS[0], Truth.FALSE, "Nö 🦉", author="Zoë")
        .line_of_file()
        .rstrip()
    )
    path.write_bytes(whole + torn[: min(cut, len(torn) - 1)])
    with open_written(path, KNOWN) as store:
        assert store.authors() == {"Anna": 1}


@pytest.mark.parametrize("change", ["append", "remove", "edit"])
def test_a_file_that_another_program_changes_is_not_written_over(
    tmp_path: Path, change: str
) -> None:
    path, answer = tmp_path / "written.jsonl", written_answer
    with open_written(path, KNOWN) as store:
        store.put([answer(TASKS[0], Truth.RIGHT, "Yes.", author="Anna")])
        if change == "remove":
            path.unlink()
        else:
            time.sleep(0.02)  # a file system's clock ticks in steps
            other = answer(TASKS[1], Truth.RIGHT, "Yes.", author="Ben").line_of_file()
            content = path.read_bytes()
            path.write_bytes(
                content + other
                if change == "append"
                else content.replace(b"Yes", b"Not")
            )
        changed = path.read_bytes() if path.exists() else None
        for act in (
            lambda: store.put([answer(TASKS[2], Truth.RIGHT, "Yes.", author="Anna")]),
            lambda: store.put([answer(TASKS[0], Truth.RIGHT, "No.", author="Anna")]),
            lambda: store.remove("Anna", TASKS[0].task_id, Truth.RIGHT),
        ):
            with pytest.raises(
                RubricFileError, match="another program has changed this file"
            ):
                act()
    assert (path.read_bytes() if path.exists() else None) == changed


def test_a_pair_that_does_not_fit_the_disk_is_not_kept_in_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "written.jsonl"

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    pair = [written_answer(TASKS[0], truth, "Yes.", author="Anna") for truth in Truth]
    with open_written(path, KNOWN) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space left"):
                store.put(pair)
        assert (path.read_bytes(), store.authors()) == (b"", {})
        store.put(pair)
    assert len(_texts(path)) == 2


def test_a_second_process_is_refused_while_the_first_writes(tmp_path: Path) -> None:
    path = tmp_path / "written.jsonl"
    with (
        open_written(path, KNOWN),
        pytest.raises(FolderLockError, match=f"pid {os.getpid()}"),
        open_written(path, KNOWN),
    ):
        pass


@pytest.mark.slow
def test_no_kill_loses_or_doubles_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "written.jsonl"
    state: dict[tuple[str, str], int] = {}
    for seed in range(6):
        said = _written_until_killed(path, seed)
        steps = [words.split()[1:] for words in said if words.startswith("try")]
        kept = said.count("kept")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        found = {
            (row["question"][9], row["truth"]): len(row["response"]) for row in rows
        }

        assert len(found) == len(rows)
        # The last step may be in the file although the kill came before it was said.
        assert found in [_after(state, steps[:count]) for count in {kept, len(steps)}]
        state = found
    assert state
    assert [one.name for one in tmp_path.iterdir() if "lock" not in one.name] == [
        path.name
    ]


def _written_until_killed(path: Path, seed: int) -> list[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        said = [
            writer.stdout.readline() for _ in range(random.Random(seed).randint(3, 100))
        ]
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines(keepends=True)
    return [line.strip() for line in said + rest if line.endswith("\n")]


def _after(
    state: dict[tuple[str, str], int], steps: list[list[str]]
) -> dict[tuple[str, str], int]:
    state = dict(state)
    for question, truth, length in steps:
        state[question, truth] = int(length)
    return {place: length for place, length in state.items() if length}


def test_tasks_are_drawn_over_all_documents_and_more_of_them_hold_the_fewer() -> None:
    drawn = [draw_tasks(TASKS, count=count, seed=1) for count in range(13)]
    for count, found in enumerate(drawn):
        assert found == drawn[-1][:count]
        per_document = Counter(task.doc_hash for task in found)
        assert max(per_document.values(), default=0) <= -(-count // 4)
    assert {task.task_id for task in drawn[-1]} == set(KNOWN)
    assert (
        draw_tasks(TASKS, count=None, seed=1)
        == drawn[-1]
        != draw_tasks(TASKS, count=None, seed=2)
    )
    anna, ben = (
        tasks_in_order(drawn[-1], author=name, seed=1) for name in ("Anna", "Ben")
    )
    assert anna != ben
    assert anna == tasks_in_order(drawn[-1], author="Anna", seed=1)
    assert set(map(id, anna)) == set(map(id, ben))


def test_shared_runs_are_counted_in_words_whatever_their_case_and_marks() -> None:
    assert words("Don't use `keep_dims=True`, 1.5 times!") == [
        "don't", "use", "keep_dims", "true", "1.5", "times",
    ]  # fmt: skip
    assert (
        longest_shared_run(
            "The first, of ALL maxima", ["is the first of all", "maxima"]
        )
        == 4
    )
    assert longest_shared_run("a a a b", ["a a a a"]) == 3
    assert longest_shared_run("", ["a"]) == longest_shared_run("a", []) == 0


@given(
    st.lists(st.sampled_from("abc"), max_size=8),
    st.lists(st.sampled_from("abc"), max_size=8),
)
def test_the_longest_shared_run_is_that_of_all_runs(
    one: list[str], other: list[str]
) -> None:
    def runs(text: list[str]) -> set[tuple[str, ...]]:
        return {
            tuple(text[i:j]) for i in range(len(text)) for j in range(i, len(text) + 1)
        }

    longest = max(map(len, runs(one) & runs(other)), default=0)
    assert longest_shared_run(" ".join(one), [" ".join(other)]) == longest
