"""What a connection may do before it asks, how many there may be, and what is logged of it."""

import json
import logging
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from structlog.testing import capture_logs

from rubric_core import JudgeView, Task
from rubric_judge.serve import ServeConfig, connections
from rubric_judge.serve.connections import OpenConnections
from rubric_judge.serve.telemetry import Recurring
from rubric_judge.testing import ScriptedJudge

Serving = Callable[..., Any]

UNFINISHED = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-a: "
HELD = b"POST /v1/judge HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@contextmanager
def _connected(
    client: httpx.Client, *sent: bytes, source: str = ""
) -> Generator[socket.socket]:
    to = (client.base_url.host, client.base_url.port or 0)
    came_from = (source, 0) if source else None
    with socket.create_connection(to, timeout=600, source_address=came_from) as one:
        for data in sent:
            one.sendall(data)
        yield one


def _read(one: socket.socket) -> tuple[int, dict[str, Any]]:
    """Read an answer and the end of the connection."""
    answer = b""
    while data := one.recv(65536):
        answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def _is_open(one: socket.socket) -> bool:
    one.setblocking(False)  # noqa: FBT003
    try:
        return bool(one.recv(1))
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def _kinds(logged: list[Any]) -> list[str]:
    return [line["event"] for line in logged if line["log_level"] == "warning"]


@pytest.mark.parametrize("sent", [b"", UNFINISHED, b"POST /v1/judge HTTP/1.1\r\n"])
def test_headers_that_do_not_come_are_not_waited_for(
    serving: Serving, sent: bytes
) -> None:
    with serving(headers_s=0.2) as client, _connected(client, sent) as one:
        status, body = _read(one)
        assert (status, body["error"]["kind"]) == (408, "too_slow")
        assert client.get("/healthz").status_code == 200


def test_headers_that_come_byte_by_byte_have_no_more_time(serving: Serving) -> None:
    with serving(headers_s=0.2) as client, _connected(client, UNFINISHED) as one:
        one.settimeout(0.01)
        for _ in range(1000):
            try:
                one.sendall(b"b")
                if one.recv(1):
                    break
            except TimeoutError:
                continue
        else:
            pytest.fail("the connection was kept open")


def test_the_next_request_on_a_connection_has_as_much_time(serving: Serving) -> None:
    with serving(headers_s=0.2) as client, _connected(client, WHOLE) as one:
        answer = one.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200")
        one.sendall(UNFINISHED)
        assert _read(one)[0] == 408


def test_a_judgement_may_take_longer_than_the_headers(
    serving: Serving, task: Task
) -> None:
    async def wait(view: JudgeView) -> None:
        del view
        await anyio.sleep(0.5)

    with serving(ScriptedJudge(0.5, before=wait), headers_s=0.2) as client:
        body = {"items": [{"task_id": task.task_id, "response": "x"}]}
        assert client.post("/v1/judge", json=body).json()["results"][0]["reward"] == 0.5


@pytest.mark.parametrize(
    "sent", [b"", UNFINISHED, HELD], ids=["nothing", "headers", "body"]
)
def test_unfinished_requests_keep_nobody_out(serving: Serving, sent: bytes) -> None:
    with (
        serving(max_connections=4) as client,
        capture_logs() as logged,
        ExitStack() as stack,
    ):
        held = [stack.enter_context(_connected(client, sent)) for _ in range(12)]
        for _ in range(3):
            assert httpx.get(f"{client.base_url}/healthz").status_code == 200
        # The longest-waiting made room, and were not many more than had to.
        assert [_is_open(one) for one in held[:8]] == [False] * 8
        assert _is_open(held[-1])
    assert _kinds(logged) == ["serve.connection.given_up"]


def test_a_connection_too_many_is_told_so(serving: Serving, task: Task) -> None:
    asked, answered = threading.Event(), threading.Event()

    async def hold(view: JudgeView) -> None:
        del view
        asked.set()
        await anyio.to_thread.run_sync(answered.wait)

    body = json.dumps({"items": [{"task_id": task.task_id, "response": "x"}]}).encode()
    whole = b"POST /v1/judge HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    whole += f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with (
        serving(ScriptedJudge(0.5, before=hold), max_connections=1) as client,
        capture_logs() as logged,
        _connected(client, whole) as first,
    ):
        assert asked.wait(600)
        with _connected(client) as second:
            status, refused = _read(second)
        answered.set()
        assert _read(first)[0] == 200
    assert (status, refused["error"]["kind"]) == (429, "busy")
    assert _kinds(logged) == ["serve.connection.refused"]


