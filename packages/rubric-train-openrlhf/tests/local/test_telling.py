"""What a real command says and writes while it trains, is stopped, killed, and goes on."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.config.train import TrainConfig, dump_config
from rubric_train_openrlhf.run.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S = 600.0
CLI = [sys.executable, "-m", "rubric_train_openrlhf.cli"]
AT_TORCH = """
import sys
from pathlib import Path

class Tells:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" and not Tells.told:
            Tells.told = True
            print("torch is imported,", Path(sys.argv[-1]).read_text(), file=sys.stderr)

Tells.told = False
sys.meta_path.insert(0, Tells())
from rubric_train_openrlhf.cli import main
main(sys.argv[1:-1])
"""
WITHOUT_TORCH = """
import json, sys

sys.modules["torch"] = None
from rubric_train_openrlhf.cli import main
for words in json.loads(sys.argv[2]):
    try:
        main(["run", sys.argv[1], *words])
    except SystemExit as ended:
        print(ended.code)
"""


def written(config: TrainConfig) -> str:
    path = config.out.with_suffix(".yaml")
    path.write_text(dump_config(config))
    return str(path)


def summary(config: TrainConfig) -> dict[str, Any]:
    try:
        return json.loads((config.out / "summary.json").read_text())
    except FileNotFoundError:
        return {}


@pytest.mark.slow
def test_the_first_lines_and_the_summary_come_before_torch(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(steps=1)
    words = ["run", written(config), str(config.out / "summary.json")]
    ended = subprocess.run(
        [sys.executable, "-c", AT_TORCH, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    before, _, after = ended.stderr.partition("torch is imported,")
    # On a busy machine a phase is told of again, with its seconds.
    phases = dict.fromkeys(line.split(": ")[1] for line in before.splitlines())
    assert list(phases) == [
        "reading the configuration",
        "reading tasks",
        "loading torch",
    ]
    at_torch, end = json.JSONDecoder().raw_decode(after.lstrip())
    assert (at_torch["status"], at_torch["phase"]) == ("running", "loading torch")
    lines = [
        line.partition(":")[0] for line in after.lstrip()[end:].split("\n") if line
    ]
    assert set(lines) == {"rubric-train"}
    assert ended.stderr.count("training: 1 of 1 steps, ") == 1


def test_wrong_input_is_refused_without_torch(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(steps=1)
    absent = str(config.out / "absent")
    wrong = [
        ["--data.train", absent],
        ["--data.validation", absent],
        ["--model", f"{{type: path, path: {absent}}}"],
        ["--model", f"{{type: tiny, documents: {absent}}}"],
        ["--threads", "100000"],
        ["--judge.spec", "{type: plugin, name: lexicl}"],
    ]
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, written(config), json.dumps(wrong)],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    assert ended.stdout.splitlines() == ["2"] * len(wrong)
    said = [
        line
        for line in ended.stderr.splitlines()
        if absent in line or "; use at" in line
    ]
    assert len(said) == len(wrong) - 1
    assert "did you mean `type: lexical`" in ended.stderr
    assert not config.out.exists() or not any(config.out.glob("*.json*"))


def started(config: TrainConfig, forks: Any) -> Any:
    """Start a run that would take very long, and wait until its summary tells of two steps."""
    run = forks.start("run", written(config))
    deadline = time.monotonic() + LIMIT_S
    while summary(config).get("steps", 0) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_run_says_the_command_that_goes_on(
    make_config: Callable[..., TrainConfig], number: signal.Signals, forks: Any
) -> None:
    config = make_config(steps=100_000)
    run = started(config, forks)
    running = summary(config)
    assert (running["status"], running["phase"]) == ("running", "training")
    assert (running["total_steps"], running["pid"]) == (100_000, run.pid)
    assert running["rate"] > 0
    assert running["eta_s"] > 0
    assert "KL" in running["note"]

    os.kill(run.pid, number)
    status, errors = run.wait()

    assert status == 128 + number
    assert "Traceback" not in errors
    last = errors.strip().splitlines()[-1]
    done = RunFolder(config.out).steps_done
    assert last.startswith(
        f"rubric-train: stopped after step {done}; go on with: rubric-train run"
    )
    ended = summary(config)
    assert (ended["status"], ended["steps"], ended["phase"]) == (
        "interrupted",
        done,
        "training",
    )

    words = shlex.split(last.partition("go on with: ")[2])[1:]
    status, errors = forks.start(*words, "--steps", str(done + 1)).wait()
    assert status == 0, errors
    assert (summary(config)["status"], summary(config)["steps"]) == (
        "finished",
        done + 1,
    )


@pytest.mark.slow
def test_a_killed_run_is_told_from_one_that_goes_on(
    make_config: Callable[..., TrainConfig], forks: Any
) -> None:
    config = make_config(steps=100_000)
    run = started(config, forks)
    running = subprocess.run(
        [*CLI, "report", str(config.out)], check=True, capture_output=True, text=True
    )
    assert "without saying so" not in running.stderr

    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert summary(config)["status"] == "running"

    done = RunFolder(config.out).steps_done
    words = f"ended without saying so at step {done}"
    report = subprocess.run(
        [*CLI, "report", str(config.out)], check=True, capture_output=True, text=True
    )
    assert words in report.stderr
    assert "Ended without saying so" in Path(report.stdout.strip()).read_text()
    resume = ["run", written(config), "--resume", "--steps", str(done + 1)]
    status, errors = forks.start(*resume).wait()
    assert status == 0, errors
    assert words in errors
    assert summary(config)["status"] == "finished"
