import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog
import yaml

from rubric_core import read_tasks
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
    monkeypatch.setattr(
        "rubric_judge.ui.console.progress.QUIET_S", 3600.0
    )  # no line of a slow machine

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
    # No progress where there is no terminal.
    assert made.err == (
        "rubric-synth: validation and test have no task, which documents get by their hash; 3 of 3 "
        "documents gave tasks, too few to fill every split: collect more\n"
    )
    told = " ".join(made.out.split())
    assert (
        "ask for what 3 of 3 documents state in plain sentences. Read some before"
        in told
    )
    shown = run("stats", "d")
    assert shown.status == 0, shown.err
    assert "keyword_spam" in shown.out
    assert (
        "No language model wrote these tasks"
        in (tmp_path / "d" / "stats.html").read_text()
    )
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
    assert "no task was accepted out of 1 documents" in done.err
    assert "line by line in d/rejected.jsonl" in " ".join(done.out.split())
    assert (done.out + done.err).count("collect longer documents") == 1
    assert "the table `Left out` says for which reasons" in done.err
    checked = run("check", "d")
    assert checked.status == 1
    assert "no task at all" in checked.err


def test_a_limited_run_without_a_task_says_of_how_many_it_speaks(
    tmp_path: Path, run: Callable[..., _Done]
) -> None:
    (tmp_path / "notes").mkdir()
    for name in ("brook", "cellar"):
        text = f"Short words of the {name}, of no use. " * 10
        (tmp_path / "notes" / f"{name}.txt").write_text(text)
    run("collect", "notes", "--out", "c")
    done = run("run", "c", "--out", "d", "--limit", "1")
    assert done.status == 1
    assert (
        "no task was accepted out of 1 documents worked on, of 2 collected" in done.err
    )


def test_a_run_without_training_tasks_fails_and_empty_held_out_splits_warn(
    tmp_path: Path, folder: Path, run: Callable[..., _Done]
) -> None:
    run("collect", folder / "tides.md", "--out", "c")
    shares = {"train_frac": 0.99, "validation_frac": 0.005}
    (tmp_path / "most.yaml").write_text(yaml.safe_dump(shares))
    done = run("run", "c", "--out", "d", "--config", "most.yaml")
    assert done.status == 0
    assert done.err == (
        "rubric-synth: validation and test have no task, which documents get by their hash; 1 of 1 "
        "documents gave tasks, too few to fill every split: collect more\n"
    )
    shares = {"train_frac": 0.001, "validation_frac": 0.5}
    (tmp_path / "least.yaml").write_text(yaml.safe_dump(shares))
    done = run("run", "c", "--out", "d", "--config", "least.yaml")
    assert done.status == 1
    assert "no task for training: all 1 fell into validation and test" in done.err
    assert "train has no task" in run("check", "d").err


def test_answers_to_the_questions_are_scored(
    tmp_path: Path, folder: Path, run: Callable[..., _Done]
) -> None:
    run("collect", folder, "--out", "c")
    run("run", "c", "--out", "d")
    written = run("questions", "d", "--split", "train", "--out", "questions.jsonl")
    assert written.status == 0, written.err
    rows = [
        json.loads(line)
        for line in (tmp_path / "questions.jsonl").read_text().splitlines()
    ]
    assert rows
    assert all(set(row) == {"task_id", "question"} for row in rows)
    shown = run("questions", "d", "--split", "train", "--out", "-")
    assert [json.loads(line) for line in shown.out.splitlines()] == rows
    references = {
        t.task_id: t.reference_answer
        for t in read_tasks(tmp_path / "d" / "train.jsonl")
    }
    answers = (
        {"task_id": r["task_id"], "response": references[r["task_id"]]} for r in rows
    )
    (tmp_path / "answers.jsonl").write_text(
        "".join(json.dumps(a) + "\n" for a in answers)
    )
    (tmp_path / "judge.yaml").write_text("type: lexical\n")
    command = [Path(sys.executable).parent / "rubric-judge", "score", "d/train.jsonl"]
    options = ["answers.jsonl", "--judge", "judge.yaml", "--out", "judged.jsonl"]
    subprocess.run([*command, *options], cwd=tmp_path, check=True, capture_output=True)
    judged = [
        json.loads(line)
        for line in (tmp_path / "judged.jsonl").read_text().splitlines()
    ]
    assert [row["task_id"] for row in judged] == [row["task_id"] for row in rows]
    assert all(row["reward"] >= 0.7 for row in judged)


