"""Where a command's file cannot be written, it says so before anything is spent on it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog

from rubric_core import Grounding, Rubric, Task, write_tasks
from rubric_judge.cli import main
from rubric_judge.testing import FakeEndpoint
from rubric_judge.ui.console.outputs import require_writable

COMMANDS = {
    "score": (
        "score",
        "tasks.jsonl",
        "answers.jsonl",
        "--judge",
        "judge.yaml",
        "--out",
    ),
    "rejudge": (
        "rejudge",
        "answers.jsonl",
        "tasks.jsonl",
        "--judge",
        "judge.yaml",
        "--out",
    ),
    "lint": ("lint", "tasks.jsonl", "--json"),
    "import": ("import", "paper", "tasks.jsonl"),
    "export": ("export", "policy", "tasks.jsonl"),
}
HERE = ("tasks.jsonl", "answers.jsonl", "judge.yaml")


class Run(NamedTuple):
    returncode: int
    stderr: str


@pytest.fixture
def endpoint(
    tmp_path: Path, rubric: Rubric, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeEndpoint]:
    """An endpoint, in a folder with what the commands read."""
    task = Task(
        question="Which loss?", grounding=Grounding("A passage."), rubric=rubric
    )
    write_tasks(tmp_path / "tasks.jsonl", [task])
    rows = ({"task_id": task.task_id, "response": str(number)} for number in range(3))
    (tmp_path / "answers.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    monkeypatch.chdir(tmp_path)
    with FakeEndpoint(0.5) as running:
        (tmp_path / "judge.yaml").write_text(
            f"type: llm\nmodel: openai/fake\ntransport: direct\napi_base: {running.url}\n"
        )
        yield running


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Run]:
    def run(*arguments: str) -> Run:
        monkeypatch.setattr("sys.argv", ["rubric-judge", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        structlog.reset_defaults()
        return Run(int(ended.value.code or 0), capsys.readouterr().err)

    return run


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("out", "remedy"),
    [
        (
            "missing/out.jsonl",
            "there is no folder missing: create it, or write elsewhere",
        ),
        (".", "this is a folder: name a file in it"),
        ("tasks.jsonl", "this command reads the same file: write to another one"),
        ("./link.jsonl", "this command reads the same file: write to another one"),
        ("answers.jsonl/out.jsonl", "there is no folder answers.jsonl: create it"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_line_before_the_first_call(
    endpoint: FakeEndpoint, run: Callable[..., Run], command: str, out: str, remedy: str
) -> None:
    Path("link.jsonl").symlink_to("tasks.jsonl")
    before = {name: Path(name).read_bytes() for name in HERE}

    done = run(*COMMANDS[command], out)

    assert (done.returncode, len(endpoint.calls)) == (2, 0)
    flag = COMMANDS[command][-1] if command in {"score", "rejudge", "lint"} else "OUT"
    assert done.stderr.startswith(f"rubric-judge: {flag} {Path(out)}: {remedy}")
    assert done.stderr.count("\n") == 1
    assert {name: Path(name).read_bytes() for name in HERE} == before


LONG = f"{'a' * 245}.jsonl"  # it may be a file's, but no longer one


@pytest.mark.parametrize("command", ["score", "rejudge"])
@pytest.mark.parametrize("out", [LONG, f"{LONG}{LONG}", "/proc/judged.jsonl"])
def test_what_only_writing_would_show_is_said_before_the_first_call(
    endpoint: FakeEndpoint, run: Callable[..., Run], command: str, out: str
) -> None:
    done = run(*COMMANDS[command], out)

    assert (done.returncode, len(endpoint.calls)) == (2, 0)
    assert done.stderr.startswith(f"rubric-judge: --out {out}: ")
    assert done.stderr.count("\n") == 1
    assert not list(Path().glob(".*"))


def test_the_file_beside_the_judgements_is_looked_at_too(
    endpoint: FakeEndpoint, run: Callable[..., Run]
) -> None:
    Path("out.jsonl.inputs.json").mkdir()

    done = run(*COMMANDS["score"], "out.jsonl")

    assert (done.returncode, len(endpoint.calls)) == (2, 0)
    assert "--out out.jsonl.inputs.json: this is a folder" in done.stderr
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("name", ["answers.jsonl", "judge.yaml", "judged.sqlite"])
def test_no_input_is_written_over(
    endpoint: FakeEndpoint, run: Callable[..., Run], name: str
) -> None:
    for command in ("score", "rejudge"):
        done = run(*COMMANDS[command], name, "--ledger", "judged.sqlite")
        assert "reads the same file" in done.stderr
    assert not endpoint.calls


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to the superuser")
def test_a_closed_folder_is_said_before_the_first_call(
    endpoint: FakeEndpoint, run: Callable[..., Run]
) -> None:
    Path("closed").mkdir(mode=0o500)
    done = run(*COMMANDS["score"], "closed/out.jsonl")
    assert "the folder closed cannot be written to" in done.stderr
    assert not endpoint.calls


@pytest.mark.parametrize("command", ["score", "export"])
def test_standard_output_is_written_to_and_stays_what_it_is(
    endpoint: FakeEndpoint, command: str
) -> None:
    assert endpoint.url
    code = "from rubric_judge.cli import main; main()"
    arguments = [sys.executable, "-c", code, *COMMANDS[command], "out"]
    Path("out").symlink_to("/dev/stdout")

    piped = subprocess.run(arguments, stdout=subprocess.PIPE, check=True)
    with Path("redirected").open("wb") as file:
        subprocess.run(arguments, stdout=file, check=True)

    rows = [json.loads(line) for line in Path("redirected").read_text().splitlines()]
    through = piped.stdout.decode().splitlines()[: len(rows)]  # and then what it says
    assert len(rows) == {"score": 3, "export": 1}[command]
    assert [json.loads(line).keys() for line in through] == [row.keys() for row in rows]
    assert os.readlink("out") == "/dev/stdout"  # noqa: PTH115
    assert Path("/dev/stdout").is_symlink()


def test_an_option_that_is_none_ends_with_status_2_on_stderr(
    endpoint: FakeEndpoint, run: Callable[..., Run], capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in (("--workers", "many"), ("--nonsense", "1"), ("--deadline", "3")):
        done = run(*COMMANDS["score"], "out.jsonl", *wrong)
        assert done.returncode == 2
        assert wrong[0] in done.stderr
    assert run("nonsense").returncode == 2
    assert run("score").returncode == 2
    assert capsys.readouterr().out == ""
    assert not endpoint.calls


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("away/judged.jsonl", "there is no folder {here}/away: create it"),
        ("link.jsonl", "a link that leads back to itself: write elsewhere"),
    ],
)
def test_a_link_that_leads_nowhere_is_said(
    endpoint: FakeEndpoint,
    tmp_path: Path,
    run: Callable[..., Run],
    target: str,
    problem: str,
) -> None:
    (tmp_path / "link.jsonl").symlink_to(target)

    done = run(*COMMANDS["score"], "link.jsonl")

    assert (done.returncode, len(endpoint.calls)) == (2, 0)
    expected = problem.format(here=tmp_path.resolve())
    assert f"--out link.jsonl: {expected}" in " ".join(done.stderr.split())


def test_what_a_killed_command_left_beside_its_file_is_removed(tmp_path: Path) -> None:
    for name in (".out.jsonl.0123abcd.tmp", ".out.jsonl.inputs.json.0123abcd.tmp"):
        (tmp_path / name).write_text("The passage.")
    (tmp_path / ".other.jsonl.0123abcd.tmp").touch()

    out = tmp_path / "out.jsonl"
    require_writable(out, flag="--out", endings=(".inputs.json",))

    assert [path.name for path in tmp_path.iterdir()] == [".other.jsonl.0123abcd.tmp"]
