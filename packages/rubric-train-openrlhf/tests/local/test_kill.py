"""A real process, really killed: `kill -9` at random moments, then `--resume`."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from rubric_train_openrlhf.config.train import TrainConfig, dump_config
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import RunSummary

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S = 600.0
AUDIT: dict[str, Any] = {
    "spec": {"type": "lexical"},
    "start": 16,
    "training_frac": 1.0,
}


def written(config: TrainConfig) -> str:
    path = config.out.with_suffix(".yaml")
    path.write_text(dump_config(config))
    return str(path)


def kill_after(folder: RunFolder, run: Any, *, rows: int, delay_s: float) -> None:
    """Kill a run a moment after its metrics hold so many rows."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if folder.metrics.exists() and folder.metrics.read_bytes().count(b"\n") >= rows:
            time.sleep(delay_s)
            break
        state = Path(f"/proc/{run.pid}/stat")
        assert (
            not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
        ), "it ended before it was killed"
        time.sleep(0.005)
    os.kill(run.pid, signal.SIGKILL)
    status, errors = run.wait()
    assert status == -signal.SIGKILL, errors


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_killed_at_three_random_moments_ends_as_if_it_had_not_been(
    make_config: Callable[..., TrainConfig], tmp_path: Path, forks: Any
) -> None:
    changes: dict[str, Any] = {"steps": 18, "checkpoint": {"every": 3}, "audit": AUDIT}
    whole = make_config(out=tmp_path / "whole", **changes)
    cut = make_config(out=tmp_path / "cut", **changes)
    run_grpo(whole)

    folder = RunFolder(cut.out)
    moments = random.Random()
    for rows in (1, 5, 10):
        run = forks.start("run", written(cut), *(["--resume"] if rows > 1 else []))
        kill_after(folder, run, rows=rows, delay_s=moments.uniform(0.0, 0.3))
    run_grpo(cut, resume=True)

    assert (
        RunSummary.model_validate_json(folder.summary.read_text()).status == "finished"
    )
    assert [row.step for row in folder.read_metrics()] == list(range(1, 19))
    other = RunFolder(whole.out)
    for name in ("rollouts", "judgements"):
        files = sorted(path.name for path in (cut.out / name).iterdir())
        assert files == [f"step_{step:06d}.jsonl" for step in range(1, 19)]
    for file in sorted(folder.rollouts.iterdir()):
        assert file.read_bytes() == (other.rollouts / file.name).read_bytes()
    assert [row.model_dump(exclude={"eval_s"}) for row in folder.read_heldout()] == [
        row.model_dump(exclude={"eval_s"}) for row in other.read_heldout()
    ]
    assert folder.audit.read_bytes() == other.audit.read_bytes()
    rewards = {row.reward_mean for row in folder.read_metrics()}
    assert len(rewards) > 1, "the case must have rewards to learn from"
    last = "checkpoints/step_000018"
    expected = load_policy(whole.out / last).model.state_dict()
    for name, tensor in load_policy(cut.out / last).model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