def test_one_address_does_not_take_all_connections(serving: Serving) -> None:
    with (
        serving(max_connections=20, max_connections_per_address=3) as client,
        ExitStack() as stack,
    ):
        others = [
            stack.enter_context(_connected(client, source="127.0.0.2"))
            for _ in range(2)
        ]
        many = [stack.enter_context(_connected(client, UNFINISHED)) for _ in range(10)]
        assert client.get("/healthz").status_code == 200
        assert [_is_open(one) for one in others] == [True] * 2
        assert sum(_is_open(one) for one in many) == 2


def test_an_answer_that_nobody_takes_is_given_up(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_UNREAD_S", 0.1)
    many = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 400  # 10 MB of answers
    with serving() as client, capture_logs() as logged, _connected(client, many):
        until_s = time.monotonic() + 20
        while not _kinds(logged) and time.monotonic() < until_s:
            time.sleep(0.01)
        assert _kinds(logged) == ["serve.connection.unread"]
        assert client.get("/healthz").status_code == 200


def test_the_bounds_fit_the_files_that_the_process_may_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bounds(files: int, **given: Any) -> tuple[int, int]:
        def getrlimit(_which: int) -> tuple[int, int]:
            return files, files

        monkeypatch.setattr(resource, "getrlimit", getrlimit)
        opened = OpenConnections(ServeConfig(**given), Recurring())
        return opened.most, opened.most_per_address

    public = {"host": "0.0.0.0", "token_env": "T"}  # noqa: S104
    assert bounds(resource.RLIM_INFINITY) == (4096, 4096)
    assert bounds(resource.RLIM_INFINITY, **public) == (4096, 2048)
    assert bounds(200) == (100, 100)
    assert bounds(200, **public) == (100, 50)
    assert bounds(200, max_connections=30, max_connections_per_address=40) == (30, 30)


def test_lines_of_one_kind_are_written_once_and_counted() -> None:
    now_s = [0.0]
    recurring = Recurring(clock=lambda: now_s[0])
    with capture_logs() as logged:
        passed = [recurring.passes("a") for _ in range(1000)]
        assert (passed[0], any(passed[1:]), recurring.passes("b")) == (
            True,
            False,
            True,
        )
        now_s[0] = 11.0
        recurring.report()
        assert recurring.passes("a")
    assert [(line["like"], line["lines"]) for line in logged] == [("a", 999)]


def test_lines_of_libraries_are_counted_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recurring = Recurring()
    with capture_logs() as logged, recurring.over_libraries():
        for number in range(100):
            logging.getLogger("asyncio").error(f"out of files\nsocket: {number}")  # noqa: G004
            logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    assert [record.message.split("\n")[0] for record in caplog.records] == [
        "out of files",
        "Invalid HTTP request received.",
    ]
    assert [line["lines"] for line in logged] == [99, 99]


@pytest.mark.slow
def test_a_process_with_few_files_serves_on(tmp_path: Path) -> None:
    (tmp_path / "judge.yaml").write_text("type: lexical")
    command = f"ulimit -n 120; exec {sys.executable} -c 'from rubric_judge.cli import main; main()'"
    with subprocess.Popen(
        ["bash", "-c", f"{command} serve --judge judge.yaml --port 0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        with (
            httpx.Client(
                base_url=process.stdout.readline().split()[-1], timeout=600
            ) as client,
            ExitStack() as stack,
        ):
            for _ in range(8):
                for _ in range(30):
                    stack.enter_context(_connected(client, UNFINISHED))
                assert httpx.get(f"{client.base_url}/healthz").status_code == 200
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=600)
    assert process.returncode == 0
    assert "serve.connections.fewer" in said
    assert len(said.splitlines()) < 10
