"""`rubric-judge serve` in a process of its own: load, signals, and its own OpenAPI."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx
import pytest
import structlog

from rubric_core import Task, write_tasks
from rubric_judge.cli import main
from rubric_judge.testing import FakeCall, FakeEndpoint

COMMAND = "from rubric_judge.cli import main; main()"
VARIABLE = "SERVICE_TOKEN"
BEARER = "a-token-of-more-than-sixteen-characters"
PASSAGE = "The passage that nobody may see, marked ZEBRA."
NUMBER = re.compile(r"number (\d+)")

pytestmark = pytest.mark.anyio


class Served(NamedTuple):
    process: subprocess.Popen[str]
    url: str
    task: Task


Serving = Callable[..., Any]


@pytest.fixture
def serving(
    tmp_path: Path, serving_command: Serving, monkeypatch: pytest.MonkeyPatch
) -> Serving:
    """Return a context manager that runs the command with a task and a judge file."""
    monkeypatch.setenv(VARIABLE, BEARER)
    row = {
        "question": "Q?",
        "passage": PASSAGE,
        "criteria": [{"id": "a", "weight": 1000}],
    }
    task = Task.from_json(row)
    write_tasks(tmp_path / "tasks.jsonl", [task])

    @contextmanager
    def start(judge: str, *options: str) -> Iterator[Served]:
        with serving_command(judge, *options) as (process, url):
            yield Served(process, url, task)

    return start


def _judge_of(endpoint: FakeEndpoint, *others: str) -> str:
    addresses = [endpoint.url, *others]
    options = {
        "type": "llm",
        "model": "fake",
        "transport": "direct",
        "api_base": addresses,
    }
    return json.dumps(options)  # which is YAML too


def _by_number(call: FakeCall) -> float:
    found = NUMBER.findall(call.messages[-1]["content"])
    return int(found[-1]) / 1000 if found else 1.0  # it is asked whether it is there


def _body(task: Task, *numbers: int) -> dict[str, Any]:
    items = [
        {"task_id": task.task_id, "response": f"number {number}"} for number in numbers
    ]
    return {"items": items}


def test_the_command_serves_and_ends_with_0_on_sigterm(serving: Serving) -> None:
    with serving("type: lexical", "--verbose") as served:
        assert httpx.get(f"{served.url}/healthz").json() == {
            "live": True,
            "ready": True,
            "queued": 0,
        }
        answer = httpx.post(f"{served.url}/v1/judge", json=_body(served.task, 1))
        served.process.send_signal(signal.SIGTERM)
        _, log = served.process.communicate(timeout=600)
    assert (answer.status_code, served.process.returncode) == (200, 0)
    events = [json.loads(line) for line in log.splitlines()]
    assert [event["path"] for event in events] == ["/healthz", "/v1/judge"]


def test_a_listwise_judge_scores_the_items_of_a_task_together_and_refuses_too_many(
    serving: Serving,
) -> None:
    with FakeEndpoint(_by_number) as endpoint:
        options = json.loads(_judge_of(endpoint)) | {"type": "listwise", "max_group": 2}
        with serving(json.dumps(options)) as served:
            two, three = (
                httpx.post(f"{served.url}/v1/judge", json=_body(served.task, *numbers))
                for numbers in ((1, 2), (1, 2, 3))
            )
            served.process.send_signal(signal.SIGTERM)
            served.process.communicate(timeout=600)
        asked = [len(call.responses) for call in endpoint.calls]
    assert asked == [0, 2]  # the first asks whether it is there
    assert [one["reward"] for one in two.json()["results"]] == [0.001, 0.002]
    assert three.status_code == 422
    assert "max_group is 2" in three.json()["error"]["message"]


@pytest.mark.slow
def test_a_ledger_answers_what_was_asked_before(serving: Serving) -> None:
    with FakeEndpoint(_by_number) as endpoint:
        rows: list[list[dict[str, Any]]] = []
        for _ in range(2):
            with serving(_judge_of(endpoint), "--ledger", "judged.db") as served:
                answer = httpx.post(
                    f"{served.url}/v1/judge", json=_body(served.task, 1, 2)
                )
                metrics = httpx.get(f"{served.url}/metrics").text
                rows.append(answer.json()["results"])
                served.process.send_signal(signal.SIGINT)
                served.process.communicate(timeout=600)
                assert served.process.returncode == 0
    assert rows[0] == rows[1]
    assert len(endpoint.calls) == 2 + 2  # one question before each start
    assert "rubric_judge_from_ledger_total 2.0" in metrics


def test_what_is_not_installed_is_named() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from rubric_judge.serve import serve"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (
        "MissingExtraError: serving a judge needs uvicorn: "
        "run `uv pip install --no-sources './packages/rubric-judge[serve]'` in the checkout"
    ) in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--host", "0.0.0.0"], "can be reached from other machines"),  # noqa: S104
        (["--token-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE"),
        (["--tasks", "missing.jsonl"], "missing.jsonl"),
        (["--max-items=0"], "the options: max_items: must be 1 or more"),
        (["--deadline-s", "1e10"], "deadline_s: must be 10000000 or less"),
        (["--port", "-1"], "the options: port: must be 0 or more"),
        (["--workers", "0"], 'Invalid value "0" for --workers. Must be >= 1.'),
        (
            ["--judge", "dead.yaml"],
            "the judge 'openai/fake' at 'http://127.0.0.1:9/v1'",
        ),
    ],
)
def test_what_cannot_be_served_is_one_line_and_status_2(
    options: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("judge.yaml").write_text("type: lexical")
    Path("dead.yaml").write_text(
        "type: llm\nmodel: openai/fake\ntransport: direct\nbackoff_s: 0.05\n"
        "api_base: [http://127.0.0.1:9/v1, http://127.0.0.1:9/v2]\n"
    )
    judge = () if "--judge" in options else ("--judge", "judge.yaml")
    monkeypatch.setattr("sys.argv", ["rubric-judge", "serve", *judge, *options])
    with pytest.raises(SystemExit) as ended:
        main()
    structlog.reset_defaults()
    out, said = capsys.readouterr()
    assert out == ""
    assert ended.value.code == 2
    assert says in said
    assert len(said.splitlines()) == 1


def test_a_replica_that_is_not_there_is_named_and_the_other_serves(
    serving: Serving,
) -> None:
    with (
        FakeEndpoint(0.5) as endpoint,
        serving(_judge_of(endpoint, "http://127.0.0.1:9/v1")) as served,
    ):
        answer = httpx.post(
            f"{served.url}/v1/judge", json=_body(served.task, 1), timeout=600
        )
        served.process.send_signal(signal.SIGTERM)
        _, said = served.process.communicate(timeout=600)
    assert [row["reward"] for row in answer.json()["results"]] == [0.5]
    assert said.startswith(
        "rubric-judge: one replica is not there: the judge 'fake' at "
    )
    assert said.count("\n") == 1


async def _health(
    client: httpx.AsyncClient, wanted: Callable[[dict[str, Any]], bool]
) -> httpx.Response:
    """Ask until the service says what is wanted."""
    for _ in range(1000):
        health = await client.get("/healthz")
        if wanted(health.json()):
            return health
        await anyio.sleep(0.02)
    raise TimeoutError


@pytest.mark.slow
async def test_a_signal_under_load_loses_no_answer(serving: Serving) -> None:
    answers: list[httpx.Response] = []
    with (
        FakeEndpoint(_by_number, latency=0.5) as endpoint,
        serving(_judge_of(endpoint), "--workers", "4", "--drain-s", "30") as served,
    ):
        async with httpx.AsyncClient(base_url=served.url, timeout=600) as client:

            async def ask(number: int) -> None:
                body = _body(served.task, number, number + 500)
                answers.append(await client.post("/v1/judge", json=body))

            async with anyio.create_task_group() as group:
                for number in range(40):
                    group.start_soon(ask, number)
                await _health(client, lambda health: health["queued"] == 80)
                served.process.send_signal(signal.SIGTERM)
                health = await _health(client, lambda health: not health["ready"])
                live = await client.get("/healthz/live")
                refused = await client.post("/v1/judge", json=_body(served.task, 1))
        served.process.communicate(timeout=600)
    assert served.process.returncode == 0
    assert [answer.status_code for answer in answers] == [200] * 40
    assert health.status_code == 503
    assert (live.status_code, live.json()["live"]) == (200, True)
    assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "draining")
    assert int(refused.headers["retry-after"]) >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("drain_s", "signals"), [("0.5", 1), ("60", 2)])
async def test_what_is_not_answered_in_time_is_told_so_and_ends_with_1(
    serving: Serving, drain_s: str, signals: int
) -> None:
    answers: list[httpx.Response] = []
    latencies_s = iter([0.0])  # of the question whether it is there
    with (
        FakeEndpoint(latency=lambda _: next(latencies_s, 60.0)) as endpoint,
        serving(_judge_of(endpoint), "--drain-s", drain_s) as served,
    ):
        async with httpx.AsyncClient(base_url=served.url, timeout=600) as client:

            async def ask() -> None:
                answers.append(
                    await client.post("/v1/judge", json=_body(served.task, 1))
                )

            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await _health(client, lambda health: health["queued"] == 1)
                for _ in range(signals):
                    served.process.send_signal(signal.SIGTERM)
                    await anyio.sleep(0.3)
        _, log = served.process.communicate(timeout=600)
    assert served.process.returncode == 1
    assert [answer.json()["error"]["kind"] for answer in answers] == ["draining"]
    assert "serve.drain.unanswered" in log


@pytest.mark.slow
def test_a_signal_while_bodies_are_on_their_way_is_no_fault_of_ours(
    serving: Serving,
) -> None:
    head = b"POST /v1/judge HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    with (
        FakeEndpoint() as endpoint,
        serving(_judge_of(endpoint)) as served,
        ExitStack() as stack,
    ):
        address = httpx.URL(served.url)
        for _ in range(3):
            client = stack.enter_context(
                socket.create_connection((address.host, address.port or 80))
            )
            client.sendall(head)
        assert (
            httpx.get(f"{served.url}/healthz").status_code == 200
        )  # the others came before it
        served.process.send_signal(signal.SIGTERM)
        _, log = served.process.communicate(timeout=600)
    assert served.process.returncode == 0
    assert "Traceback" not in log


@pytest.mark.slow
async def test_two_hundred_clients_are_all_answered_in_their_order(
    serving: Serving,
) -> None:
    answers: dict[int, httpx.Response] = {}
    waits: Counter[int] = Counter()
    limits = httpx.Limits(max_connections=200)
    with (
        FakeEndpoint(_by_number, latency=0.05) as endpoint,
        serving(
            _judge_of(endpoint), "--max-queued", "300", "--workers", "32"
        ) as served,
    ):
        async with httpx.AsyncClient(
            base_url=served.url, timeout=600, limits=limits
        ) as client:

            async def ask(number: int) -> None:
                body = _body(served.task, *range(number, number + 4))
                while (
                    answer := await client.post("/v1/judge", json=body)
                ).status_code == 429:
                    waits[number] += 1
                    await anyio.sleep(float(answer.headers["retry-after"]) / 4)
                answers[number] = answer

            async with anyio.create_task_group() as group:
                for number in range(200):
                    group.start_soon(ask, number)
            metrics = (await client.get("/metrics")).text
    assert {answer.status_code for answer in answers.values()} == {200}
    assert len(answers) == 200
    for number, answer in answers.items():
        expected = [(number + offset) / 1000 for offset in range(4)]
        assert [row["reward"] for row in answer.json()["results"]] == pytest.approx(
            expected
        )
    assert waits  # 800 responses do not fit into a queue of 300
    assert 'rubric_judge_judgements_total{outcome="scored",reason=""} 800.0' in metrics


@pytest.mark.slow
def test_the_service_keeps_to_its_own_description(
    serving: Serving, tmp_path: Path
) -> None:
    # Rubrics can break rules that JSON Schema cannot state (unique ids, a weight above 0), and ids
    # of tasks are not in it: for those, 422 and 404 answer what the schema allows.
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(
        "[checks.positive_data_acceptance]\nexpected-statuses = [200, 401, 404, 422]\n"
    )
    with serving("type: lexical", "--token-env", VARIABLE) as served:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli"),
                *(
                    "--config-file",
                    str(configuration),
                    "run",
                    f"{served.url}/openapi.json",
                ),
                *("--header", f"Authorization: Bearer {BEARER}"),
                *(
                    "--checks",
                    "all",
                    "--max-examples",
                    "60",
                    "--generation-deterministic",
                ),
                *("--no-color", "--suppress-health-check", "all"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert served.process.poll() is None
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
