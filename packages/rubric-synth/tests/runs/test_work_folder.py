"""What the work folder makes of killed writers, damaged files and a second run."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from rubric_core import FolderLockError, Usage
from rubric_synth import OutputError, load_config, synthesise
from rubric_synth.calls import CallRecord
from rubric_synth.document import DocumentOutcome, Rejection, RejectionReason
from rubric_synth.errors import WorkFolderError
from rubric_synth.run.dataset.folder import WORK_FOLDER
from rubric_synth.run.work.folder import WorkFolder
from rubric_synth.run.work.index import note_of_finished
from rubric_synth.run.work.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_DOCUMENTS = [f"{number:064x}" for number in range(20)]
_SETTINGS = b"s" * 16


class _Asked(NamedTuple):
    doc_hash: str
    settings: bytes


def _record(number: int, text: str = "an answer") -> CallRecord:
    usage = Usage(prompt_tokens=10, completion_tokens=5, cost_usd=0.25)
    return CallRecord(key=f"{number:064x}", stage="analyse", text=text, usage=usage)


def _outcome(
    document: str, reason: RejectionReason = RejectionReason.LEAK
) -> DocumentOutcome:
    rejection = Rejection(source="a", stage="quality", reason=reason, doc_hash=document)
    return DocumentOutcome(source="a", doc_hash=document, rejections=(rejection,))


def _is_settled(work: WorkFolder, document: str, settings: bytes) -> bool | None:
    ((_, is_settled),) = work.settled([_Asked(document, settings)])
    return is_settled


def _fill(path: Path) -> None:
    with WorkFolder(path) as work:
        for number, document in enumerate(_DOCUMENTS):
            work.add_call(document, _record(number))
            work.add_outcome(_outcome(document), _SETTINGS)


def test_a_pipe_in_place_of_a_file_is_an_error_and_not_waited_for(
    tmp_path: Path,
) -> None:
    whole = tmp_path / "whole"
    _fill(whole)
    names = [file.name for file in whole.iterdir()]
    assert len(names) > 2
    for name in names:
        path = tmp_path / f"without {name}"
        shutil.copytree(whole, path)
        (path / name).unlink()
        os.mkfifo(path / name)
        with (
            pytest.raises((WorkFolderError, OutputError), match=name),
            WorkFolder(path),
        ):
            pass
        assert note_of_finished(path, "report") is None


def _is_whole(path: Path) -> bool:
    with WorkFolder(path) as work:
        spent = work.index.spent()["analyse"]
        return (spent.calls, spent.cost_usd, spent.unpriced_calls) == (
            20,
            5.0,
            0,
        ) and all(
            work.calls_of(document) == (_record(number),)
            and next(work.outcomes([_Asked(document, _SETTINGS)])) == _outcome(document)
            for number, document in enumerate(_DOCUMENTS)
        )


def test_calls_and_outcomes_come_back_as_they_were(tmp_path: Path) -> None:
    _fill(tmp_path)
    assert _is_whole(tmp_path)
    with WorkFolder(tmp_path) as work:
        assert work.calls_of("f" * 64) == ()
        assert _is_settled(work, _DOCUMENTS[0], b"other" * 3) is None


def test_the_latest_outcome_counts(tmp_path: Path) -> None:
    with WorkFolder(tmp_path) as work:
        work.add_outcome(
            _outcome(_DOCUMENTS[0], RejectionReason.MODEL_UNAVAILABLE), _SETTINGS
        )
    with WorkFolder(tmp_path) as work:
        assert _is_settled(work, _DOCUMENTS[0], _SETTINGS) is False
        work.add_outcome(_outcome(_DOCUMENTS[0]), _SETTINGS)
    for path in tmp_path.glob("index*"):
        path.unlink()
    with WorkFolder(tmp_path) as work:
        assert _is_settled(work, _DOCUMENTS[0], _SETTINGS) is True


def test_what_was_just_added_is_found_and_of_two_outcomes_the_later(
    tmp_path: Path,
) -> None:
    with WorkFolder(tmp_path) as work:
        work.add_call(_DOCUMENTS[0], _record(0))
        assert work.calls_of(_DOCUMENTS[0]) == (_record(0),)
        for reason in (RejectionReason.MODEL_UNAVAILABLE, RejectionReason.LEAK):
            work.add_outcome(_outcome(_DOCUMENTS[1], reason), _SETTINGS)
        work.add_outcome(
            _outcome(_DOCUMENTS[1], RejectionReason.JUDGE_UNAVAILABLE), b"t" * 16
        )
        assert _is_settled(work, _DOCUMENTS[1], _SETTINGS) is True
        assert _is_settled(work, _DOCUMENTS[1], b"t" * 16) is False
        assert _is_settled(work, _DOCUMENTS[0], _SETTINGS) is None


def test_outcomes_of_many_documents_come_in_the_order_they_are_asked_for(
    tmp_path: Path,
) -> None:
    _fill(tmp_path)
    asked = [_Asked(f"{number:064x}", _SETTINGS) for number in range(150, -1, -1)]
    with WorkFolder(tmp_path) as work:
        found = [outcome.doc_hash for outcome in work.outcomes(asked)]
        states = dict(work.settled(asked))
    assert found == _DOCUMENTS[::-1]
    assert [one.doc_hash for one in asked if states[one] is not None] == found


def test_a_line_is_what_its_model_would_be_written_as(tmp_path: Path) -> None:
    task = {
        "weights": [1e-07, 1e16, float("inf"), float("nan"), 2**70, -0.0],
        "text": "é\x7f\n",
    }
    outcome = DocumentOutcome(source="ü", doc_hash=_DOCUMENTS[0], tasks=(task,))
    with WorkFolder(tmp_path) as work:
        work.add_call(_DOCUMENTS[0], _record(0, 'a "quoted" \u2028 answer\x00'))
        work.add_outcome(outcome, _SETTINGS)
    call = _record(0, 'a "quoted" \u2028 answer\x00').model_dump_json()
    for name, body in (
        ("calls", f'{{"document":"{_DOCUMENTS[0]}","call":{call}}}'),
        (
            "shard",
            f'{{"settings":"{_SETTINGS.hex()}","outcome":{outcome.model_dump_json()}}}',
        ),
    ):
        line = (tmp_path / f"{name}-00000.jsonl").read_bytes()
        assert line.partition(b'"body":')[2] == body.encode() + b"}\n"


def test_text_that_no_utf8_can_hold_comes_back(tmp_path: Path) -> None:
    with WorkFolder(tmp_path) as work:
        work.add_call(_DOCUMENTS[0], _record(0, "half \ud83d a pair"))
    with WorkFolder(tmp_path) as work:
        assert work.calls_of(_DOCUMENTS[0])[0].text == "half \ud83d a pair"


def test_half_a_line_at_the_end_is_left_out_and_the_rest_goes_on(
    tmp_path: Path,
) -> None:
    _fill(tmp_path)
    for name in ("calls", "shard"):
        with (tmp_path / f"{name}-00000.jsonl").open("ab") as file:
            file.write(b'{"sum":"0123abcd","body":{"document":"')
    assert _is_whole(tmp_path)
    with WorkFolder(tmp_path) as work:
        work.add_call("f" * 64, _record(99))
    assert (tmp_path / "calls-00001.jsonl").exists()
    with WorkFolder(tmp_path) as work:
        assert work.calls_of("f" * 64) == (_record(99),)


def test_lines_that_were_never_indexed_are_found_again(tmp_path: Path) -> None:
    _fill(tmp_path)
    aside = {path.name: path.read_bytes() for path in tmp_path.glob("index*")}
    with WorkFolder(tmp_path) as work:
        work.add_call("f" * 64, _record(99))
        work.add_outcome(_outcome("f" * 64), _SETTINGS)
    for name, content in aside.items():
        (tmp_path / name).write_bytes(content)
    with WorkFolder(tmp_path) as work:
        assert work.calls_of("f" * 64) == (_record(99),)
        assert _is_settled(work, "f" * 64, _SETTINGS)
    assert _is_whole(tmp_path) is False  # spent: one call more


def test_a_deleted_index_is_made_again(tmp_path: Path) -> None:
    _fill(tmp_path)
    (tmp_path / "index.sqlite").unlink()
    assert _is_whole(tmp_path)


@pytest.mark.parametrize("damage", [b"no database at all" * 100, None])
def test_a_damaged_index_is_said_and_deleting_it_loses_nothing(
    tmp_path: Path, damage: bytes | None
) -> None:
    _fill(tmp_path)
    index = tmp_path / "index.sqlite"
    index.write_bytes(damage or index.read_bytes()[:6000] + b"\xff" * 3000)
    with pytest.raises(WorkFolderError, match=r"delete .*index\.sqlite"):
        _is_whole(tmp_path)
    for path in tmp_path.glob("index*"):
        path.unlink()
    assert _is_whole(tmp_path)


@pytest.mark.parametrize("harm", ["flipped", "shortened", "deleted"])
def test_a_damaged_file_is_said_and_never_taken_for_an_answer(
    tmp_path: Path, harm: str
) -> None:
    _fill(tmp_path)
    path = tmp_path / "calls-00000.jsonl"
    lines = path.read_bytes()
    if harm == "flipped":
        path.write_bytes(lines.replace(b"an answer", b"an_answer", 1))
    elif harm == "shortened":
        path.write_bytes(lines[: len(lines) // 2])
    else:
        path.unlink()
    with pytest.raises(WorkFolderError, match=r"calls-00000\.jsonl.*Restore the file"):
        _is_whole(tmp_path)
    for found in tmp_path.glob("index*"):  # as the message says, and no file of answers
        found.unlink()
    with WorkFolder(tmp_path) as work:
        spent = work.index.spent()
        kept = {"flipped": 19, "shortened": 10, "deleted": 0}[harm]
        assert kept - 1 <= (spent["analyse"].calls if spent else 0) <= kept
        assert _is_settled(work, _DOCUMENTS[3], _SETTINGS)


def test_a_line_of_garbage_among_answers_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _fill(tmp_path)
    path = tmp_path / "calls-00000.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = b"\x00garbage\n"
    path.write_bytes(b"".join(lines))
    for found in tmp_path.glob("index*"):
        found.unlink()
    with WorkFolder(tmp_path) as work:
        assert work.index.spent()["analyse"].calls == 19
        assert work.calls_of(_DOCUMENTS[3]) == ()
        assert work.calls_of(_DOCUMENTS[4]) == (_record(4),)
    told = "".join(capsys.readouterr())
    assert "calls-00000.jsonl" in told
    assert "lines=1" in told


def test_calls_without_an_answer_are_spent_and_never_taken_for_one(
    tmp_path: Path,
) -> None:
    vain = _record(1).model_copy(update={"answered": False, "text": ""})
    with WorkFolder(tmp_path) as work:
        work.add_call(_DOCUMENTS[0], _record(0))
        work.add_call(_DOCUMENTS[0], vain)
        work.index.flush()
        assert work.calls_of(_DOCUMENTS[0]) == (_record(0),)
        spent = work.index.spent()["analyse"]
        assert (spent.calls, spent.attempts, spent.cost_usd) == (1, 2, 0.5)


def test_an_index_of_another_release_is_refused_and_made_again_once_deleted(
    tmp_path: Path,
) -> None:
    _fill(tmp_path)
    index = tmp_path / "index.sqlite"
    database = sqlite3.connect(index)
    database.execute("PRAGMA user_version = 1")
    database.commit()
    database.close()
    with pytest.raises(WorkFolderError, match="has version 1, this release reads 3"):
        WorkFolder(tmp_path)
    index.unlink()
    assert _is_whole(tmp_path)


def test_two_runs_at_once_are_refused_and_a_killed_one_leaves_no_lock(
    tmp_path: Path,
) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from rubric_synth.run.work.folder import WorkFolder\n"
        "folder = WorkFolder(Path(sys.argv[1])); print('open', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(FolderLockError, match=rf"another process, pid {other.pid}"):
            WorkFolder(tmp_path)
        other.kill()
    _fill(tmp_path)
    assert _is_whole(tmp_path)


def test_a_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    _fill(tmp_path)
    about = tmp_path / "README.txt"
    about.write_text(about.read_text().replace("format 1", "format 2"))
    with pytest.raises(WorkFolderError, match="format 2"):
        WorkFolder(tmp_path)
    about.unlink()
    with pytest.raises(WorkFolderError, match="format 1"):
        WorkFolder(tmp_path)


def test_files_are_of_a_bounded_length(tmp_path: Path) -> None:
    segments = Segments(tmp_path, "part", lines_per_file=3)
    places = [segments.append(b'{"number":%d}' % number) for number in range(8)]
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        f"part-{number:05}.jsonl" for number in range(3)
    ]
    assert [json.loads(segments.read(place))["number"] for place in places] == list(
        range(8)
    )
    segments.close()


def test_a_full_disk_ends_the_run_and_more_room_goes_on_with_it(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    final_files: Callable[[Path], dict[str, bytes]],
) -> None:
    collected, out = generated(6), tmp_path / "data"
    config = load_config(configured())
    # No file may grow beyond this: the kernel refuses the write, as it does on a full disk.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
    try:
        with pytest.raises(OutputError, match="give the same command again"):
            synthesise(collected, out, config=config)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    answered = (out / WORK_FOLDER / "calls-00000.jsonl").read_bytes().count(b"\n")
    assert 0 < answered < 18
    synthesise(collected, out, config=config)
    again = [question for question, count in model.questions.items() if count > 1]
    assert len(again) <= 8  # those in flight
    synthesise(collected, tmp_path / "whole", config=config)
    assert final_files(out) == final_files(tmp_path / "whole")
