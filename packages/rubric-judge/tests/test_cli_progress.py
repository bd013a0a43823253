"""What `rubric-judge score` says where nobody looks at a terminal, and when it is stopped."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rubric_core import Grounding, Rubric, Task, write_tasks
from rubric_judge.testing import FakeEndpointProcess, marked, marked_share

PROGRAM = Path(sys.executable).with_name("rubric-judge")
N_RESPONSES = 40

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, rubric: Rubric) -> Path:
    task = Task(question="What?", grounding=Grounding("A passage."), rubric=rubric)
    write_tasks(tmp_path / "tasks.jsonl", [task])
    with (tmp_path / "responses.jsonl").open("w", encoding="utf-8") as file:
        for number in range(N_RESPONSES):
            response = marked("An answer.", view=number, share=0.5)
            file.write(
                json.dumps({"task_id": task.task_id, "response": response}) + "\n"
            )
    return tmp_path


def start(
    folder: Path, endpoint: FakeEndpointProcess, *words: str
) -> subprocess.Popen[str]:
    spec = (
        f"type: llm\nmodel: openai/fake\napi_base: {endpoint.url}\ntransport: direct\n"
    )
    (folder / "judge.yaml").write_text(spec, encoding="utf-8")
    files = "score tasks.jsonl responses.jsonl --judge judge.yaml --out out.jsonl --workers 1"
    return subprocess.Popen(
        [str(PROGRAM), *files.split(), "--micro-batch", "1", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_judging_is_told_on_standard_error_alone(folder: Path) -> None:
    with FakeEndpointProcess(marked_share, latency=0.1) as endpoint:
        output, errors = start(folder, endpoint).communicate(timeout=600)
    lines = [
        line
        for line in errors.splitlines()
        if line.startswith("rubric-judge: judging: ")
    ]
    assert len(lines) >= 2, errors
    assert " of 40, " in lines[0]
    assert lines[0].endswith(" left")
    assert lines[-1].startswith("rubric-judge: judging: 40 of 40, ")
    assert "done in" in lines[-1]
    assert "judging: " not in output


@pytest.mark.parametrize("ledger", [("--ledger", "my ledger"), ()])
def test_a_stopped_command_says_what_is_kept_and_what_goes_on(
    folder: Path, ledger: tuple[str, ...]
) -> None:
    with FakeEndpointProcess(marked_share, latency=0.5) as endpoint:
        run = start(folder, endpoint, *ledger)
        deadline = time.monotonic() + 600
        while endpoint.counts.total() < 3:
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=600)
        assert run.returncode == 128 + signal.SIGTERM
        assert "Traceback" not in errors
        last = errors.splitlines()[-1]
        if not ledger:
            assert last.endswith(
                "nothing was written, and without --ledger no judgement is kept"
            )
            return
        words = shlex.split(last.partition("go on with: ")[2])
        done = subprocess.run(
            [PROGRAM, *words[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    assert "from the ledger" in done.stdout
    assert len((folder / "out.jsonl").read_text().splitlines()) == N_RESPONSES
