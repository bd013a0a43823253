"""`rubric-eval heldout`, killed with -9 again and again or interrupted, and resumed."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rubric_core import write_tasks
from rubric_eval.answers.store import read_answers
from rubric_eval.records.digests import refusing_edits
from rubric_eval.records.files import ScoreRow, read_finished_run, read_rows, read_run
from rubric_eval.records.inputs import EvalFolder
from rubric_judge.pool.ledger.store import Ledger
from rubric_judge.testing import FakeCall, FakeEndpoint, ServedModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_core import Task
    from rubric_eval.records.run import Measured

PROGRAM = (sys.executable, "-c", "from rubric_eval.cli import main; main()")
N_QUESTIONS = 30
SEEDS = (0, 1)
SAMPLES = 2
N_ANSWERS = N_QUESTIONS * len(SEEDS) * SAMPLES
MODELS = ("base", "grpo")
KILLS = 3

pytestmark = pytest.mark.slow


def _answer(call: FakeCall) -> str:
    number = re.findall(r"\d+", call.messages[-1]["content"])[-1]
    return f"The model {call.body['model']} says to {number} with {call.body['seed']}."


def _award(call: FakeCall) -> dict[str, float]:
    said = _said(call)
    share = random.Random(said).random()
    return {name: weight * share for name, weight in call.weights.items()}


def _said(call: FakeCall) -> str:
    found = re.search(
        r"The model \S+ says to \d+ with \d+\.", call.messages[-1]["content"]
    )
    return found[0] if found else ""


def _serving(name: str) -> FakeEndpoint:
    return FakeEndpoint(
        served=ServedModel(answer=_answer, name=name, root=name), latency=0.02
    )


def _start(
    folder: Path, servers: list[FakeEndpoint], *, out: str
) -> subprocess.Popen[str]:
    models = [
        f"{n}=server:{server.url}#{n}"
        for n, server in zip(MODELS, servers, strict=True)
    ]
    options = f"--tasks tasks.jsonl --judge judge.yaml --out {out} --temperature 1 --workers 2"
    options += f" --samples {SAMPLES} --seeds {' '.join(map(str, SEEDS))}"
    return subprocess.Popen(
        [*PROGRAM, "heldout", *models, *options.split()],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(run: subprocess.Popen[str]) -> None:
    _, stderr = run.communicate()
    assert run.returncode == 0, stderr


def _kill_after(
    run: subprocess.Popen[str],
    judge: FakeEndpoint,
    servers: list[FakeEndpoint],
    *,
    calls: int,
) -> None:
    """Kill a run once the judge has been asked so often, and wait for what it had sent."""
    while judge.counts.total() < calls:
        assert run.poll() is None, "the run ended before it was killed"
        time.sleep(0.002)
    run.kill()
    run.communicate()
    arrived = -1
    while arrived != (arrived := sum(len(one.calls) for one in (judge, *servers))):
        time.sleep(0.5)


def _answered(folder: EvalFolder) -> set[str]:
    """Texts of the answers that the folder holds; each is different."""
    return {
        row.text
        for name in MODELS
        for seed in SEEDS
        for row in read_answers(folder.answers(name, seed))
        if row.text is not None
    }


def _judged(folder: EvalFolder) -> set[str]:
    if not folder.ledger.exists():
        return set()
    with Ledger(folder.ledger, read_only=True) as ledger:
        return {
            entry.response for entry in ledger.entries() if entry.result.reason is None
        }


def _generated(servers: list[FakeEndpoint]) -> Counter[str]:
    """What models were asked, by the answer that each question gets."""
    return Counter(_answer(call) for server in servers for call in server.calls)


def _asked(judge: FakeEndpoint) -> Counter[str]:
    """The answers that the judge was asked about."""
    return Counter(said for call in judge.calls if (said := _said(call)))


def _scores(folder: EvalFolder) -> list[ScoreRow]:
    return [
        row
        for name in MODELS
        for seed in SEEDS
        for row in read_rows(folder.scores("judge", name, seed), ScoreRow)
    ]


def test_what_is_done_is_neither_generated_nor_judged_again_after_kill_9(
    tmp_path: Path,
    make_task: Callable[..., Task],
    read_heldout: Callable[..., Measured],
) -> None:
    write_tasks(
        tmp_path / "tasks.jsonl", [make_task(number) for number in range(N_QUESTIONS)]
    )
    total = N_ANSWERS * len(MODELS)
    moments = sorted(random.Random(3).sample(range(20, total - 20 - 8 * KILLS), KILLS))
    killed, whole = EvalFolder(tmp_path / "killed"), EvalFolder(tmp_path / "whole")
    with (
        _serving(MODELS[0]) as base,
        _serving(MODELS[1]) as grpo,
        FakeEndpoint(_award, latency=0.03) as judge,
    ):
        servers = [base, grpo]
        spec = (
            f"type: llm\nmodel: openai/fake\napi_base: {judge.url}\ntransport: direct\n"
        )
        (tmp_path / "judge.yaml").write_text(spec, encoding="utf-8")
        for calls in moments:
            held = _answered(killed), _judged(killed)
            generated, judged = _generated(servers), _asked(judge)
            _kill_after(
                _start(tmp_path, servers, out="killed"), judge, servers, calls=calls
            )
            assert not (_generated(servers) - generated).keys() & held[0]
            assert not (_asked(judge) - judged).keys() & held[1]
            assert held[0] <= _answered(killed)
            assert held[1] <= _judged(killed)
        assert not killed.heldout.exists()
        assert json.loads(killed.run.read_bytes())["status"] == "running"
        held = _answered(killed), _judged(killed)
        assert len(held[1]) > moments[-1] / 2
        generated, judged = _generated(servers), _asked(judge)
        _finish(_start(tmp_path, servers, out="killed"))
        assert (_generated(servers) - generated).total() == total - len(held[0])
        assert (_asked(judge) - judged).total() == total - len(held[1])
        _finish(_start(tmp_path, servers, out="whole"))
    assert len(_answered(killed)) == total
    assert _scores(killed) == _scores(whole)
    assert killed.heldout.read_bytes() == whole.heldout.read_bytes()
    assert (
        len(read_heldout(killed, "judge", "base").values_NK[0]) == len(SEEDS) * SAMPLES
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_said_in_one_line_and_the_same_command_goes_on(
    tmp_path: Path, make_task: Callable[..., Task], number: signal.Signals
) -> None:
    write_tasks(
        tmp_path / "tasks.jsonl", [make_task(number) for number in range(N_QUESTIONS)]
    )
    folder = EvalFolder(tmp_path / "eval")
    with (
        _serving(MODELS[0]) as base,
        _serving(MODELS[1]) as grpo,
        FakeEndpoint(_award, latency=0.1) as judge,
    ):
        spec = (
            f"type: llm\nmodel: openai/fake\napi_base: {judge.url}\ntransport: direct\n"
        )
        (tmp_path / "judge.yaml").write_text(spec, encoding="utf-8")
        run = _start(tmp_path, [base, grpo], out="eval")
        while judge.counts.total() < 30:
            assert run.poll() is None, "the run ended before it was interrupted"
            time.sleep(0.002)
        run.send_signal(number)
        _, stderr = run.communicate()
        assert run.returncode == 128 + number, stderr
        *progress, last = stderr.splitlines()
        assert all(line.startswith("rubric-eval: ") for line in progress), stderr
        assert last.startswith(
            "rubric-eval: stopped; go on with: rubric-eval heldout 'base=server:"
        )
        assert "--tasks tasks.jsonl --judge judge.yaml --out eval " in last
        ended = read_run(folder)
        assert (ended.status, ended.error) == ("failed", "stopped before the end")
        _finish(_start(tmp_path, [base, grpo], out="eval"))
    with refusing_edits() as edits:
        assert read_finished_run(folder, edits=edits).error is None
