"""A cascade of language models behind real HTTP servers: calibrated, scored, killed, on Ray."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, read_tasks, write_tasks
from rubric_judge import JudgePool, Ledger, load_judge, load_replicas, read_judge_spec
from rubric_judge.cli import app
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.pool.ray_pool import RayJudgePool
from rubric_judge.quality.responses import read_responses
from rubric_judge.testing import (
    FakeCall,
    FakeEndpoint,
    FakeEndpointProcess,
    Fault,
    marked_share,
)
from rubric_judge.testing import marked as mark

pytestmark = [
    pytest.mark.anyio,
    # Ray tells of its own future, and leaves sockets and subprocesses to the end of the process.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PROGRAM = Path(sys.executable).with_name("rubric-judge")
N = 80


def _is_hard(view: int) -> bool:
    return view % 4 == 0


def unsteady(call: FakeCall) -> float:
    """Award what the mark says, and for every fourth response one thing and then the other."""
    if call.mark is None:
        return 0.0  # the question whether anybody is there
    return float(call.number % 2) if _is_hard(call.mark.view) else call.mark.share


def hesitant(call: FakeCall) -> float:
    """Award what the mark says, and half of the weight for every fourth response."""
    if call.mark is None:
        return 0.0
    return 0.5 if _is_hard(call.mark.view) else call.mark.share


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tasks of four responses each, every one right or wrong, and people's labels of them."""
    rubric = Rubric(
        criteria=(Criterion(id="a", weight=2.0), Criterion(id="b", weight=1.0))
    )
    tasks = [
        Task(
            question=f"What is in {n}?",
            grounding=Grounding(f"Passage {n}."),
            rubric=rubric,
        )
        for n in range(N // 4)
    ]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    answers: list[str] = []
    labels: list[str] = []
    for view in range(N):
        share, task_id = float(view // 4 % 2), tasks[view // 4].task_id
        text = mark("An answer.", view=view, share=share)
        answers.append(json.dumps({"task_id": task_id, "response": text}) + "\n")
        labels += [
            json.dumps({"line": view + 1, "task_id": task_id, "criterion": criterion.id,
                        "score": share * criterion.weight, "rater": "ann"}) + "\n"
            for criterion in rubric
        ]  # fmt: skip
    (tmp_path / "answers.jsonl").write_text("".join(answers), encoding="utf-8")
    (tmp_path / "labels.jsonl").write_text("".join(labels), encoding="utf-8")
    return tmp_path


def _configure(folder: Path, cheap: str, strong: str, **changes: object) -> None:
    model = {"type": "llm", "transport": "direct", "backoff_s": 0.01}
    config = {
        "type": "cascade",
        "calibration": "cascade.json",
        "judges": [
            {**model, "model": "cheap", "api_base": cheap, "max_transport_attempts": 1},
            {
                "type": "hybrid",
                "judge": {**model, "model": "strong", "api_base": strong},
            },
        ],
        **changes,
    }
    (folder / "cascade.yaml").write_text(json.dumps(config), encoding="utf-8")


def _words(command: str, *more: str) -> list[str]:
    return [command, "tasks.jsonl", "answers.jsonl", "--judge", "cascade.yaml", *more]


def _calibrate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    words = _words(
        *("calibrate", "--labels", "labels.jsonl", "--cascade", "--risk", ".1"),
        *("--unit", "response", "--out", "."),
    )
    assert app(words, result_action="return_value") == 0
    return json.loads((folder / "cascade.json").read_text("utf-8"))


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_models_are_calibrated_scored_and_what_they_differ_on_queued(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeEndpoint(unsteady) as cheap, FakeEndpoint(marked_share) as strong:
        _configure(folder, cheap.url, strong.url, k=4, label_queue="queue.jsonl")

        found = _calibrate(folder, monkeypatch)

        # What the hard ones are unsure by depends on how calls interleave; 0 is certain.
        assert found["pooled"]["threshold"] is not None
        assert found["pooled"]["n"] == N
        assert len([call for call in cheap.calls if call.mark]) == 4 * N
        assert not (folder / "queue.jsonl").exists()
        calls = len(strong.calls)
        words = _words("score", "--out", "judged.jsonl")
        assert app(words, result_action="return_value") == 0
        assert len(strong.calls) - calls < N / 2
    out = capsys.readouterr().out
    assert "risk, calibrated" in out
    assert re.search(r"\bescalated +\d[\d.%]* of labelled", out)
    assert re.search(r"\bescalated +\d+ of \d+ criteria", out)
    assert re.search(r"\baudited +5.0% of what is kept", out)
    assert "hybrid_v2 + strong" in out
    for view, row in enumerate(_rows(folder / "judged.jsonl")):
        if not _is_hard(view):
            assert row["reward"] == view // 4 % 2
    queued = _rows(folder / "queue.jsonl") if (folder / "queue.jsonl").exists() else []
    assert all(
        row.keys() == {"task_id", "response_sha256", "criterion"} for row in queued
    )


def test_a_cheap_server_that_fails_is_no_failure_of_the_judgement(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeEndpoint(hesitant) as cheap, FakeEndpoint(marked_share) as strong:
        _configure(folder, cheap.url, strong.url, uncertainty="margin", audit_frac=0.0)
        _calibrate(folder, monkeypatch)
    faults = [None] * 2 + [Fault.PROSE, Fault.SERVER_ERROR, Fault.TRUNCATED] * 20
    with (
        FakeEndpoint(hesitant, faults=faults) as cheap,
        FakeEndpoint(marked_share) as strong,
    ):
        _configure(folder, cheap.url, strong.url, uncertainty="margin", audit_frac=0.0)
        words = _words("score", "--out", "judged.jsonl")
        assert app(words, result_action="return_value") == 0
        asked = {call.mark.view for call in strong.calls if call.mark}
    rows = _rows(folder / "judged.jsonl")
    assert [row["reward"] for row in rows] == [view // 4 % 2 for view in range(N)]
    assert (
        60 < len(asked) < N
    )  # the 60 whose answer failed, and the hard ones of the others


def _start(*more: str, folder: Path) -> subprocess.Popen[str]:
    words = _words("score", "--workers", "4", "--micro-batch", "1", *more)
    return subprocess.Popen(
        [str(PROGRAM), *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def calibrated(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, Any, Any]]:
    """The folder with a calibrated cascade, and its two servers in processes of their own."""
    # There `hesitant` is imported, by the name that pytest gives to this module.
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    with ExitStack() as stack:
        cheap = stack.enter_context(FakeEndpointProcess(hesitant, latency=0.03))
        strong = stack.enter_context(FakeEndpointProcess(marked_share, latency=0.03))
        _configure(folder, cheap.url, strong.url, uncertainty="margin", audit_frac=0.2)
        assert _calibrate(folder, monkeypatch)["pooled"]["threshold"] == 0.95
        yield folder, cheap, strong


@pytest.mark.slow
def test_what_the_ledger_holds_is_not_asked_again_after_kill_9(
    calibrated: tuple[Path, Any, Any],
) -> None:
    folder, cheap, strong = calibrated
    by_id = {task.task_id: task for task in read_tasks(folder / "tasks.jsonl")}
    views = [view for _, view in read_responses(folder / "answers.jsonl", by_id)]
    judge = fingerprint(load_judge(read_judge_spec(folder / "cascade.yaml")))
    before = len(cheap.records)
    run = _start("--out", "killed.jsonl", "--ledger", "ledger", folder=folder)
    while len(cheap.records) < before + N / 2:
        assert run.poll() is None, "the run ended before it was killed"
        time.sleep(0.002)
    run.kill()
    run.communicate()
    with Ledger(folder / "ledger", read_only=True) as ledger:
        keys = [ledger.key(view, judge=judge) for view in views]
        held = {
            number for number, key in enumerate(keys) if ledger.find(key) is not None
        }
    assert N / 2 - 10 < len(held) < N
    marks: list[int] = []
    while marks != (marks := [len(one.records) for one in (cheap, strong)]):
        time.sleep(0.5)  # what was in flight may still reach the endpoints' records

    again = _start("--out", "killed.jsonl", "--ledger", "ledger", folder=folder)
    assert again.wait() == 0
    asked = [
        record.view for record in cheap.records[marks[0] :] if record.view is not None
    ]
    assert sorted(asked) == sorted(set(range(N)) - held)
    assert not {record.view for record in strong.records[marks[1] :]} & held
    assert _start("--out", "whole.jsonl", folder=folder).wait() == 0

    def judged(name: str) -> list[dict[str, Any]]:
        rows = _rows(folder / name)
        for row in rows:
            del row["result"]["latency_s"]
        return rows

    assert judged("killed.jsonl") == judged("whole.jsonl")
    audits = [row["result"]["cascade"]["audits"] for row in judged("whole.jsonl")]
    assert 8 < sum(map(len, audits)) < 45
    assert all(agrees for audit in audits for agrees in audit.values())


@pytest.mark.slow
async def test_on_ray_it_is_the_same_judge_with_the_same_statistics(
    calibrated: tuple[Path, Any, Any],
) -> None:
    pytest.importorskip("ray")
    folder, _, _ = calibrated
    spec = read_judge_spec(folder / "cascade.yaml")
    by_id = {task.task_id: task for task in read_tasks(folder / "tasks.jsonl")}
    views = [view for _, view in read_responses(folder / "answers.jsonl", by_id)]
    here = JudgePool(load_replicas(spec), workers=8)
    expected = await here.judge_all(views)

    async with RayJudgePool(spec, actors=2, micro_batch=8) as pool:
        assert pool.fingerprint == here.fingerprint
        results = await pool.judge_all(views)
        assert pool.statistics().cascade == here.statistics().cascade

    await here.aclose()
    assert [one.scores for one in results] == [one.scores for one in expected]
    assert [one.cascade for one in results] == [one.cascade for one in expected]
