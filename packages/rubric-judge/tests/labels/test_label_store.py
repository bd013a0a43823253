"""The file of labels: what was kept stays kept, once, whatever ends the process."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core.errors import FolderLockError, RubricFileError
from rubric_core.files import replacing
from rubric_judge.quality.labels.rows import Label, LabelSource, read_labels
from rubric_judge.quality.labels.sampling import draw, draw_more
from rubric_judge.quality.labels.store import open_labels

MakeLabel = Callable[..., Label]

TYPIST = """
import random, sys
from pathlib import Path
from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_judge.quality.labels.rows import Label, LabelSource
from rubric_judge.quality.labels.store import open_labels

path, seed = Path(sys.argv[1]), sys.argv[2]
rubric = Rubric(criteria=tuple(Criterion(id=name, weight=9.0) for name in "abc"))
task = Task(question="Q?", grounding=Grounding("P."), rubric=rubric)
views = {line: task.judge_view(f"Answer {line}.") for line in range(1, 9)}
generator = random.Random(seed)
with open_labels(path, LabelSource({task.task_id: task}, views)) as store:
    print("open", flush=True)
    while True:
        line, name = generator.randint(1, 8), generator.choice("abc")
        score = generator.randint(0, 9)
        removes = generator.random() < 0.2
        print("try", line, name, "-" if removes else score, flush=True)
        if removes:
            store.remove(("Anna", line, name))
        else:
            store.put(
                Label(line=line, task_id=task.task_id, criterion=name, score=score, rater="Anna")
            )
        print("kept", flush=True)
