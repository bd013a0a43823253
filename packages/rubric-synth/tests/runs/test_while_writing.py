"""Signals, kills and refusals while a dataset is being written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rubric_synth import OutputError, check_dataset, synthesise
from rubric_synth.errors import UnfinishedError
from rubric_synth.files import writing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _leftovers(out: Path) -> list[str]:
    return [path.name for path in out.glob(".*")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_writing_lets_the_writing_end(
    tmp_path: Path,
    collected: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    source, out = collected(), tmp_path / "data"
    sync, sent = os.fsync, [0]

    def interrupted(descriptor: int) -> None:
        if _leftovers(out) and not sent[0]:
            sent[0] += 1
            os.kill(os.getpid(), number)
        sync(descriptor)

    before = signal.getsignal(number)
    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(UnfinishedError, match=r"interrupted\. 11 of 11") as stopped:
        synthesise(source, out)
    assert sent == [1]
    assert signal.getsignal(number) is before
    assert (stopped.value.cause, stopped.value.pending) == ("interrupted", 0)
    assert check_dataset(out, collected=source).problems == ()
    assert synthesise(source, out).pending_documents == 0


def test_a_second_interrupt_while_writing_leaves_at_once_and_no_half_file(
    tmp_path: Path, collected: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out, sync = collected(), tmp_path / "data", os.fsync

    def interrupted(descriptor: int) -> None:
        if _leftovers(out):
            os.kill(os.getpid(), signal.SIGTERM)
        sync(descriptor)

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        synthesise(source, out)
    assert _leftovers(out) == []
    assert not (out / "manifest.json").exists()


def test_what_a_killed_writer_left_is_removed_by_the_next_run(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    source, out = collected(), tmp_path / "data"
    program = (
        "import os, signal, sys; from pathlib import Path; from rubric_synth import synthesise\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from rubric_synth.run.work import folder\n"
        "folder.write_lines = lambda path, lines: path.write_text(''.join(lines))\n"
        "synthesise(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(source), str(out)], check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert len(_leftovers(out)) >= 6
    (out / ".train.jsonl.swp").write_text("of somebody else")
    synthesise(source, out)
    assert _leftovers(out) == [".train.jsonl.swp"]


def test_files_that_took_their_place_before_a_refusal_are_not_denied(
    tmp_path: Path,
) -> None:
    opened = writing([tmp_path / "a", tmp_path / "b"])
    opened.__enter__()
    (tmp_path / "b").mkdir()
    with pytest.raises(OutputError, match="1 of 2 files are new already") as refused:
        opened.__exit__(None, None, None)
    assert "nothing was changed" not in str(refused.value)
    assert _leftovers(tmp_path) == []


def test_an_interrupt_while_commands_are_loaded_shows_no_stack(tmp_path: Path) -> None:
    (tmp_path / "structlog.py").write_text("raise KeyboardInterrupt\n")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from rubric_synth.cli import main; main(['--help'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert done.stderr == "rubric-synth: stopped\n"
