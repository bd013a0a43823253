"""The service on a real socket, with one task."""

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from rubric_core import Task
from rubric_judge import JudgePool
from rubric_judge.serve import JudgeService, ServeConfig, build_app
from rubric_judge.serve.connections import OpenConnections
from rubric_judge.testing import ScriptedJudge

COMMAND = "from rubric_judge.cli import main; main()"
TEXTS = ("ZEBRA", "OKAPI", "QUAGGA", "a-token-of-more-than-sixteen-characters")


@pytest.fixture
def task_row() -> dict[str, Any]:
    """A line of a dataset, with marks in what nobody may see."""
    criteria = [
        {"id": "a", "weight": 3, "description": "A criterion, marked OKAPI."},
        {"id": "b", "weight": 1},
    ]
    passage = "The passage that nobody may see, marked ZEBRA."
    return {"question": "Which loss?", "passage": passage, "criteria": criteria}


@pytest.fixture
def task(task_row: dict[str, Any]) -> Task:
    return Task.from_json(task_row)


@contextmanager
def _running(service: JudgeService) -> Generator[httpx.Client]:
    connections: Any = OpenConnections(service.config, service.recurring).protocol
    config = uvicorn.Config(
        build_app(service),
        http=connections,
        log_config=None,
        access_log=False,
        ws="none",
        lifespan="off",
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [bound]}, daemon=True
        )
        thread.start()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
            yield client
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def serving(task: Task) -> Callable[..., Any]:
    """Return a context manager that serves a judge with one task and gives a client."""

    def start(judge: Any = None, *, workers: int = 4, **bounds: Any) -> Any:
        pool = JudgePool(judge or ScriptedJudge(0.5), workers=workers, micro_batch=1)
        tasks = {task.task_id: task}
        return _running(JudgeService(pool, tasks, config=ServeConfig(**bounds)))

    return start


@pytest.fixture
def serving_command(tmp_path: Path) -> Callable[..., Any]:
    """Return a context manager that runs the command on `tasks.jsonl` with a judge's YAML."""

    @contextmanager
    def start(
        judge: str, *options: str
    ) -> Generator[tuple[subprocess.Popen[str], str]]:
        (tmp_path / "judge.yaml").write_text(judge)
        arguments = [
            "--judge",
            "judge.yaml",
            "--tasks",
            "tasks.jsonl",
            "--port",
            "0",
            *options,
        ]
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "serve", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, line + (process.stderr.read() if process.stderr else "")
            yield process, found[0]
        finally:
            process.kill()
            process.communicate()

    return start


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """A service that many tests may ask, for none changes it."""
    pool = JudgePool(ScriptedJudge(0.5))
    with _running(JudgeService(pool, {})) as one:
        yield one


@pytest.fixture
def items() -> Callable[..., dict[str, Any]]:
    """Return a function that makes the body of a request."""

    def make(task: Task, *responses: str) -> dict[str, Any]:
        return {
            "items": [{"task_id": task.task_id, "response": text} for text in responses]
        }

    return make


@pytest.fixture
def says_no_text() -> Callable[[object], None]:
    """Return a function that refuses what holds a text or the token."""

    def check(shown: object) -> None:
        said = (
            shown.text + str(shown.headers)
            if isinstance(shown, httpx.Response)
            else str(shown)
        )
        assert not [text for text in TEXTS if text in said]

    return check
