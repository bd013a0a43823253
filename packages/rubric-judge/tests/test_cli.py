import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
import structlog

from rubric_core import Grounding, JudgeView, Rubric, RubricFileError, Task, write_tasks
from rubric_judge.cli import main
from rubric_judge.quality.responses import (
    JudgedResponse,
    read_responses,
    write_judgements,
)
from rubric_judge.testing import (
    FailingJudge,
    FakeEndpoint,
    Fault,
    ScriptedJudge,
    marked,
    marked_share,
)

CONFIGS = Path(__file__).parents[3] / "configs" / "judge"


class Run(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def task(rubric: Rubric) -> Task:
    return Task(
        question="Which loss is minimised?",
        grounding=Grounding("The model minimises the cross entropy of the labels."),
        rubric=rubric,
    )


@pytest.fixture
def score(
    tmp_path: Path,
    task: Task,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., Run]]:
    """Return a function that runs `rubric-judge score` in a folder with one task."""
    write_tasks(tmp_path / "tasks.jsonl", [task])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "rubric_judge.ui.console.progress.QUIET_S", 3600.0
    )  # no line of a slow machine

    def run(
        responses: Sequence[str], judge: Path | str, *more: str, out: str = "out.jsonl"
    ) -> Run:
        Path("responses.jsonl").write_text("\n".join(responses))
        files = ("tasks.jsonl", "responses.jsonl", "--judge", str(judge), "--out", out)
        monkeypatch.setattr("sys.argv", ["rubric-judge", "score", *files, *more])
        with pytest.raises(SystemExit) as ended:
            main()
        return Run(int(ended.value.code or 0), *capsys.readouterr())

    yield run
    structlog.reset_defaults()


def _line(task: Task, response: str) -> str:
    return json.dumps({"task_id": task.task_id, "response": response})


def _llm(folder: Path, address: str) -> Path:
    judge = folder / "judge.yaml"
    judge.write_text(
        f"type: llm\nmodel: openai/fake\ntransport: direct\nbackoff_s: 0.05\napi_base: {address}\n"
    )
    return judge


