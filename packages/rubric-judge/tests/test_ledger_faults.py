"""A ledger that is killed, filled up, torn and shared."""

import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import structlog

from rubric_core import JudgeResult, JudgeView
from rubric_judge import Ledger, LedgerError
from rubric_judge.pool.ledger.store import salvage
from rubric_judge.testing import ScriptedJudge

ViewFactory = Callable[..., JudgeView]

PREAMBLE = """
import sys
from rubric_core import Criterion, Grounding, JudgeResult, JudgeView, Rubric
from rubric_judge import Ledger

rubric = Rubric(criteria=(Criterion(id="c", weight=1.0),))
result = JudgeResult.scored(rubric, {"c": 0.5}, judge="m", reasoning="because " * 100)

def view(name):
    return JudgeView(
        task_id="t", question="q", grounding=Grounding("p"), rubric=rubric,
        response=f"{name} " + "word " * 400,
    )
"""
WRITER = """
name, path = sys.argv[1:]
ledger = Ledger(path)
number = 0
while True:
    one = view(f"{name}-{number}")
    key = ledger.key(one, judge="j")
    ledger.record(key, one, result, judge="j")
    assert ledger.unwritten == 0
    print(key, flush=True)
    number += 1
"""
ON_A_SMALL_DISK = """
import errno, json, os, subprocess
folder = sys.argv[1]
mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", folder]
subprocess.run(mount, check=True)
ledger = Ledger(folder + "/ledger")
keys = []
while ledger.unwritten < 3:
    one = view(len(keys))
    keys.append(ledger.key(one, judge="j"))
    ledger.record(keys[-1], one, result, judge="j")
found = [ledger.find(key) == result for key in keys]
ledger.close()
again = Ledger(folder + "/ledger")
kept = [again.find(key) == result for key in keys]
again.close()
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
still = Ledger(folder + "/ledger", read_only=True)
frozen = [still.find(key) == result for key in keys]
print(json.dumps([found, kept, frozen]))
"""


@pytest.fixture
def scored(make_view: ViewFactory) -> JudgeResult:
    return JudgeResult.scored(
        make_view().rubric, {"names the loss": 1.0, "gives_limit": 0.5}, judge="m"
    )


@pytest.fixture(autouse=True)
def _log_afterwards() -> Generator[None]:
    yield
    structlog.reset_defaults()


def _record(ledger: Ledger, view: JudgeView, result: JudgeResult) -> str:
    key = ledger.key(view, judge="j")
    ledger.record(key, view, result, judge="j")
    return key


