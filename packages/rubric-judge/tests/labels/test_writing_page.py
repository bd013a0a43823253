"""The server of the page of written answers, and the command that starts it."""

import json
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from rubric_core import Task
from rubric_judge.quality.label_page.app import build_app
from rubric_judge.quality.label_page.writing_desk import LONGEST_ANSWER, WritingDesk
from rubric_judge.quality.labels.rows import LabelSource
from rubric_judge.quality.labels.writing import open_written
from rubric_judge.quality.labels.written import read_written

FILE = "written_answers.jsonl"
WRITE = ("label", "tasks.jsonl", "--write", "--out", FILE, "--port", "0")


@contextmanager
def _served(desk: WritingDesk) -> Generator[httpx.Client]:
    config = uvicorn.Config(build_app(desk), log_config=None, ws="none", lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [bound]}, daemon=True
        )
        thread.start()
        try:
            with httpx.Client(base_url=address, timeout=600) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(20)


@pytest.fixture(scope="module")
def tasks(source: LabelSource) -> list[Task]:
    return [
        task.model_copy(update={"reference_answer": "As it is."})
        for task in source.tasks.values()
    ]


@pytest.fixture
def client(tmp_path: Path, tasks: list[Task]) -> Iterator[httpx.Client]:
    with (
        open_written(tmp_path / FILE, {task.task_id: task for task in tasks}) as store,
        _served(WritingDesk(tasks[:3], store, seed=0)) as client,
    ):
        yield client


@pytest.fixture
def anna(tasks: list[Task]) -> dict[str, str]:
    return {"rater": "Anna", "task_id": tasks[0].task_id, "truth": "right"}


def test_answers_are_kept_changed_and_taken_back(
    client: httpx.Client, tmp_path: Path, anna: dict[str, str]
) -> None:
    work = client.get("/v1/work", params={"rater": "Anna"}).json()
    assert len(work["tasks"]) == 3
    assert {tuple(one["given"]) for one in work["tasks"]} == {()}
    assert "the" in work["function_words"]

    for text in ("One.", " Two\n🦉", "Two."):
        assert (
            client.put("/v1/answer", json={**anna, "response": text}).status_code == 204
        )
        ((_, answer),) = read_written(tmp_path / FILE)
        assert (answer.response, answer.author, answer.by_model) == (
            text,
            "Anna",
            False,
        )
        assert (answer.task_id, answer.rubric_sha256) != (None, None)
    again = client.get("/v1/work", params={"rater": " Anna "}).json()["tasks"]
    assert [one["given"] for one in again if one["given"]] == [{"right": "Two."}]
    of_ben = client.get("/v1/work", params={"rater": "Ben"})
    assert "Two." not in of_ben.text
    assert client.get("/v1/raters").json() == {"fixed": None, "answers": {"Anna": 1}}
    for _ in range(2):
        assert client.delete("/v1/answer", params=anna).status_code == 204
    assert (tmp_path / FILE).read_text() == ""


def test_what_is_read_of_a_task_is_all_that_a_writer_needs(
    client: httpx.Client, tasks: list[Task]
) -> None:
    shown = client.get("/v1/task", params={"task_id": tasks[0].task_id}).json()

    assert set(shown) == {"question", "passage", "reference", "criteria"}
    assert (shown["passage"], shown["reference"]) == ("Passage 0.", "As it is.")
    assert len(shown["criteria"]) == 5
    assert set(shown["criteria"][0]) == {
        "name",
        "description",
        "guide",
        "elements",
        "weight",
    }
    assert (
        client.get("/v1/task", params={"task_id": tasks[4].task_id}).status_code == 404
    )


@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        ({"response": ""}, 422, "response: an empty box is no answer"),
        ({"response": " \n"}, 422, "response: an empty box is no answer"),
        ({"response": "x" * (LONGEST_ANSWER + 1)}, 422, "response: "),
        ({"response": "\ud800"}, 422, "response: "),
        ({"response": 7}, 422, "response: "),
        ({"truth": "perhaps"}, 422, "truth: "),
        ({"rater": "  "}, 422, "rater: a rater's name must not be empty"),
        ({"rater": "An\u200bna"}, 422, "U+200B"),
        ({"task_id": "none"}, 404, "no answer is to be written to this task here"),
        ({"other": 1}, 422, ""),
    ],
)
def test_what_is_no_answer_to_these_tasks_is_refused(
    client: httpx.Client, anna: dict[str, str], tmp_path: Path, change: dict[str, Any], status: int,
    told: str,
) -> None:  # fmt: skip
    sent = json.dumps({**anna, "response": "Yes.", **change})
    refused = client.put(
        "/v1/answer", content=sent, headers={"Content-Type": "application/json"}
    )

    assert refused.status_code == status
    assert told in str(refused.json()["detail"])
    assert (tmp_path / FILE).read_text() == ""