"""


def test_each_cell_is_there_once_after_scores_second_scores_and_undo(
    tmp_path: Path, source: LabelSource, make_label: MakeLabel
) -> None:
    path = tmp_path / "labels.jsonl"
    with open_labels(path, source) as store:
        store.put(make_label(1, "fact", score=2))
        store.put(make_label(1, "limit", score=None))
        assert json.loads(path.read_text().splitlines()[1])["score"] is None  # already
        store.put(make_label(1, "fact", score=3))
        store.put(make_label(1, "fact", score=1, rater="Ben"))
        store.put(make_label(2, "fact", score=1))
        store.remove(("Anna", 2, "fact"))
        store.remove(("Anna", 2, "fact"))

        assert store.raters() == {"Anna": 2, "Ben": 1}
    kept = [(one.rater, one.criterion, one.score) for one in read_labels(path, source)]
    assert kept == [
        ("Anna", "fact", 3.0),
        ("Anna", "limit", None),
        ("Ben", "fact", 1.0),
    ]
    assert [one.name for one in tmp_path.iterdir()] == ["labels.jsonl"]


def test_the_same_score_a_second_time_writes_nothing(
    tmp_path: Path, source: LabelSource, make_label: MakeLabel
) -> None:
    path = tmp_path / "labels.jsonl"
    with open_labels(path, source) as store:
        store.put(make_label(at=1.0))
        before = path.stat()
        store.put(make_label(at=2.0))

        assert (path.stat().st_ino, path.stat().st_size) == (
            before.st_ino,
            before.st_size,
        )


@given(
    steps=st.lists(
        st.tuples(
            st.integers(1, 3),
            st.sampled_from(["fact", "limit"]),
            st.sampled_from(["Anna", "Ben"]),
            st.one_of(st.just("undo"), st.none(), st.floats(0, 1)),
        ),
        max_size=12,
    ),
    opened=st.integers(0, 12),
)
def test_the_file_is_what_was_done_last_also_when_opened_again(
    tmp_path_factory: pytest.TempPathFactory,
    source: LabelSource,
    make_label: MakeLabel,
    steps: list[tuple[int, str, str, float | str | None]],
    opened: int,
) -> None:
    path = tmp_path_factory.mktemp("labels") / "labels.jsonl"
    expected: dict[tuple[str, int, str], float | None] = {}
    for some in (steps[:opened], steps[opened:]):
        with open_labels(path, source) as store:
            for line, criterion, rater, score in some:
                if isinstance(score, str):
                    store.remove((rater, line, criterion))
                    expected.pop((rater, line, criterion), None)
                else:
                    store.put(make_label(line, criterion, rater=rater, score=score))
                    expected[rater, line, criterion] = score

    assert {one.cell: one.score for one in read_labels(path, source)} == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("score", value) for value in ("2", " 2 ", True, False, math.nan, -1, [1])),
        *(
            ("rater", value)
            for value in ("", "  ", "A\0", "A\u202eb", "A\u200bb", "\u2800", 3)
        ),
        *(("inclusion", value) for value in (True, "0.5")),
        ("at", "1"),
        ("line", True),
    ],
)
def test_what_is_no_score_or_rater_is_refused_in_a_file_too(
    tmp_path: Path,
    source: LabelSource,
    make_label: MakeLabel,
    field: str,
    value: object,
) -> None:
    path = tmp_path / "labels.jsonl"
    row = json.loads(make_label(2).line_of_file()) | {field: value}
    path.write_bytes(make_label().line_of_file() + json.dumps(row).encode())

    with pytest.raises(RubricFileError, match=rf"labels\.jsonl:2: field '{field}': "):
        list(read_labels(path, source))


def test_names_of_all_scripts_are_raters_and_blanks_around_them_do_not_count(
    tmp_path: Path, source: LabelSource, make_label: MakeLabel
) -> None:
    path = tmp_path / "labels.jsonl"
    names = ["Zoë Müller", "山田\u3000太郎", "محمد", "नेहा", "o'Neil@example.org"]
    rows = [
        json.loads(make_label().line_of_file()) | {"rater": f" {name} "}
        for name in names
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [one.rater for one in read_labels(path, source)] == names

    path.write_text(
        "".join(
            json.dumps(row | {"rater": n}) + "\n"
            for row in rows[:1]
            for n in ("A", "A ")
        )
    )
    with pytest.raises(
        RubricFileError, match=r":2: .*labels criterion 'fact' .* again"
    ):
        list(read_labels(path, source))


def test_a_second_process_is_refused_while_the_first_labels(
    tmp_path: Path, source: LabelSource
) -> None:
    path, link = tmp_path / "labels.jsonl", tmp_path / "link.jsonl"
    with open_labels(path, source):
        link.symlink_to(path)
        for one in (path, link):
            with (
                pytest.raises(
                    FolderLockError,
                    match=rf"in use by another process, pid {os.getpid()}",
                ),
                open_labels(one, source),
            ):
                pass
    with open_labels(link, source):
        pass


@pytest.mark.parametrize(
    "torn", ['{"li', '{"line":3,"task_id":"task0","criterion":"fa', "{"]
)
def test_a_line_that_a_crash_has_torn_is_cut_off(
    tmp_path: Path, source: LabelSource, make_label: MakeLabel, torn: str
) -> None:
    path = tmp_path / "labels.jsonl"
    whole = make_label().line_of_file().decode()
    path.write_text(whole + torn)
    with open_labels(path, source) as store:
        store.put(make_label(2))

    assert [one.line for one in read_labels(path, source)] == [1, 2]


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (
            '{"line":2,"task_id":"t","criterion":"fact","score":1,"rater":"A","x":1}',
            "field 'x'",
        ),
        (
            '{"line":2,"task_id":"t","criterion":"fact","score":"one","rater":"A"}',
            "field 'score'",
        ),
        ('{"line":2,"task_id":"t","criterion":"fact","score":1}{"line":3}', "JSON"),
        ('{"line":2,"task_id":"t","criterion":"fact","score":1]', "JSON"),
        ('{"line":2}', "field 'task_id'"),
    ],
)
def test_a_last_line_that_is_whole_and_no_label_is_refused_and_kept(
    tmp_path: Path, source: LabelSource, make_label: MakeLabel, last: str, told: str
) -> None:
    path = tmp_path / "labels.jsonl"
    content = make_label().line_of_file() + last.encode()
    path.write_bytes(content)

    with (
        pytest.raises(RubricFileError, match=rf"labels\.jsonl:2: .*{told}"),
        open_labels(path, source),
    ):
        pass
    assert path.read_bytes() == content


@given(cut=st.integers(1, 200))
def test_a_label_torn_at_any_byte_is_cut_off(
    tmp_path_factory: pytest.TempPathFactory,
    source: LabelSource,
    make_label: MakeLabel,
    cut: int,
) -> None:
    path = tmp_path_factory.mktemp("labels") / "labels.jsonl"
    torn = make_label(2, rater="Zoë 🦉", at=1e9).line_of_file().rstrip()
    path.write_bytes(make_label().line_of_file() + torn[: min(cut, len(torn) - 1)])

    with open_labels(path, source) as store:
        assert store.raters() == {"Anna": 1}


def test_a_last_line_without_its_end_is_ended(
    tmp_path: Path, source: LabelSource, make_label: MakeLabel
) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_bytes(make_label().line_of_file().rstrip())
    with open_labels(path, source) as store:
        store.put(make_label(2))

    assert [one.line for one in read_labels(path, source)] == [1, 2]


def test_a_file_that_is_something_else_stays_as_it_is(
    tmp_path: Path, source: LabelSource
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\nand more")

    with (
        pytest.raises(RubricFileError, match=r"notes\.txt:1: .*JSON Lines"),
        open_labels(path, source),
    ):
        pass
    assert path.read_text() == "my notes\nand more"


@pytest.mark.parametrize("change", ["append", "replace", "remove", "edit"])
def test_a_file_that_another_program_changes_is_not_written_over(
    tmp_path: Path, source: LabelSource, make_label: MakeLabel, change: str
) -> None:
    path = tmp_path / "labels.jsonl"
    with open_labels(path, source) as store:
        store.put(make_label())
        other = make_label(2).line_of_file()
        if change == "append":
            path.write_bytes(path.read_bytes() + other)
        elif change == "edit":
            time.sleep(0.02)  # a file system's clock ticks in steps
            path.write_bytes(path.read_bytes().replace(b'"score":1.0', b'"score":2.0'))
        else:
            path.unlink()
        if change == "replace":
            path.write_bytes(other)
        changed = path.read_bytes() if path.exists() else None
        for act in (
            lambda: store.put(make_label(3)),
            lambda: store.put(make_label(score=0)),
            lambda: store.remove(make_label().cell),
        ):
            with pytest.raises(
                RubricFileError, match="another program has changed this file"
            ):
                act()
    assert (path.read_bytes() if path.exists() else None) == changed
    assert (changed is None) == (change == "remove")


def test_a_label_that_does_not_fit_the_disk_leaves_the_file_as_it_was(
    tmp_path: Path,
    source: LabelSource,
    make_label: MakeLabel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "labels.jsonl"

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with open_labels(path, source) as store:
        store.put(make_label())
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            for label in (make_label(2), make_label(score=0)):
                with pytest.raises(OSError, match="No space left"):
                    store.put(label)
            assert path.read_bytes() == before
            assert [one.score for one in store.of("Anna")] == [1.0]
        store.put(make_label(2))
        store.put(make_label(score=0))
    assert [(one.line, one.score) for one in read_labels(path, source)] == [
        (1, 0.0),
        (2, 1.0),
    ]


def test_what_a_kill_left_of_a_rewrite_is_removed_and_nothing_else(
    tmp_path: Path, source: LabelSource, make_label: MakeLabel
) -> None:
    path = tmp_path / "a[b].jsonl"
    path.write_bytes(make_label().line_of_file())
    with replacing(path) as file:
        left = Path(file.name)
        file.write(path.read_bytes())
    others = [".ab.jsonl.0123abcd.tmp", ".a[b].jsonl.mine.tmp", ".b.jsonl.0123abcd.tmp"]
    for name in (left.name, *others):
        (tmp_path / name).write_bytes(b"{")
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)

    with open_labels(link, source) as store:
        assert len(store) == 1
        assert not left.exists()
        left.write_bytes(b"{")
        with pytest.raises(FolderLockError), open_labels(path, source):
            pass
        assert left.exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(
        [path.name, link.name, left.name, *others]
    )


@pytest.mark.slow
def test_no_kill_loses_or_doubles_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    state: dict[tuple[str, str], float] = {}
    for seed in range(8):
        said = _typed_until_killed(path, seed)
        steps = [words.split()[1:] for words in said if words.startswith("try")]
        kept = said.count("kept")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        found = {(str(row["line"]), row["criterion"]): row["score"] for row in rows}

        assert len(found) == len(rows)
        # The last step may be in the file although the kill came before it was said.
        assert found in [_after(state, steps[:count]) for count in {kept, len(steps)}]
        state = found
    assert state


def _typed_until_killed(path: Path, seed: int) -> list[str]:
    words = [sys.executable, "-c", TYPIST, str(path), str(seed)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as typist:
        assert typist.stdout is not None
        assert typist.stdout.readline() == "open\n"
        said = [
            typist.stdout.readline() for _ in range(random.Random(seed).randint(3, 200))
        ]
        typist.send_signal(signal.SIGKILL)
        rest = typist.stdout.read().splitlines(keepends=True)
    return [line.strip() for line in said + rest if line.endswith("\n")]


def _after(
    state: dict[tuple[str, str], float], steps: list[list[str]]
) -> dict[tuple[str, str], float]:
    state = dict(state)
    for line, name, score in steps:
        if score == "-":
            state.pop((line, name), None)
        else:
            state[line, name] = float(score)
    return state


def test_labels_of_a_smaller_count_are_weighed_anew_and_those_of_another_draw_refused(
    tmp_path: Path, source: LabelSource, make_label: MakeLabel
) -> None:
    path = tmp_path / "labels.jsonl"
    first, both = draw_more(source, {}, counts=[20, 60], seed=1)
    with open_labels(path, source) as store:
        store.belong_to([first])
        for one in first:
            store.put(make_label(one.line, inclusion=one.inclusion))
        before = path.read_bytes()
        for other in (
            draw(source, {}, count=20, seed=2),
            draw(source, {}, count=60, seed=1),
        ):
            with pytest.raises(
                RubricFileError, match="labels of another draw: of response"
            ):
                store.belong_to([other])
        assert path.read_bytes() == before
        store.belong_to([first, both])
        store.belong_to([first, both])
        with pytest.raises(RubricFileError, match="larger --count after that one"):
            store.belong_to([first])

    written = list(read_labels(path, source))
    assert [one.line for one in written] == [one.line for one in first]
    assert [one.inclusion for one in first] == pytest.approx([0.25] * 5)
    assert [one.inclusion for one in written] == pytest.approx([0.75] * 5)