def _table(text: str) -> dict[str, str]:
    """Return the cells of a printed table of two columns."""
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) > 1}


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_responses_are_scored_in_order(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    good = "It is the cross entropy, a loss from the likelihood."
    done = score([_line(task, good), "", _line(task, "No.")], CONFIGS / "lexical.yaml")
    unseen = "1 of 2 criteria hold nothing that a program can look for and score 0"
    assert (done.returncode, done.stderr) == (
        0,
        f"rubric-judge: {unseen}: `rubric-judge lint` names them\n",
    )
    rows = _rows(tmp_path / "out.jsonl")
    assert [(row["line"], row["reward"]) for row in rows] == [
        (1, pytest.approx(2 / 3)),
        (3, 0.0),
    ]
    assert {row["task_id"] for row in rows} == {task.task_id}
    assert rows[0]["result"]["scores"] == {"names the loss": 2.0, "gives_limit": 0.0}
    assert "mean reward" in done.stdout
    assert "cross entropy" not in (tmp_path / "out.jsonl").read_text()


def test_a_listwise_judge_scores_the_responses_to_a_task_in_one_call_or_says_that_they_are_many(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    lines = [_line(task, marked(f"Answer {n}.", view=n, share=n / 4)) for n in range(4)]
    with FakeEndpoint(marked_share) as endpoint:
        judge = _llm(tmp_path, endpoint.url)
        judge.write_text(judge.read_text().replace("type: llm", "type: listwise"))
        done = score(lines, judge, "--ledger", "judged.db")
        again = score(lines[::-1], judge, "--ledger", "judged.db", out="again.jsonl")
        assert len(endpoint.calls) == 2  # the first asks whether it is there
        judge.write_text(f"{judge.read_text()}max_group: 3\n")
        many = score(lines, judge)
        assert [len(call.responses) for call in endpoint.calls] == [0, 4, 0]
    assert (done.returncode, again.returncode) == (0, 0)
    rewards = [row["reward"] for row in _rows(tmp_path / "out.jsonl")]
    assert rewards == [0.0, 0.25, 0.5, 0.75]
    assert [row["reward"] for row in _rows(tmp_path / "again.jsonl")] == rewards[::-1]
    assert _table(done.stdout)["attempts"] == "1"
    assert _table(again.stdout)["from the ledger"] == "4"
    assert many.returncode == 2
    assert (
        "has 4 different responses to judge together, and max_group is 3" in many.stderr
    )


def test_a_file_without_responses_is_bad_input(score: Callable[..., Run]) -> None:
    done = score([""], CONFIGS / "lexical.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith("rubric-judge: responses.jsonl: holds no response")
    assert not Path("out.jsonl").exists()


def test_without_a_task_the_task_file_is_blamed(
    tmp_path: Path, score: Callable[..., Run]
) -> None:
    (tmp_path / "tasks.jsonl").write_text("")
    done = score(['{"task_id": "x", "response": ""}'], CONFIGS / "lexical.yaml")
    assert done.returncode == 2
    assert done.stderr == "rubric-judge: the task file holds no task\n"


def test_a_judge_that_stops_answering_ends_with_status_1_and_says_why(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    with FakeEndpoint(faults=[None, *[Fault.UNAUTHORIZED] * 2]) as endpoint:
        judge = _llm(tmp_path, endpoint.url)
        done = score([_line(task, "one"), _line(task, "two")], judge, "--verbose")
    assert done.returncode == 1
    assert "not judged (2): " in done.stderr
    assert "HTTP 401: a key is needed and none was sent" in done.stderr
    # One event for each call, as JSON because stderr is no terminal.
    events = [
        json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")
    ]
    assert [event["event"] for event in events] == ["judge.call.finished"] * 2
    assert [row["reward"] for row in _rows(tmp_path / "out.jsonl")] == [None, None]


def test_a_dead_endpoint_ends_within_seconds_with_one_line(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    judge = _llm(tmp_path, "http://127.0.0.1:9/v1")
    started_s = time.monotonic()
    done = score([_line(task, str(number)) for number in range(2000)], judge)
    assert time.monotonic() - started_s < 20
    assert done.returncode == 2
    assert done.stderr.startswith("rubric-judge: ")
    assert "http://127.0.0.1:9/v1" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out.jsonl").exists()


def test_one_replica_of_two_that_is_not_there_is_said_and_the_other_judges(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    with FakeEndpoint(0.5) as endpoint:
        judge = _llm(tmp_path, f"[{endpoint.url}, http://127.0.0.1:9/v1]")
        done = score([_line(task, str(number)) for number in range(4)], judge)
    assert done.returncode == 0, done.stderr
    assert "one replica is not there" in done.stderr
    assert {row["reward"] for row in _rows(tmp_path / "out.jsonl")} == {0.5}


def test_a_second_run_with_a_ledger_needs_no_endpoint_and_spends_nothing(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    lines = [_line(task, text) for text in ("one", "two", "one")]
    with FakeEndpoint(0.5) as endpoint:
        judge = _llm(tmp_path, endpoint.url)
        first = score(
            lines, judge, "--ledger", "judgements.db", "--hedge", "--deadline-s", "60"
        )
        assert len(endpoint.calls) == 1 + 2  # the check, and what differs
    assert first.returncode == 0, first.stderr
    rows = _rows(tmp_path / "out.jsonl")
    second = score(lines, judge, "--ledger", "judgements.db")
    assert (second.returncode, second.stderr) == (0, "")
    assert _rows(tmp_path / "out.jsonl") == rows
    assert _table(first.stdout)["attempts"] == "2"
    assert "cached tokens per criterion" in _table(first.stdout)
    table = _table(second.stdout)
    assert (table["scored"], table["from the ledger"]) == ("3", "3")
    assert "attempts" not in table
    assert "prompt tokens" not in table


ROUTER = """
model_list:
  - {{model_name: judge, litellm_params: {{model: openai/small, api_key: k, api_base: "{one}"}}}}
  - model_name: spare
    model_info: {{id: hosted}}
    litellm_params: {{model: openai/large, api_key: k, api_base: "{other}"}}
router_settings: {{fallbacks: [{{judge: [spare]}}]}}
"""


def test_the_table_and_a_warning_say_how_much_a_fallback_answered(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    (tmp_path / "judge.yaml").write_text(
        "type: llm\nmodel: judge\nlitellm_config: router.yaml\nallow_fallback_models: true\n"
    )
    # The first answers the check and one judgement.
    with (
        FakeEndpoint(faults=[None, None, Fault.SERVER_ERROR]) as one,
        FakeEndpoint() as other,
    ):
        (tmp_path / "router.yaml").write_text(
            ROUTER.format(one=one.url, other=other.url)
        )
        lines = [_line(task, text) for text in ("one", "two")]
        done = score(lines, "judge.yaml", "--workers", "1", "--micro-batch", "1")
    table = _table(done.stdout)
    assert table["by the fallback spare"] == "1 of 2: large at hosted"
    assert table["answered by"].startswith("1 of 2: small at 127.0.0.1:")
    assert done.stderr.count("judge.fallback.answered") == 1
    rows = [row["result"]["answered_by"] for row in _rows(tmp_path / "out.jsonl")]
    assert [row["fallback"] for row in rows] == ["", "spare"]


def test_the_texts_of_invalid_replies_are_kept_where_the_judge_says_so(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    with FakeEndpoint("Zyzzyva, no JSON") as endpoint:
        judge = _llm(tmp_path, endpoint.url)
        without = score([_line(task, "one")], judge)
        assert (
            f"to see what was replied: `keep_invalid: true` in {judge}"
            in without.stderr
        )
        assert "Zyzzyva" not in (tmp_path / "out.jsonl").read_text()
        judge.write_text(judge.read_text() + "keep_invalid: true\n")
        kept = score([_line(task, "one")], judge)
    assert "what was replied is `reasoning` in out.jsonl" in kept.stderr
    assert "Zyzzyva" not in kept.stderr + kept.stdout
    (row,) = _rows(tmp_path / "out.jsonl")
    assert row["result"]["reasoning"] == "Zyzzyva, no JSON"


def test_after_a_broken_server_the_same_command_asks_again(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    lines = [_line(task, text) for text in ("one", "two")]
    with FakeEndpoint("no JSON") as broken:
        judge = _llm(tmp_path, broken.url)
        first = score(lines, judge, "--ledger", "judgements.db")
    assert (
        "suspect: not one of the 2 answers of this run is valid, so check the s"
        in first.stderr
    )
    assert "the ledger keeps none as final: the same command asks again" in first.stderr
    with FakeEndpoint() as mended:
        judge = _llm(tmp_path, mended.url)
        second = score(lines, judge, "--ledger", "judgements.db")
    assert _table(second.stdout)["scored"] == "2"
    assert second.stderr == ""


def test_invalid_judgements_of_the_ledger_come_with_the_command_that_asks_again(
    tmp_path: Path,
    task: Task,
    score: Callable[..., Run],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [_line(task, text) for text in ("one", "two")]
    # The first call is the check of the endpoint.
    with FakeEndpoint(faults=[None, None, Fault.FENCED]) as endpoint:
        judge = _llm(tmp_path, endpoint.url)
        options = (
            "--ledger",
            "my judgements.db",
            "--workers",
            "1",
            "--micro-batch",
            "1",
        )
        assert "suspect" not in score(lines, judge, *options).stderr
        judge.write_text(judge.read_text() + "keep_invalid: true\n")
        again = score(lines, judge, *options)
    said = again.stdout
    assert "to see what was replied" not in again.stderr
    assert _table(said)["of them invalid"] == "1"
    start, command = said.splitlines()[-1].split(": ", 1)
    assert start == "1 invalid judgements are from the ledger; to ask for them again"
    with FakeEndpoint() as mended:
        _llm(tmp_path, mended.url)
        words = shlex.split(command)
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 0
    (asked,) = _rows(tmp_path / "again.jsonl")
    judged = _rows(Path(words[words.index("--before") + 1]))
    (first,) = [row for row in judged if row["line"] == asked["line"]]
    assert (first["result"]["outcome"], asked["reward"]) == ("invalid", 1.0)
    assert capsys.readouterr().out.splitlines()[-1] == (
        "again.jsonl: a row takes the place of the row with the same `line` in "
        f"{words[words.index('--before') + 1]}"
    )


def test_a_deadline_gives_up_what_is_not_judged_and_keeps_the_rest(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    with FakeEndpoint(0.5, faults=[None, None, Fault.HANG]) as endpoint:
        judge = _llm(tmp_path, endpoint.url)
        lines = [_line(task, str(number)) for number in range(6)]
        done = score(
            lines, judge, "--deadline-s", "1.5", "--workers", "2", "--micro-batch", "1"
        )
    assert done.returncode == 0, done.stderr
    rewards = [row["reward"] for row in _rows(tmp_path / "out.jsonl")]
    assert sorted(rewards, key=str) == [0.5] * 5 + [None]
    assert (
        "not judged (1): waited for when the step's deadline_s=1.5 was over"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--workers", "0"), 'Invalid value "0" for --workers. Must be >= 1.'),
        (("--micro-batch", "0"), 'Invalid value "0" for --micro-batch. Must be >= 1.'),
        (("--ray", "0"), 'Invalid value "0" for --ray. Must be >= 1.'),
        (("--deadline-s", "0"), 'Invalid value "0.0" for --deadline-s. Must be > 0.'),
        (
            ("--deadline-s", "nan"),
            'Invalid value "nan" for --deadline-s. Must be <= 10000000.',
        ),
        (
            ("--workers", "10000000"),
            'Invalid value "10000000" for --workers. Must be <= 1000000.',
        ),
        (
            ("--deadline-s", "1e10"),
            '"10000000000.0" for --deadline-s. Must be <= 10000000.',
        ),
        (("--workers", "1" * 5000), "11111… into int."),
    ],
)
def test_a_pool_that_cannot_be_is_a_clear_error(
    task: Task, score: Callable[..., Run], flags: tuple[str, str], message: str
) -> None:
    done = score([_line(task, "one")], CONFIGS / "lexical.yaml", *flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 300


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "responses.jsonl:1: "),
        (
            '{"task_id": "x"}',
            "responses.jsonl:1: field 'response': is missing: add it; a line is",
        ),
        ('{"task_id": "x", "response": 3}', "field 'response'"),
        ("task_id,response", "the file must be JSON Lines, not CSV"),
        ("PAR1\x15\x04\0", "the file must be JSON Lines, and looks binary"),
        ('{"task_id": "unknown", "response": ""}', "no task has the id 'unknown'"),
        (
            '{"task_id": "unknown", "response": ""}',
            "`rubric-judge export policy TASKS PROMPTS`",
        ),
    ],
)
def test_a_wrong_response_line_is_one_clear_line_on_stderr(
    score: Callable[..., Run], line: str, message: str
) -> None:
    done = score([line], CONFIGS / "lexical.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith("rubric-judge: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_judge_configuration_names_the_key(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    judge = tmp_path / "judge.yaml"
    judge.write_text("type: llm\nmodle: openai/gpt\n")
    done = score([_line(task, "one")], judge)
    assert done.returncode == 2
    assert "did you mean 'model'" in done.stderr
    assert score([], tmp_path / "none.yaml").returncode == 2


def test_help_shows_an_example() -> None:
    command = Path(sys.executable).with_name("rubric-judge")
    done = subprocess.run(
        [command, "score", "--help"], capture_output=True, text=True, check=True
    )
    assert "rubric-judge score test.jsonl answers.jsonl" in done.stdout


def test_a_response_error_does_not_show_the_response(
    tmp_path: Path, task: Task
) -> None:
    path = tmp_path / "responses.jsonl"
    row = {"task_id": task.task_id, "response": ["Zyzzyva"]}
    path.write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(RubricFileError) as caught:
        read_responses(path, {task.task_id: task})
    assert "Zyzzyva" not in str(caught.value)
    assert (caught.value.line, caught.value.field) == (1, "response")


def test_a_file_that_cannot_be_finished_leaves_the_older_one(
    tmp_path: Path, make_view: Callable[..., JudgeView]
) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("older")
    view = make_view()
    good = JudgedResponse(
        line=1, view=view, result=anyio.run(ScriptedJudge().judge, view)
    )
    lost = JudgedResponse(
        line=2, view=view, result=anyio.run(FailingJudge().judge, view)
    )
    assert (good.reward, lost.reward) == (1.0, None)

    def rows() -> Any:
        yield good
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_judgements(path, rows())
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]
    write_judgements(path, [good, lost])
    assert [row["reward"] for row in _rows(path)] == [1.0, None]


@pytest.mark.parametrize(
    ("more", "problem"),
    [(', "response": "Zyzzyva"', "the same key twice"), ("", "hex escape")],
)
def test_a_line_that_cannot_be_taken_as_it_is_written_is_refused_with_its_place(
    tmp_path: Path, task: Task, more: str, problem: str
) -> None:
    response = "one" if more else "\\ud800"
    path = tmp_path / "responses.jsonl"
    path.write_text(
        f'\n{{"task_id": "{task.task_id}", "response": "{response}"{more}}}'
    )
    with pytest.raises(RubricFileError) as caught:
        read_responses(path, {task.task_id: task})
    assert caught.value.line == 2
    assert problem in str(caught.value)
    assert "Zyzzyva" not in str(caught.value)


def test_a_pipe_is_written_to_and_stays_a_pipe(
    tmp_path: Path, make_view: Callable[..., JudgeView]
) -> None:
    view = make_view()
    judged = JudgedResponse(
        line=1, view=view, result=anyio.run(ScriptedJudge().judge, view)
    )
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_judgements(path, [judged])
    row = json.loads(os.read(reader, 65536))
    os.close(reader)
    assert row["reward"] == 1.0
    assert path.is_fifo()


@pytest.mark.parametrize(
    "content",
    [b"[" * 2000, b"type: \xff", b"type: 2001-99-99"],
    ids=["deep", "bytes", "date"],
)
def test_a_configuration_that_is_no_yaml_is_a_clear_error(
    tmp_path: Path, task: Task, score: Callable[..., Run], content: bytes
) -> None:
    judge = tmp_path / "judge.yaml"
    judge.write_bytes(content)
    done = score([_line(task, "one")], judge)
    assert done.returncode == 2
    # On a busy machine a line of progress comes before it.
    assert done.stderr.splitlines()[-1].startswith(f"rubric-judge: {judge}:")


def test_a_path_with_brackets_is_printed_as_it_is(
    tmp_path: Path, task: Task, score: Callable[..., Run]
) -> None:
    judge = tmp_path / "judge.yaml"
    judge.write_text("type: lexical\n")
    (tmp_path / "m[/b]").mkdir(parents=True)
    done = score([_line(task, "one")], judge, out="m[/b]/o[bold].jsonl")
    assert done.returncode == 0
    assert "o[bold].jsonl" in done.stdout.replace("\n", "")