def test_the_longest_answer_fits_a_request_whatever_its_characters(
    client: httpx.Client, anna: dict[str, str]
) -> None:
    for character in ("x", "\n", "山", "\x01"):
        sent = {**anna, "response": character * (LONGEST_ANSWER - 1) + "."}
        content = json.dumps(sent, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json"}
        assert (
            client.put("/v1/answer", content=content, headers=headers).status_code
            == 204
        )


def test_a_full_disk_and_a_changed_file_are_told_to_the_page(
    client: httpx.Client,
    anna: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        refused = client.put("/v1/answer", json={**anna, "response": "Yes."})
    assert (refused.status_code, refused.json()["detail"]) == (
        507,
        "cannot be written: No space left on device",
    )
    (tmp_path / FILE).unlink()
    refused = client.put("/v1/answer", json={**anna, "response": "Yes."})
    assert (refused.status_code, "another program" in refused.json()["detail"]) == (
        409,
        True,
    )


def test_only_this_machines_own_page_is_answered(
    client: httpx.Client, anna: dict[str, str]
) -> None:
    for headers, status in (
        ({"Host": "evil.example"}, 421),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ):
        sent = {**anna, "response": "Yes."}
        assert (
            client.put("/v1/answer", json=sent, headers=headers).status_code == status
        )
        read = client.get(
            "/v1/task", params={"task_id": anna["task_id"]}, headers=headers
        )
        assert (read.status_code, "Passage" in read.text) == (status, False)


def test_where_a_writer_is_named_nobody_else_writes(
    tmp_path: Path, tasks: list[Task], anna: dict[str, str]
) -> None:
    known = {task.task_id: task for task in tasks}
    with (
        open_written(tmp_path / FILE, known) as store,
        _served(WritingDesk(tasks, store, seed=0, rater="Ben")) as client,
    ):
        sent = {**anna, "response": "Yes."}
        assert client.get("/v1/raters").json()["fixed"] == "Ben"
        assert client.put("/v1/answer", json=sent).status_code == 404
        assert client.delete("/v1/answer", params=anna).status_code == 404
        assert (
            client.put("/v1/answer", json={**sent, "rater": "Ben"}).status_code == 204
        )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("tasks.jsonl",),
            "RESPONSES: needs a file of responses to score; to have answers of",
        ),
        (
            ("tasks.jsonl", "answers.jsonl", "--write"),
            "RESPONSES: with --write nothing is scored",
        ),
        (
            ("tasks.jsonl", "--write", "--judgements", "j.jsonl"),
            "--judgements: with --write",
        ),
        (
            ("tasks.jsonl", "--write", "--thoughts", "kept"),
            "--thoughts: with --write nothing",
        ),
        (
            ("tasks.jsonl", "answers.jsonl", "--model", "m.yaml"),
            "--model: is for answers that are",
        ),
        (
            ("tasks.jsonl", "answers.jsonl", "--workers", "2"),
            "--workers: is for answers that are",
        ),
        (
            ("tasks.jsonl", "--write", "--workers", "2"),
            "--workers: is for a model that writes",
        ),
        (
            ("tasks.jsonl", "--write", "--count", "2", "--count", "3"),
            "--count: with --write give",
        ),
        (("tasks.jsonl", "--write", "--count", "0"), 'Invalid value "0" for --count.'),
        (
            ("tasks.jsonl", "--write", "--rater", " "),
            "--rater: a rater's name must not be empty",
        ),
        (("tasks.jsonl", "--write", "--host", "192.0.2.1"), "a token in --token-env"),
        (("empty.jsonl", "--write"), "empty.jsonl"),
        (
            ("tasks.jsonl", "--write", "--model", "m.yaml", "--rater", "Anna"),
            "--rater: is for a page on which people write, and --model serves none",
        ),
        (
            ("tasks.jsonl", "--write", "--model", "m.yaml", "--port", "1"),
            "--host, --port or --token-env: is for a page",
        ),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(
    command: Callable[..., tuple[int, str, str]],
    write_source: Callable[[Path, LabelSource], None],
    source: LabelSource,
    tmp_path: Path,
    words: tuple[str, ...],
    told: str,
) -> None:
    write_source(tmp_path, source)
    (tmp_path / "empty.jsonl").touch()
    status, _, complaint = command("label", *words, "--out", FILE)

    assert (status, complaint.count("\n")) == (2, 1)
    assert told in complaint


def test_a_file_that_holds_something_else_is_refused_and_stays(
    command: Callable[..., tuple[int, str, str]],
    write_source: Callable[[Path, LabelSource], None],
    source: LabelSource,
    tmp_path: Path,
) -> None:
    write_source(tmp_path, source)
    content = (tmp_path / "answers.jsonl").read_bytes()
    (tmp_path / FILE).write_bytes(content)
    status, _, complaint = command(*WRITE)

    assert (status, f"{FILE}:1: " in complaint) == (2, True)
    assert (tmp_path / FILE).read_bytes() == content


@pytest.mark.slow
def test_the_command_keeps_others_out_and_goes_on_where_it_was_stopped(
    writing: Callable[..., Any],
    command: Callable[..., tuple[int, str, str]],
    write_source: Callable[[Path, LabelSource], None],
    source: LabelSource,
    tmp_path: Path,
) -> None:
    write_source(tmp_path, source)
    with writing(tmp_path, "--port", "0", "--count", "2") as (process, address):
        work = httpx.get(f"{address}/v1/work", params={"rater": "Anna"}).json()["tasks"]
        assert len(work) == 2
        sent = {"rater": "Anna", "task_id": work[1]["task_id"], "truth": "false"}
        httpx.put(
            f"{address}/v1/answer", json={**sent, "response": "No."}
        ).raise_for_status()
        status, _, complaint = command(*WRITE)
        assert status == 2
        assert f"in use by another process, pid {process.pid}" in complaint
        process.send_signal(signal.SIGTERM)
        printed, complaint = process.communicate(timeout=600)
    assert (process.returncode, complaint) == (0, "")
    assert "Anna" in printed
    with writing(tmp_path, "--port", "0", "--count", "2") as (_, address):
        again = httpx.get(f"{address}/v1/work", params={"rater": "Anna"}).json()[
            "tasks"
        ]
        assert [one["given"] for one in again] == [{}, {"false": "No."}]
