"""A run of `rubric-judge score --ledger` that is killed with -9, again and again, and resumed."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rubric_core import (
    Criterion,
    Grounding,
    JudgeView,
    Rubric,
    Task,
    read_tasks,
    write_tasks,
)
from rubric_judge import load_judge, read_judge_spec
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.pool.ledger.store import Ledger
from rubric_judge.quality.responses import read_responses
from rubric_judge.testing import FakeEndpointProcess, marked, marked_share

PROGRAM = Path(sys.executable).with_name("rubric-judge")
N_RESPONSES = 1000
GROUP = 40
KILLS = 5
WORKERS = 8
IN_FLIGHT = WORKERS * 4

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, criteria: int) -> Path:
    """Twenty-five tasks, forty marked responses to each."""
    rubric = Rubric(
        criteria=tuple(Criterion(id=f"c{j}", weight=j + 1.0) for j in range(criteria))
    )
    tasks = [
        Task(
            question=f"What is in {n}?",
            grounding=Grounding(f"Passage {n}."),
            rubric=rubric,
        )
        for n in range(N_RESPONSES // GROUP)
    ]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    with (tmp_path / "responses.jsonl").open("w", encoding="utf-8") as file:
        for number in range(N_RESPONSES):
            response = marked("An answer.", view=number, share=number / N_RESPONSES)
            row = {"task_id": tasks[number // GROUP].task_id, "response": response}
            file.write(json.dumps(row) + "\n")
    return tmp_path


def _start(folder: Path, *, ledger: str) -> subprocess.Popen[str]:
    files = f"score tasks.jsonl responses.jsonl --judge judge.yaml --out {ledger}.jsonl"
    return subprocess.Popen(
        [str(PROGRAM), *files.split(), "--ledger", ledger, "--workers", str(WORKERS)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(run: subprocess.Popen[str]) -> None:
    _, stderr = run.communicate()
    assert run.returncode == 0, stderr


def _kill_after(
    run: subprocess.Popen[str], endpoint: FakeEndpointProcess, *, calls: int
) -> None:
    """Kill a run once the endpoint has been asked so often."""
    while endpoint.counts.total() < calls:
        assert run.poll() is None, "the run ended before it was killed"
        time.sleep(0.002)
    run.kill()
    run.communicate()


def _held(folder: Path, views: list[JudgeView]) -> set[int]:
    """The numbers of the responses whose judgement the ledger holds."""
    judge = fingerprint(load_judge(read_judge_spec(folder / "judge.yaml")))
    if not (folder / "killed").exists():
        return set()
    with Ledger(folder / "killed", read_only=True) as ledger:
        found = [ledger.find(ledger.key(view, judge=judge)) for view in views]
    return {number for number, result in enumerate(found) if result is not None}


def _judgements(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for row in rows:
        del row["result"]["latency_s"]
    return rows


@pytest.mark.parametrize(("criteria", "verdict"), [(4, "sampled"), (1, "probability")])
def test_what_the_ledger_holds_is_not_asked_again_after_kill_9(
    folder: Path, verdict: str
) -> None:
    generator = random.Random(7)
    # The calls that are in flight anew after each kill shift the next, so a margin is left.
    moments = sorted(
        generator.sample(range(40, N_RESPONSES - 40 - KILLS * IN_FLIGHT), KILLS)
    )
    with FakeEndpointProcess(marked_share, latency=0.03) as endpoint:
        spec = f"type: llm\nmodel: openai/fake\napi_base: {endpoint.url}\nverdict: {verdict}\n"
        (folder / "judge.yaml").write_text(spec, encoding="utf-8")
        by_id = {task.task_id: task for task in read_tasks(folder / "tasks.jsonl")}
        views = [view for _, view in read_responses(folder / "responses.jsonl", by_id)]
        held: set[int] = set()
        for calls in moments:
            asked_before = len(endpoint.records)
            _kill_after(_start(folder, ledger="killed"), endpoint, calls=calls)
            arrived = -1
            while arrived != (arrived := len(endpoint.records)):
                time.sleep(
                    0.5
                )  # what was in flight may still reach the endpoint's records
            asked = {record.view for record in endpoint.records[asked_before:]} - {None}
            assert not asked & held
            now_held = _held(folder, views)
            assert held <= now_held
            assert len(asked - now_held) <= IN_FLIGHT
            held = now_held
        assert len(held) > moments[-1] / 2
        asked_before = len(endpoint.records)
        _finish(_start(folder, ledger="killed"))
        asked = [
            record.view
            for record in endpoint.records[asked_before:]
            if record.view is not None
        ]
        assert sorted(asked) == sorted(set(range(N_RESPONSES)) - held)

        asked_before = len(endpoint.records)
        _finish(_start(folder, ledger="whole"))
        whole = {record.view for record in endpoint.records[asked_before:]}
        assert whole >= set(range(N_RESPONSES))
    killed = _judgements(folder / "killed.jsonl")
    assert len(killed) == N_RESPONSES
    assert all(
        ("probabilities" in row["result"]) == (verdict == "probability")
        for row in killed
    )
    assert killed == _judgements(folder / "whole.jsonl")
