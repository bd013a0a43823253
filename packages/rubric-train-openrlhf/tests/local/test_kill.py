"""A real process, really killed: `kill -9` at random moments, then `--resume`."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import torch

from rubric_train_openrlhf.config import TrainConfig, dump_config
from rubric_train_openrlhf.local import run_grpo
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.run import RunFolder, RunSummary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMIT_S = 120.0


def command(config: TrainConfig, *arguments: str) -> list[str]:
    path = config.out.with_suffix(".yaml")
    path.write_text(dump_config(config))
    return [sys.executable, "-m", "rubric_train_openrlhf.cli", "run", str(path), *arguments]


def kill_after(folder: RunFolder, *, rows: int, delay_s: float, arguments: list[str]) -> None:
    """Start a run and kill it a moment after its metrics hold so many rows."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        if folder.metrics.exists() and folder.metrics.read_bytes().count(b"\n") >= rows:
            time.sleep(delay_s)
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors.decode()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_killed_at_three_random_moments_ends_as_if_it_had_not_been(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    whole = make_config(out=tmp_path / "whole", steps=30, checkpoint={"every": 3})
    cut = make_config(out=tmp_path / "cut", steps=30, checkpoint={"every": 3})
    run_grpo(whole)

    folder = RunFolder(cut.out)
    moments = random.Random()
    for rows in (1, 8, 16):
        arguments = command(cut, "--resume") if rows > 1 else command(cut)
        kill_after(folder, rows=rows, delay_s=moments.uniform(0.0, 0.3), arguments=arguments)
    run_grpo(cut, resume=True)

    assert RunSummary.model_validate_json(folder.summary.read_text()).status == "finished"
    assert [row.step for row in folder.read_metrics()] == list(range(1, 31))
    other = RunFolder(whole.out)
    for name in ("rollouts", "judgements"):
        files = sorted(path.name for path in (cut.out / name).iterdir())
        assert files == [f"step_{step:06d}.jsonl" for step in range(1, 31)]
    for file in sorted(folder.rollouts.iterdir()):
        assert file.read_bytes() == (other.rollouts / file.name).read_bytes()
    assert [row.model_dump(exclude={"eval_s"}) for row in folder.read_heldout()] == [
        row.model_dump(exclude={"eval_s"}) for row in other.read_heldout()
    ]
    rewards = {row.reward_mean for row in folder.read_metrics()}
    assert len(rewards) > 1, "the case must have rewards to learn from"
    last = "checkpoints/step_000030"
    expected = load_policy(whole.out / last).model.state_dict()
    for name, tensor in load_policy(cut.out / last).model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_full_disk_is_one_clear_line_and_the_run_goes_on_after_it(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    config = make_config(out=tmp_path / "run", steps=3)
    # KiB a file may have: room for the weights, but not for the optimiser's two moments of them.
    limited = f"ulimit -f 200; exec {' '.join(command(config))}"

    done = subprocess.run(
        ["/bin/bash", "-c", limited], check=False, capture_output=True, text=True, timeout=LIMIT_S
    )

    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("DiskWriteError: cannot write")
    assert "trainer_state.pt" in last
    assert "Traceback" not in done.stderr
    run_grpo(config, resume=True)
    steps = [row.step for row in RunFolder(config.out).read_metrics()]
    assert steps == [1, 2, 3]