# `python dying.py RUN.yaml all` tries every write of a run; these stand for their kinds.
POINTS: list[tuple[str, str, int]] = [
    # The run folder begins: configuration, step 0.
    ("rename", "/.config.resolved.yaml.RANDOM.tmp", 1),
    ("torn", "/checkpoints/.step_000000.RANDOM.tmp/model.safetensors", 1),
    # Rows of a step: files are replaced, lines are added.
    ("torn", "/rollouts/.step_000001.jsonl.RANDOM.tmp", 1),
    ("torn", "/metrics.jsonl", 1),
    # Audits of the pass before training, of a step, of a pass.
    *(("torn", "/audit.jsonl", count) for count in (1, 2, 3)),
    ("fsync", "/audit.jsonl", 2),
    # A checkpoint: the optimiser's state, the name, the link, the old one.
    ("torn", "/checkpoints/.step_000002.RANDOM.tmp/trainer_state.pt", 1),
    ("rename", "/checkpoints/.step_000002.RANDOM.tmp", 1),
    ("rename", "/checkpoints/.best.tmp", 2),
    ("rename", "/checkpoints/step_000001", 1),
]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_killed_in_the_middle_of_any_write_ends_as_if_it_had_not_been(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    config = make_config(
        out=tmp_path / "cut",
        steps=3,
        rollout={"prompts": 2, "max_new_tokens": 16},
        validation={"every": 1, "questions": 2},
        checkpoint={"every": 1, "keep": 1},
        audit=AUDIT,
    )
    path = tmp_path / "run.yaml"
    path.write_text(dump_config(config))
    program = Path(__file__).with_name("dying.py")

    done = subprocess.run(
        [sys.executable, str(program), str(path), json.dumps(POINTS)],
        check=True,
        capture_output=True,
        text=True,
    )

    lines = [
        json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")
    ]
    went_well = {"killed": -signal.SIGKILL, "resumed": 0, "differ": []}
    assert lines == [{"point": list(point), **went_well} for point in POINTS]


@pytest.mark.slow
def test_a_full_disk_is_one_clear_line_and_the_run_goes_on_after_it(
    make_config: Callable[..., TrainConfig], tmp_path: Path, forks: Any
) -> None:
    config = make_config(out=tmp_path / "run", steps=3)

    # Bytes of a file: room for the weights, but not for the optimiser's two moments of them.
    status, errors = forks.start("run", written(config), largest=200 * 2**10).wait()

    assert status == 1
    last = errors.strip().splitlines()[-1]
    assert last.startswith("rubric-train: cannot write")
    assert "trainer_state.pt" in last
    assert "Traceback" not in errors
    run_grpo(config, resume=True)
    steps = [row.step for row in RunFolder(config.out).read_metrics()]
    assert steps == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kib", [8, 700])
def test_a_run_on_a_disk_that_fills_up_goes_on_when_there_is_room(
    make_config: Callable[..., TrainConfig],
    tmp_path: Path,
    kib: int,
    forks_that_mount: Any,
) -> None:
    """Room for nothing; for the first checkpoint, and not the second."""
    whole = make_config(out=tmp_path / "whole", checkpoint={"every": 1})
    run_grpo(whole)
    (disk := tmp_path / "disk").mkdir()
    config = make_config(out=disk / "run", checkpoint={"every": 1})
    path = tmp_path / "run.yaml"
    path.write_text(dump_config(config))

    forks_that_mount.call(*f"mount -t tmpfs -o size={kib}k none {disk}".split())
    status, errors = forks_that_mount.start("run", str(path)).wait()
    forks_that_mount.call(*f"mount -o remount,size=64m {disk}".split())
    resumed, more = forks_that_mount.start("run", str(path), "--resume").wait()
    forks_that_mount.call("cp", "-a", str(config.out), str(tmp_path / "copy"))

    assert (status, resumed) == (1, 0), errors + more
    full = ("No space left", "not all of it could be written")
    said = [
        line for line in errors.splitlines() if any(words in line for words in full)
    ]
    assert len(said) == 1, errors
    assert said[0].startswith("rubric-train: ")
    assert "Traceback" not in errors + more
    copy = tmp_path / "copy"
    assert RunFolder(copy).read_summary().status == "finished"
    for file in (
        *whole.out.glob("rollouts/*"),
        *whole.out.glob("checkpoints/*/*.safetensors"),
    ):
        assert (copy / file.relative_to(whole.out)).read_bytes() == file.read_bytes()


@pytest.mark.slow
def test_of_two_runs_in_one_folder_one_runs(
    make_config: Callable[..., TrainConfig], tmp_path: Path, forks: Any
) -> None:
    config = make_config(out=tmp_path / "run", steps=3)
    both = [forks.start("run", written(config)) for _ in range(2)]
    ended = [run.wait() for run in both]

    assert sorted(status for status, _ in ended) == [0, 2]
    (refused,) = [said for status, said in ended if status]
    # The second finds the folder locked, or the first one's run in it.
    assert "is in use by another process, pid" in refused or "holds a run" in refused
    assert "Traceback" not in refused
    whole = make_config(out=tmp_path / "whole", steps=3)
    run_grpo(whole)
    assert [row.step for row in RunFolder(config.out).read_metrics()] == [1, 2, 3]
    for file in whole.out.glob("rollouts/*"):
        assert (
            config.out / file.relative_to(whole.out)
        ).read_bytes() == file.read_bytes()
