"""The page's server: what it gives away, what it keeps, whom it answers."""

import json
import math
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from pydantic import SecretStr

from rubric_judge.quality.label_page.app import build_app
from rubric_judge.quality.label_page.desk import Desk
from rubric_judge.quality.labels.rows import LabelSource, read_labels
from rubric_judge.quality.labels.sampling import draw
from rubric_judge.quality.labels.store import open_labels

BEARER = "a-token-of-more-than-sixteen-characters"
ANNA = {"rater": "Anna", "line": 1, "criterion": "fact"}
Serving = Callable[[FastAPI], httpx.Client]


@contextmanager
def _desk(folder: Path, source: LabelSource) -> Generator[Desk]:
    judged = {line: {"fact": line % 3} for line in source.views or {}}
    with open_labels(folder / "labels.jsonl", source) as store:
        yield Desk(source, draw(source, judged, count=80, seed=0), store, seed=0)


@contextmanager
def _served(app: FastAPI) -> Generator[httpx.Client]:
    """Serve an application on a real socket and give a client."""
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, ws="none", lifespan="off")
    )
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


@pytest.fixture
def desk(tmp_path: Path, source: LabelSource) -> Iterator[Desk]:
    with _desk(tmp_path, source) as made:
        yield made


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Return a function that serves an application and gives a client."""
    with ExitStack() as ends:
        yield lambda app: ends.enter_context(_served(app))


@pytest.fixture
def client(desk: Desk, serving: Serving) -> httpx.Client:
    return serving(build_app(desk))


@pytest.fixture(scope="module")
def empty(
    tmp_path_factory: pytest.TempPathFactory, source: LabelSource
) -> Iterator[tuple[httpx.Client, Desk]]:
    """A client and its desk, for what changes nothing."""
    with (
        _desk(tmp_path_factory.mktemp("desk"), source) as desk,
        _served(build_app(desk)) as client,
    ):
        yield client, desk


def test_labels_are_kept_changed_and_taken_back(
    client: httpx.Client, tmp_path: Path, source: LabelSource
) -> None:
    work = client.get("/v1/work", params={"rater": "Anna"}).json()
    assert len(work["cells"]) == 80
    assert work["given"] == []

    for score in (2.5, None, 3):
        assert client.put("/v1/label", json={**ANNA, "score": score}).status_code == 204
        (label,) = read_labels(tmp_path / "labels.jsonl", source)
        assert label.score == score
    assert (label.response_sha256, label.inclusion) != (None, None)
    place = work["cells"].index({"line": 1, "criterion": "fact"})
    again = client.get("/v1/work", params={"rater": " Anna "}).json()
    assert again == {"cells": work["cells"], "given": [{"place": place, "score": 3.0}]}
    assert client.get("/v1/work", params={"rater": "Ben"}).json()["given"] == []
    assert client.get("/v1/raters").json() == {"fixed": None, "labels": {"Anna": 1}}
    assert client.delete("/v1/label", params=ANNA).status_code == 204
    assert (tmp_path / "labels.jsonl").read_text() == ""


def test_nothing_tells_of_a_judge_or_of_another_rater(client: httpx.Client) -> None:
    client.put("/v1/label", json={**ANNA, "rater": "Zoe", "score": 2})
    texts = client.get("/v1/responses/1").json()
    work = client.get("/v1/work", params={"rater": "Anna"}).json()

    assert set(texts) == {"question", "passage", "response", "criteria"}
    assert set(texts["criteria"]) == {"fact", "limit", "tone", "extra"}
    assert set(texts["criteria"]["fact"]) == {
        "name",
        "description",
        "guide",
        "elements",
        "weight",
    }
    assert {tuple(cell) for cell in work["cells"]} == {("line", "criterion")}
    assert "Zoe" not in json.dumps(work)


@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        ({"score": 3.5}, 409, "3.5 is more than the criterion's weight 3"),
        ({"score": -1}, 422, ""),
        ({"score": "many"}, 422, "score: needs a number"),
        ({"score": "1"}, 422, "score: "),
        ({"score": " 2 "}, 422, "score: "),
        ({"score": True}, 422, "score: "),
        ({"score": math.nan}, 422, "score: "),
        ({"score": math.inf}, 422, "score: "),
        ({"score": -math.inf}, 422, "score: "),
        ({"line": "1"}, 422, "line: "),
        ({"line": True}, 422, "line: "),
        ({"rater": "  "}, 422, "rater: a rater's name must not be empty"),
        ({"rater": "A" * 81}, 422, "at most 80 characters, not 81"),
        ({"rater": "\ud800"}, 422, "rater: "),
        ({"rater": "An\0na"}, 422, "U+0000"),
        ({"rater": "An\u202ena"}, 422, "U+202E"),
        ({"rater": "An\u200bna"}, 422, "U+200B"),
        ({"rater": "\u3164"}, 422, "U+3164"),
        ({"rater": 7}, 422, "rater: "),
        ({"other\u202e": 1}, 422, "other[U+202E]: "),
        ({"other\ud800": 1}, 422, "body: "),
        ({"line": 99}, 404, "response 99 or its criterion is not to be labelled here"),
        ({"criterion": "note"}, 404, "is not to be labelled here"),
        ({"other": 1}, 422, ""),
    ],
)
def test_what_is_no_label_of_these_responses_is_refused(
    empty: tuple[httpx.Client, Desk], change: dict[str, Any], status: int, told: str
) -> None:
    client, desk = empty
    sent = json.dumps({**ANNA, "score": 1, **change})  # NaN and Infinity too
    refused = client.put(
        "/v1/label", content=sent, headers={"Content-Type": "application/json"}
    )

    assert refused.status_code == status
    assert set(refused.json()) == {"detail"}
    assert told in str(refused.json()["detail"])
    assert len(desk.store) == 0


def test_a_number_beyond_all_numbers_is_refused(
    client: httpx.Client, desk: Desk
) -> None:
    sent = json.dumps({**ANNA, "score": 1}).replace(": 1}", ": 1e400}")
    refused = client.put(
        "/v1/label", content=sent, headers={"Content-Type": "application/json"}
    )

    assert (refused.status_code, len(desk.store)) == (422, 0)
    assert refused.json()["detail"].startswith("score: ")
    assert client.get("/v1/work", params={"rater": "\u202e"}).status_code == 422


def test_a_file_that_was_changed_or_a_full_disk_is_told_to_the_page(
    client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        refused = client.put("/v1/label", json={**ANNA, "score": 1})
    assert (refused.status_code, refused.json()["detail"]) == (
        507,
        "cannot be written: No space left on device",
    )
    (tmp_path / "labels.jsonl").write_text("")
    (tmp_path / "labels.jsonl").unlink()
    refused = client.put("/v1/label", json={**ANNA, "score": 1})
    assert refused.status_code == 409
    assert "another program has changed this file" in refused.json()["detail"]


def test_only_this_machines_own_page_is_answered(
    client: httpx.Client, desk: Desk
) -> None:
    for host in ("evil.example:8100", "127.0.0.1.evil.example", ""):
        for path in ("/", "/v1/responses/1"):
            assert client.get(path, headers={"Host": host}).status_code == 421
    assert client.get("/", headers={"Host": "localhost:8100"}).status_code == 200
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site}
        put = client.put("/v1/label", json={**ANNA, "score": 1}, headers=headers)
        assert put.status_code == 403
    typed = client.put(
        "/v1/label",
        content=json.dumps({**ANNA, "score": 1}),
        headers={"Content-Type": "text/plain"},
    )
    assert typed.status_code == 422
    assert client.put("/v1/label", content=b" " * 70_000).status_code == 413
    assert len(desk.store) == 0
    assert [client.get(path).status_code for path in ("/docs", "/openapi.json")] == [
        404,
        404,
    ]


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8100", True),
        ("127.9.9.9:1", True),
        ("LOCALHOST:65535", True),
        ("labels.localhost", True),
        ("[::1]:8100", True),
        ("[::1]", True),
        ("a{b.attacker.example:8177", False),
        ("evil.example:", False),
        ("evil.example:99999", False),
        ("localhost:99999", False),
        ("localhost:", False),
        ("localhost:1a", False),
        ("[", False),
        ("[::1", False),
        ("::1", False),
        ("[localhost]", False),
        ("x@127.0.0.1", False),
        ("127.0.0.1@evil.example", False),
        ("127.0.0.1/.evil.example", False),
        ("evil.example#.localhost", False),
        ("127.0.0.1 evil.example", False),
        ("127.0.0.1,evil.example", False),
        ("evillocalhost", False),
        ("192.0.2.1", False),
        ("[::]", False),
    ],
)
def test_only_a_host_that_is_this_machine_beyond_doubt_is_answered(
    empty: tuple[httpx.Client, Desk],
    host: str,
    is_ours: bool,  # noqa: FBT001  # a case
) -> None:
    client, _ = empty
    for path in ("/", "/v1/responses/1"):
        reply = client.get(path, headers={"Host": host})
        # What no `Host` can be, the protocol's parser may refuse before us.
        assert reply.status_code in ({200} if is_ours else {400, 421})
        assert ("Passage 0." in reply.text) == (is_ours and path != "/")


def test_a_second_host_is_not_answered(client: httpx.Client) -> None:
    two = ["Host: 127.0.0.1", "Host: evil.example"]
    place = client.base_url.host, client.base_url.port or 0
    for hosts in (two, two[::-1], [two[0], two[0]]):
        lines = ["GET /v1/responses/1 HTTP/1.1", *hosts, "Connection: close", "", ""]
        with (
            socket.create_connection(place, timeout=600) as asking,
            asking.makefile("rb") as reply,
        ):
            asking.sendall("\r\n".join(lines).encode())
            assert reply.readline().split()[1] in {b"400", b"421"}


def test_no_host_makes_a_request_look_like_one_for_the_empty_page(
    desk: Desk, serving: Serving
) -> None:
    client = serving(build_app(desk, token=SecretStr(BEARER)))
    for host in ("x/?", "x/#", "x?", "labels.example/?a="):
        reply = client.get("/v1/responses/1", headers={"Host": host})
        assert (reply.status_code, "Passage" in reply.text) == (401, False), host


def test_with_a_token_nothing_but_the_empty_page_is_given_without_it(
    desk: Desk, serving: Serving
) -> None:
    client = serving(build_app(desk, token=SecretStr(BEARER)))
    client.headers["Host"] = "labels.example"
    page = client.get("/")

    assert page.status_code == 200
    assert "Passage 0." not in page.text
    assert "default-src 'none'; connect-src 'self'; " in page.text
    assert page.headers["content-security-policy"] == "frame-ancestors 'none'"
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": BEARER}):
        for path in ("/v1/raters", "/v1/work?rater=Anna", "/v1/responses/1"):
            refused = client.get(path, headers=given)
            assert (refused.status_code, "Passage" in refused.text) == (401, False)
    right = {"Authorization": f"Bearer {BEARER}"}
    assert (
        client.get("/v1/responses/1", headers=right).json()["passage"] == "Passage 0."
    )


def test_where_a_rater_is_named_nobody_else_labels(
    desk: Desk, serving: Serving
) -> None:
    own = Desk(desk.source, desk.drawn, desk.store, seed=0, rater="Ben")
    client = serving(build_app(own))

    assert client.get("/v1/raters").json()["fixed"] == "Ben"
    assert client.get("/v1/work", params={"rater": "Anna"}).status_code == 404
    assert client.put("/v1/label", json={**ANNA, "score": 1}).status_code == 404
    assert (
        client.put("/v1/label", json={**ANNA, "rater": "Ben", "score": 1}).status_code
        == 204
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ("--host", "192.0.2.1"),
            "name an environment variable with a token in --token-env",
        ),
        (
            ("--host", "192.0.2.1", "--token-env", "UNSET_TOKEN"),
            "'UNSET_TOKEN' has 0 characters",
        ),
        (("--count", "0"), 'Invalid value "0" for --count.'),
        (
            ("--count", "300", "--count", "300"),
            "Each must be larger than the one before",
        ),
        (("--rater", ""), "--rater: a rater's name must not be empty"),
        (("--rater", "  "), "--rater: a rater's name must not be empty"),
        (("--rater", "An\u200bna"), "--rater: a rater's name must not hold U+200B"),
        (("--judgements", "labels.jsonl"), "labels.jsonl"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(
    command: Callable[..., tuple[int, str, str]],
    write_source: Callable[[Path, LabelSource], None],
    source: LabelSource,
    tmp_path: Path,
    options: tuple[str, ...],
    told: str,
) -> None:
    write_source(tmp_path, source)
    words = (
        "tasks.jsonl",
        "answers.jsonl",
        "--out",
        "labels.jsonl",
        "--port",
        "0",
        *options,
    )
    status, _, complaint = command("label", *words)

    assert status == 2
    assert told in complaint
    assert "Passage" not in complaint


@pytest.mark.slow
def test_the_command_keeps_others_out_and_goes_on_where_it_was_stopped(
    labelling: Callable[..., Any],
    command: Callable[..., tuple[int, str, str]],
    write_source: Callable[[Path, LabelSource], None],
    source: LabelSource,
    tmp_path: Path,
) -> None:
    write_source(tmp_path, source)
    with labelling(tmp_path, "--port", "0", "--rater", "  Anna ") as (process, address):
        httpx.put(f"{address}/v1/label", json={**ANNA, "score": 2}).raise_for_status()
        words = (
            "label",
            "tasks.jsonl",
            "answers.jsonl",
            "--out",
            "labels.jsonl",
            "--port",
            "0",
        )
        status, _, complaint = command(*words)
        assert status == 2
        assert f"in use by another process, pid {process.pid}" in complaint
        process.send_signal(signal.SIGTERM)
        printed, complaint = process.communicate(timeout=600)
    assert (process.returncode, complaint) == (0, "")
    assert "Anna" in printed
    with labelling(tmp_path, "--port", "0") as (_, address):
        work = httpx.get(f"{address}/v1/work", params={"rater": "Anna"}).json()
        assert [one["score"] for one in work["given"]] == [2.0]
