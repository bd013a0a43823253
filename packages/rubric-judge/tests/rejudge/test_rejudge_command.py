"""`rubric-judge rejudge`."""

import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

from rubric_core import (
    Grounding,
    JudgeResult,
    Reason,
    Task,
    write_tasks,
)
from rubric_judge.cli import main
from rubric_judge.quality.responses import read_judgements
from rubric_judge.testing import FakeEndpoint, Fault

GOOD = "It is the cross entropy, a loss from the likelihood."
PASSAGE = Grounding("The model minimises the cross entropy of the labels.")
INVALID = JudgeResult.invalid(Reason.NOT_JSON, judge="m")
UNAVAILABLE = JudgeResult.unavailable(Reason.TIMEOUT, judge="m")

Record = Callable[..., None]
Scored = Callable[..., JudgeResult]
WriteRun = Callable[[Path, Task], None]


class Run(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def rejudge(
    tmp_path: Path,
    task: Task,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., Run]]:
    """Return a function that runs `rubric-judge rejudge` with the lexical judge."""
    write_tasks(tmp_path / "tasks.jsonl", [task])
    (tmp_path / "judge.yaml").write_text("type: lexical\n")
    monkeypatch.chdir(tmp_path)

    def run(
        source: str, *more: str, tasks: str = "tasks.jsonl", judge: str = "judge.yaml"
    ) -> Run:
        command = [
            "rejudge",
            source,
            tasks,
            "--judge",
            judge,
            "--out",
            "out.jsonl",
            *more,
        ]
        monkeypatch.setattr("sys.argv", ["rubric-judge", *command])
        with pytest.raises(SystemExit) as ended:
            main()
        return Run(int(ended.value.code or 0), *capsys.readouterr())

    yield run
    structlog.reset_defaults()


def _rows(path: str = "out.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_stored_step_is_judged_again_and_compared(
    tmp_path: Path,
    task: Task,
    rejudge: Callable[..., Run],
    record: Record,
    scored: Scored,
) -> None:
    record(tmp_path / "ledger", task, {GOOD: scored(task, 0.0), "No.": INVALID})

    done = rejudge("ledger")

    assert (done.returncode, done.stderr) == (0, "")
    first, second = _rows()
    assert first["reward"] == pytest.approx(2 / 3)
    assert first["result"]["judge"] == "lexical_v3"
    assert first["origin"] == {
        "id": first["origin"]["id"],
        "task_id": task.task_id,
        "judge": "m",
        "outcome": "scored",
        "reward": 0.0,
    }
    assert (second["reward"], second["origin"]["outcome"]) == (0.0, "invalid")
    assert done.stdout.splitlines()[-1] == (
        "out.jsonl: `origin.id` of a row is the id of the response in ledger"
    )
    for shown in ("mean reward", "0.0000", "0.3333", "50.0%", "judged again"):
        assert shown in done.stdout
    assert [row.reward for _, row in read_judgements(tmp_path / "out.jsonl")] == [
        first["reward"],
        0.0,
    ]


def test_a_run_is_judged_under_another_rubric(
    tmp_path: Path,
    task: Task,
    other_rubric: Task,
    rejudge: Callable[..., Run],
    write_run: WriteRun,
) -> None:
    write_run(tmp_path / "run", task)
    write_tasks(tmp_path / "new.jsonl", [other_rubric])

    done = rejudge("run", tasks="new.jsonl")

    assert done.returncode == 0, done.stderr
    assert [(row["task_id"], row["reward"]) for row in _rows()] == [
        (other_rubric.task_id, 1.0)
    ] * 2
    assert [row["origin"]["reward"] for row in _rows()] == [0.5, 0.75]
    assert "under another rubric" in done.stdout


def test_a_file_of_responses_is_compared_with_its_judgement_file(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run]
) -> None:
    lines = [{"task_id": task.task_id, "response": text} for text in (GOOD, "No.")]
    (tmp_path / "responses.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in lines)
    )
    assert rejudge("responses.jsonl").returncode == 0
    assert [row["origin"] for row in _rows()] == [
        {"id": "", "task_id": task.task_id}
    ] * 2
    Path("out.jsonl").rename("before.jsonl")

    done = rejudge("responses.jsonl", "--before", "before.jsonl")

    assert done.returncode == 0, done.stderr
    assert [row["origin"]["reward"] for row in _rows()] == [pytest.approx(2 / 3), 0.0]
    assert "0.0%" in done.stdout
    Path("before.jsonl").write_text(
        Path("before.jsonl").read_text().replace(task.task_id, "other")
    )
    assert "give the responses that were judged" in rejudge(
        "responses.jsonl", "--before", "before.jsonl"
    ).stderr.replace("\n", " ")