def test_questions_of_an_unknown_or_empty_split_are_an_error(
    tmp_path: Path, folder: Path, run: Callable[..., _Done]
) -> None:
    assert (
        "'dev' is unknown" in run("questions", "d", "--split", "dev", "--out", "-").err
    )
    run("collect", folder / "tides.md", "--out", "c")
    run("run", "c", "--out", "d")
    empty = next(
        s for s in ("validation", "test") if not (tmp_path / f"d/{s}.jsonl").read_text()
    )
    done = run("questions", "d", "--split", empty, "--out", "-")
    assert done.status == 2
    assert "holds no task" in done.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("collect", "nowhere", "--out", "c"), "'nowhere' is neither a folder"),
        (("collect", "", "--out", "c"), "a source has no name"),
        (("collect", "/dev/zero", "--out", "c"), "'/dev/zero' is a pipe or a device"),
        (
            ("collect", "python:no_such_thing", "--out", "c"),
            "'no_such_thing' is not installed",
        ),
        (("run", "nowhere", "--out", "d"), "rubric-synth collect"),
        (("stats", "nowhere"), "rubric-synth run"),
        (("check", "nowhere"), "rubric-synth run"),
        (("questions", "nowhere", "--out", "-"), "rubric-synth run"),
        (
            ("run", "c", "--out", "d", "--config", "absent.yaml"),
            "absent.yaml: cannot be read",
        ),
    ],
)
def test_an_expected_error_is_one_message_and_status_two(
    run: Callable[..., _Done], arguments: tuple[str, ...], part: str
) -> None:
    done = run(*arguments)
    assert done.status == 2
    assert part in done.err.replace("\n", " ")


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "rubric_synth.cli", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in ("collect", "run", "stats", "check", "questions"):
        assert name in done.stdout


def test_names_like_markup_are_printed_as_they_are(
    tmp_path: Path, folder: Path, run: Callable[..., _Done]
) -> None:
    odd = tmp_path / "[/x]"
    odd.parent.mkdir()
    folder.rename(odd)
    (tmp_path / "more.txt").write_text("Ships enter the harbour at high water. " * 9)
    done = run("collect", "[/x]", "more.txt", "--out", "[/red]")
    assert (done.status, done.err) == (0, "")
    assert "4 documents in [/red]" in done.out
    assert "[/x] " in done.out
    made = run("run", "[/red]", "--out", "[/bold]")
    assert "documents, in [/bold]" in made.out
    assert (
        "questions in [/u]"
        in run("questions", "[/bold]", "--split", "train", "--out", "[/u]").out
    )


def test_collect_says_what_to_do_about_records_that_it_could_not_read(
    folder: Path, run: Callable[..., _Done]
) -> None:
    (folder / "a.jsonl").write_text('{"words": "a"}\n')
    done = run("collect", folder, "--out", "c")
    assert done.status == 0
    shown = " ".join(done.out.split())
    assert "broken_record" in shown
    assert "name the fields" in shown
    assert done.err == ""


def test_the_tables_say_the_limit_the_key_and_what_to_do_for_each_reason(
    tmp_path: Path, folder: Path, run: Callable[..., _Done]
) -> None:
    (folder / "long.txt").write_text("High water comes twice a day. " * 400)
    (folder / "short.txt").write_text("High water.")
    (folder / "program.exe").write_bytes(b"MZ")
    (tmp_path / "settings.yaml").write_text("collect: {max_document_bytes: 10000}\n")
    done = run("collect", folder, "--out", "c", "--config", "settings.yaml")
    lines = [
        re.sub(r"\s\d+\s*$", "", line) for line in done.out.splitlines()
    ]  # without the counts
    shown = " ".join(" ".join(lines).split())
    assert "raise collect.max_document_bytes (now 10000)" in shown
    assert "collect.min_document_words (now 30)" in shown
    assert "write tables such as CSV as .jsonl" in shown
    assert "install their package and collect `python:PACKAGE`" in shown
    assert "rubric-synth collect --help" in shown
    assert (
        f"{folder.name}/short.txt, 2 words, below the 30 of collect.min_document_words"
        in shown
    )
    rows = [
        json.loads(line)
        for line in (tmp_path / "c/rejected.jsonl").read_text().splitlines()
    ]
    details = {row["reason"]: row["detail"] for row in rows}
    assert details == {
        "too_long": "12000 bytes of text, above the 10000 that collect.max_document_bytes allows",
        "too_short": "2 words, below the 30 of collect.min_document_words",
        "unsupported_type": ".exe",
    }