@contextmanager
def _full_disk(limit_bytes: int) -> Generator[None]:
    """No file may grow past the limit: writes fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_writers_that_are_killed_at_any_moment_lose_nothing_they_recorded(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger"
    moments = random.Random()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + WRITER, str(name), str(path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in range(5)
    ]
    try:
        # The first to write has them all write into one file at once, from its making on.
        first = writers[0].stdout
        assert first is not None
        said = [[first.readline()], [], [], [], []]
        for writer in writers:
            time.sleep(moments.uniform(0, 0.2))
            writer.send_signal(signal.SIGKILL)
    finally:
        for writer in writers:
            writer.kill()
    for lines, writer in zip(said, writers, strict=True):
        rest, _ = writer.communicate()
        lines.extend(rest.splitlines())
        assert writer.returncode == -signal.SIGKILL
    # A line that the kill cut short is no promise.
    keys = {line.strip() for lines in said for line in lines if len(line.strip()) == 64}
    with Ledger(path) as ledger:
        assert [key for key in keys if ledger.find(key) is None] == []
        unsaid = sum(1 for _ in ledger.entries()) - len(keys)
        assert 0 <= unsaid <= 2 * len(writers)
    assert len(keys) > 100


def test_a_disk_that_fills_up_costs_entries_and_neither_judgements_nor_the_file(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        before = [
            _record(ledger, make_view(f"{n} " + "word " * 400), scored)
            for n in range(20)
        ]
        with _full_disk(150_000), structlog.testing.capture_logs() as logs:
            while ledger.unwritten < 5:
                number = len(before)
                before.append(
                    _record(ledger, make_view(f"{number} " + "word " * 400), scored)
                )
        lost = before[-5:]
        assert [ledger.find(key) for key in before] == [scored] * (len(before) - 5) + [
            None
        ] * 5
        after = _record(ledger, make_view("There is room again."), scored)
        assert ledger.find(after) == scored
    assert [log["event"] for log in logs] == ["judge.ledger.unwritten"]
    with Ledger(tmp_path / "ledger") as ledger:
        assert [key for key in [*before, after] if ledger.find(key) is None] == lost


def test_a_small_disk_of_its_own_fills_up_and_turns_read_only(tmp_path: Path) -> None:
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        subprocess.run([*namespace, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no user namespaces here")
    done = subprocess.run(
        [*namespace, sys.executable, "-c", PREAMBLE + ON_A_SMALL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, kept, frozen = json.loads(done.stdout.splitlines()[-1])
    assert len(found) > 20
    assert found == kept == frozen == [True] * (len(found) - 3) + [False] * 3


def test_a_disk_that_is_full_from_the_start_is_a_clear_error(tmp_path: Path) -> None:
    with _full_disk(5_000), pytest.raises(LedgerError, match="has room") as caught:
        Ledger(tmp_path / "ledger")
    assert str(caught.value).startswith(f"ledger {tmp_path / 'ledger'}: ")
    assert list(tmp_path.iterdir()) == []


def _filled(path: Path, make_view: ViewFactory, scored: JudgeResult) -> list[str]:
    with Ledger(path) as ledger:
        return [
            _record(ledger, make_view(f"{n} " + "word " * 400), scored)
            for n in range(50)
        ]


@pytest.mark.parametrize(
    ("tear", "problem"),
    [
        (lambda _: b"", "whose beginning is lost"),
        (lambda whole: whole[:4096], "damaged"),
        (lambda whole: whole[: len(whole) // 2], "damaged"),
        (lambda whole: whole[:-4096], "damaged"),
        (lambda whole: bytes(4096) + whole[4096:], "whose beginning is lost"),
        (lambda whole: whole[:8192] + bytes(40_000) + whole[48_192:], "damaged"),
        (lambda _: b'{"task_id": "t"}\n', "is no ledger"),
    ],
    ids=["empty", "one page", "half", "last page", "first page", "hole", "text"],
)
def test_a_torn_file_is_refused_and_left_as_it_is(
    tmp_path: Path,
    make_view: ViewFactory,
    scored: JudgeResult,
    tear: Callable[[bytes], bytes],
    problem: str,
) -> None:
    path = tmp_path / "ledger"
    _filled(path, make_view, scored)
    torn = tear(path.read_bytes())
    path.write_bytes(torn)
    for read_only in (False, True):
        with pytest.raises(LedgerError, match=problem) as caught:
            Ledger(path, read_only=read_only)
        assert caught.value.path == path
    assert path.read_bytes() == torn


def test_a_flipped_score_is_never_found(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    path = tmp_path / "ledger"
    keys = _filled(path, make_view, scored)
    whole = path.read_bytes()
    assert whole.count(b'"names the loss":1.0') == 50
    path.write_bytes(whole.replace(b'"names the loss":1.0', b'"names the loss":2.0', 1))
    refused: list[str] = []
    with Ledger(path) as ledger:
        for key in keys:
            try:
                assert ledger.find(key) == scored
            except LedgerError as error:
                refused.append(str(error))
        with pytest.raises(LedgerError, match="its check sum does not fit"):
            list(ledger.entries())
    assert len(refused) == 1
    assert "its check sum does not fit" in refused[0]


def test_a_ledger_of_a_newer_release_and_another_sqlite_file_are_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger"
    Ledger(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")
    with pytest.raises(LedgerError, match=r"schema version 2.*upgrade rubric-judge"):
        Ledger(path)
    other = tmp_path / "other"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE judgements (key TEXT)")
    with pytest.raises(LedgerError, match="SQLite file, but no ledger"):
        Ledger(other)


@pytest.mark.parametrize(
    "edit",
    [
        "CREATE TRIGGER swallow AFTER INSERT ON judgements BEGIN SELECT RAISE(IGNORE); END",
        "DROP TRIGGER no_update",
        "DROP TABLE judgements",
        "ALTER TABLE judgements DROP COLUMN question_sha256",
        "ALTER TABLE judgements RENAME TO kept; CREATE VIEW judgements AS SELECT * FROM kept",
        (
            "ALTER TABLE judgements RENAME TO kept; CREATE TABLE judgements AS SELECT * FROM kept;"
            "UPDATE judgements SET result = CAST(result AS BLOB)"
        ),
    ],
    ids=["new trigger", "no trigger", "no table", "column", "view", "types"],
)
def test_a_ledger_whose_tables_were_changed_is_refused(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult, edit: str
) -> None:
    path = tmp_path / "ledger"
    _filled(path, make_view, scored)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(edit)
    for read_only in (False, True):
        with pytest.raises(LedgerError, match="its tables, views and triggers are not"):
            Ledger(path, read_only=read_only)
    assert salvage(path, to=tmp_path / "saved") in {0, 50}


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_that_no_release_wrote_is_refused(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "ledger"
    Ledger(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(
        LedgerError, match=f"schema version {version}, which no release wrote"
    ):
        Ledger(path)


def test_an_entry_that_is_not_utf8_is_damaged(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    path = tmp_path / "ledger"
    _filled(path, make_view, scored)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"names the loss", b"names the los\xff", 1))
    with Ledger(path) as ledger, pytest.raises(LedgerError, match="damaged"):
        list(ledger.entries())


def test_a_ledger_in_a_folder_that_is_not_there_is_a_clear_error(
    tmp_path: Path,
) -> None:
    with pytest.raises(LedgerError, match="No such file or directory"):
        Ledger(tmp_path / "none" / "ledger")
    with pytest.raises(LedgerError, match="Is a directory"):
        Ledger(tmp_path)


@pytest.mark.anyio
async def test_a_judgement_in_hand_survives_a_disk_that_is_full(
    tmp_path: Path, make_view: ViewFactory
) -> None:
    view = make_view()
    result = await ScriptedJudge().judge(view)
    copy = result.model_dump_json()
    with Ledger(tmp_path / "ledger") as ledger:
        _record(ledger, make_view("x" * 1000), result)
        with _full_disk(1_000):
            _record(ledger, view, result)
        assert ledger.unwritten == 1
    assert result.model_dump_json() == copy


def test_what_goes_into_a_file_that_was_deleted_is_not_taken_for_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_view: ViewFactory,
    scored: JudgeResult,
) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger("ledger") as ledger, structlog.testing.capture_logs() as logged:
        monkeypatch.chdir("/")  # the file is where it was
        _record(ledger, make_view(), scored)
        assert ledger.unwritten == 0
        (tmp_path / "ledger").unlink()
        _record(ledger, make_view("Another."), scored)
        Ledger(tmp_path / "ledger").close()  # another one in its place
        _record(ledger, make_view("A third."), scored)
        assert ledger.unwritten == 2
    assert [entry["error"] for entry in logged] == [
        "the file was deleted, moved or replaced"
    ]


@pytest.mark.parametrize("lost_bytes", [slice(-20_000, None), slice(16_384, 24_576)])
def test_what_is_whole_of_a_damaged_file_can_be_saved(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult, lost_bytes: slice
) -> None:
    path = tmp_path / "ledger"
    keys = _filled(path, make_view, scored)
    torn = bytearray(path.read_bytes())
    torn[lost_bytes] = b"" if lost_bytes.stop is None else bytes(8192)
    path.write_bytes(torn)
    with pytest.raises(LedgerError, match=f"{salvage.__module__}.salvage"):
        Ledger(path)

    kept = salvage(path, to=tmp_path / "saved")

    assert path.read_bytes() == torn
    assert kept >= 40
    with Ledger(tmp_path / "saved") as ledger:
        found = [ledger.find(key) for key in keys]
        assert found.count(scored) == kept
        assert found.count(None) == 50 - kept
        responses = [int(entry.response.split()[0]) for entry in ledger.entries()]
    assert responses == sorted(responses)
    with pytest.raises(LedgerError, match="is there already"):
        salvage(path, to=tmp_path / "saved")


def test_a_ledger_can_be_poured_into_another(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    keys = _filled(tmp_path / "one", make_view, scored)
    with Ledger(tmp_path / "one") as one, Ledger(tmp_path / "both") as both:
        other = _record(both, make_view("Other."), scored)
        for entry in one.entries():
            both.append(entry)
        assert [both.find(key) for key in [other, *keys]] == [scored] * 51
        assert list(both.entries())[1:] == list(one.entries())


def test_a_named_pipe_is_no_ledger_and_nobody_waits_for_its_writer(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read_only in (False, True):
        with pytest.raises(
            LedgerError, match=r"cannot be opened \(this is a named pipe"
        ):
            Ledger(tmp_path / "pipe", read_only=read_only)
    with pytest.raises(LedgerError, match=r"cannot be opened \(this is a named pipe"):
        salvage(tmp_path / "pipe", to=tmp_path / "new")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "pipe"]
