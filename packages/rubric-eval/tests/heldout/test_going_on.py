"""Evaluations that are gone on with although their files were edited, or another run has them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
import structlog

from rubric_core import write_tasks
from rubric_eval.cli import main
from rubric_eval.records.files import read_run, write_finished_run
from rubric_eval.records.inputs import EvalFolder
from rubric_judge.testing import FakeEndpoint, ServedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rubric_core import Task
    from rubric_eval.records.run import Measured

LOCKING = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
fcntl.flock(descriptor, fcntl.LOCK_EX)
os.pwrite(descriptor, f"{os.getpid()}\\n".encode(), 0)
print(flush=True)
sys.stdin.read()
"""


class Finished(NamedTuple):
    """An evaluation that ended, and how it is gone on with."""

    folder: EvalFolder
    again: Callable[[], int]
    rejudge: Callable[[], int]
    model: FakeEndpoint


@pytest.fixture
def finished(
    tmp_path: Path, tasks: tuple[Task, ...], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Finished]:
    file, judge, out = (
        tmp_path / "test.jsonl",
        tmp_path / "lexical.yaml",
        tmp_path / "eval",
    )
    write_tasks(file, tasks)
    judge.write_text("type: lexical\n", encoding="utf-8")

    def run(*arguments: object) -> int:
        given = [*arguments, "--tasks", file, "--judge", judge]
        monkeypatch.setattr(sys, "argv", ["rubric-eval", *map(str, given)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    with FakeEndpoint(served=ServedModel(answer="It sorts.", name="m")) as model:

        def again() -> int:
            return run("heldout", f"m=server:{model.url}#m", "--out", out)

        assert again() == 0
        yield Finished(EvalFolder(out), again, lambda: run("rejudge", out), model)
    structlog.reset_defaults()  # it logs to the standard error of a test that is over


def test_answers_that_were_edited_are_not_gone_on_with(
    finished: Finished,
    capsys: pytest.CaptureFixture[str],
    read_heldout: Callable[..., Measured],
) -> None:
    path = finished.folder.answers("m", 0)
    path.write_bytes(path.read_bytes().replace(b"It sorts.", b"I sort it."))
    before = finished.folder.run.read_bytes()
    for go_on in (finished.again, finished.rejudge):
        assert go_on() == 2
        assert (
            f"{path}: is not as the evaluation's end left it" in capsys.readouterr().err
        )
    assert finished.folder.run.read_bytes() == before
    asked = finished.model.counts.total()
    path.unlink()
    assert finished.again() == 0
    assert finished.model.counts.total() == asked + 12
    assert len(read_heldout(finished.folder, "lexical", "m").ids) == 12


def test_scores_and_tables_that_were_edited_are_made_anew(
    finished: Finished, read_heldout: Callable[..., Measured]
) -> None:
    folder = finished.folder
    scores = folder.scores("lexical", "m", 0)
    before = {
        path: path.read_bytes() for path in (scores, folder.questions, folder.heldout)
    }
    for path, text in before.items():
        path.write_bytes(text.replace(b"0", b"1"))
    assert finished.again() == 0
    assert {path: path.read_bytes() for path in before} == before
    assert len(read_heldout(folder, "lexical", "m").ids) == 12


def test_a_manifest_that_was_edited_is_not_gone_on_with(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    run = json.loads(finished.folder.run.read_bytes())
    run["versions"] = {}
    finished.folder.run.write_text(json.dumps(run), encoding="utf-8")
    assert finished.again() == 2
    assert "run.json: is not as the evaluation's end left it" in capsys.readouterr().err


def test_answers_are_not_listed_by_what_an_edited_manifest_says(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    run = read_run(finished.folder).model_copy(update={"samples": 10**12})
    write_finished_run(finished.folder, run)  # its digests fit
    assert finished.rejudge() == 2
    assert f"holds 12 of {12 * 10**12} answers of model 'm'" in capsys.readouterr().err


def test_a_second_run_into_the_folder_of_a_first_touches_nothing(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = finished.folder.lock
    before = {path: path.read_bytes() for path in finished.folder.root.rglob("*.json*")}
    with subprocess.Popen(
        [sys.executable, "-c", LOCKING, lock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdout.readline()
        for go_on in (finished.again, finished.rejudge):
            assert go_on() == 2
            shown = capsys.readouterr().err
            assert (
                f"{str(finished.folder.root)!r} is in use by another process" in shown
            )
            assert f"pid {first.pid}:" in shown
        assert {path: path.read_bytes() for path in before} == before
        first.stdin.close()
    assert finished.again() == 0
    assert read_run(finished.folder).status == "finished"