def test_only_what_failed_is_judged_again(
    tmp_path: Path,
    task: Task,
    rejudge: Callable[..., Run],
    record: Record,
    scored: Scored,
) -> None:
    results = {GOOD: scored(task, 0.0), "No.": INVALID, "Nothing.": UNAVAILABLE}
    record(tmp_path / "ledger", task, results)
    for only, lines in (("all", [1, 2, 3]), ("invalid", [2]), ("unavailable", [3])):
        assert rejudge("ledger", "--only", only).returncode == 0
        assert [row["line"] for row in _rows()] == lines


def test_responses_without_a_task_are_counted_and_named(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run], record: Record
) -> None:
    other = Task(question="Another?", grounding=PASSAGE, rubric=task.rubric)
    record(tmp_path / "ledger", task, {GOOD: INVALID})
    record(tmp_path / "ledger", other, {"a": INVALID, "b": INVALID})

    done = rejudge("ledger")

    assert done.returncode == 0
    assert (
        f"no task, or more than one, for 2 responses: tasks {other.task_id}"
        in done.stderr
    )
    write_tasks(
        tmp_path / "tasks.jsonl",
        [Task(question="?", grounding=PASSAGE, rubric=task.rubric)],
    )
    done = rejudge("ledger")
    assert done.returncode == 2
    assert "none of the 3 responses belongs to a task" in done.stderr


def test_what_the_ledger_holds_is_not_asked_again_unless_as_a_replicate(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run], record: Record
) -> None:
    record(tmp_path / "old", task, {"a": INVALID, "b": INVALID, "c": INVALID})
    with FakeEndpoint(faults=[None, Fault.SERVER_ERROR]) as endpoint:
        Path("llm.yaml").write_text(
            f"type: llm\nmodel: openai/fake\napi_base: {endpoint.url}\n"
            "transport: direct\nmax_transport_attempts: 1\n"
        )
        calls: list[int] = []
        for more in ([], [], [], ["--replicate", "1"]):
            done = rejudge("old", "--ledger", "new", *more, judge="llm.yaml")
            assert done.returncode == 0, done.stderr
            calls.append(len(endpoint.calls))
    # Three and one to see whether the judge is there; the one that was not answered, and another
    # such; nothing; three and one.
    assert calls == [4, 6, 6, 10]
    assert [row["reward"] for row in _rows()] == [1.0] * 3


def test_a_ledger_that_cannot_be_written_ends_with_status_1_and_loses_no_judgement(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run], record: Record
) -> None:
    responses = {f"{number} " + "word " * 800: INVALID for number in range(30)}
    record(tmp_path / "old", task, responses)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (80_000, before[1]))
    try:
        done = rejudge("old", "--ledger", "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.returncode == 1
    assert "not written to new: " in done.stderr
    assert [row["reward"] for row in _rows()] == [0.0] * 30


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            ["--only", "invalid"],
            "no judgement is stored beside the responses; give --before",
        ),
        (["--workers", "0"], 'Invalid value "0" for --workers. Must be >= 1.'),
        (
            ["--before", "none.jsonl"],
            "rubric-judge: none.jsonl: No such file or directory\n",
        ),
    ],
)
def test_a_wrong_input_is_one_clear_line(
    tmp_path: Path,
    task: Task,
    rejudge: Callable[..., Run],
    more: list[str],
    problem: str,
) -> None:
    row = {"task_id": task.task_id, "response": GOOD}
    (tmp_path / "responses.jsonl").write_text(json.dumps(row))
    done = rejudge("responses.jsonl", *more)
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_judge_that_is_not_there_ends_at_once_with_what_to_do(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run], record: Record
) -> None:
    record(tmp_path / "old", task, {GOOD: INVALID})
    Path("llm.yaml").write_text(
        "type: llm\nmodel: openai/fake\napi_base: http://127.0.0.1:9/v1\ntransport: direct\n"
    )
    done = rejudge("old", judge="llm.yaml")
    assert done.returncode == 2
    assert "http://127.0.0.1:9/v1" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()
