from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog
import yaml

from rubric_synth.cli import main


class _Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., _Done]]:
    """Run the command line in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> _Done:
        status = 0
        try:
            main([*map(str, arguments)])
        except SystemExit as stop:
            status = int(stop.code or 0)
        return _Done(status, *capsys.readouterr())

    yield call
    structlog.reset_defaults()


def test_collect_run_stats_and_check_from_one_end_to_the_other(
    tmp_path: Path, folder: Path, run: Callable[..., _Done]
) -> None:
    config = tmp_path / "synth.yaml"
    config.write_text(yaml.safe_dump({"collect": {"near_duplicate_cosine": 1.0}}))
    collected = run("collect", folder, "--out", "c", "--config", config)
    assert collected.status == 0, collected.err
    assert "3 documents in c" in collected.out
    made = run("run", "c", "--out", "d", "--config", config)
    assert made.status == 0, made.err
    assert "3 of 3 documents, in d" in made.out
    assert made.err == ""  # no progress where there is no terminal
    shown = run("stats", "d")
    assert shown.status == 0, shown.err
    assert "keyword_spam" in shown.out
    assert '"effective_criteria"' in run("stats", "d", "--json").out
    checked = run("check", "d")
    assert (checked.status, checked.out) == (0, "3 tasks, 0 problems\n")
    (tmp_path / "d" / "test.jsonl").write_text("{broken\n")
    broken = run("check", "d")
    assert broken.status == 1
    assert "test.jsonl" in broken.err


def test_a_run_without_a_task_fails_and_shows_the_reasons(
    tmp_path: Path, run: Callable[..., _Done]
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("Short words of no use. " * 10)
    run("collect", "notes", "--out", "c")
    done = run("run", "c", "--out", "d")
    assert done.status == 1
    assert "no_passage" in done.out
    assert "no task was accepted" in done.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("collect", "nowhere", "--out", "c"), "'nowhere' is neither a folder"),
        (("collect", "python:no_such_thing", "--out", "c"), "'no_such_thing' is not installed"),
        (("run", "nowhere", "--out", "d"), "rubric-synth collect"),
        (("stats", "nowhere"), "rubric-synth run"),
        (("check", "nowhere"), "rubric-synth run"),
        (("run", "c", "--out", "d", "--config", "absent.yaml"), "'absent.yaml' cannot be read"),
    ],
)
def test_an_expected_error_is_one_message_and_status_one(
    run: Callable[..., _Done], arguments: tuple[str, ...], part: str
) -> None:
    done = run(*arguments)
    assert done.status == 1
    assert part in done.err.replace("\n", " ")


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "rubric_synth.cli", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in ("collect", "run", "stats", "check"):
        assert name in done.stdout
