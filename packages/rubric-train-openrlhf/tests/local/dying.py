"""Trains, dies by SIGKILL at a named change of the run folder, goes on, and says what came of it.

Run as a program, which loads torch once and forks for every run: `python dying.py RUN.yaml POINTS`,
where POINTS is a JSON list of `[event, path, count]`, or `all`. Each line that it prints is a JSON
object: a point, and what differs from the run that nobody killed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.tensorboard.writer

import rubric_train_openrlhf.local.assembly
import rubric_train_openrlhf.local.loop  # noqa: F401 -- loaded once, before the forks
from rubric_train_openrlhf.config.train import TrainConfig, load_config
from rubric_train_openrlhf.local.start import run_grpo

if TYPE_CHECKING:
    from collections.abc import Callable

Point = tuple[str, str, int]
"""Event, path below the run folder, and which time of this event on this path."""
_AUDITED = {
    "os.rename",
    "os.remove",
    "os.truncate",
    "os.symlink",
    "os.mkdir",
    "os.rmdir",
}
_TOLD = re.compile(r"/tensorboard|/\.lock|/\.?summary\.json|/?$")
"""Written by a thread beside the work, or not compared."""
_RANDOM = re.compile(r"\.([0-9a-f]{32}|[0-9a-f]{8}(?=\.tmp))")


class Death:
    """Watches the changes of a folder, and ends the process at one of them."""

    def __init__(self, folder: Path, point: Point | None) -> None:
        self._folder = str(folder)
        self._point = point
        self._counts: dict[tuple[str, str], int] = {}
        self.seen: list[Point] = []
        sync = os.fsync

        def fsync(descriptor: int) -> None:
            path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
            self._at("fsync", path)
            self._at("torn", path)
            sync(descriptor)

        os.fsync = fsync
        sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if (
            event == "open"
            and isinstance(args[2], int)
            and args[2] & (os.O_WRONLY | os.O_RDWR)
        ):
            self._at("open", args[0])
        elif event in _AUDITED:
            self._at(event[3:], args[1] if event == "os.symlink" else args[0])

    def _at(self, event: str, path: object) -> None:
        if not isinstance(path, str | os.PathLike):
            return
        name = os.fspath(path)
        if not isinstance(name, str) or not name.startswith(self._folder):
            return
        below = _RANDOM.sub(".RANDOM", name.removeprefix(self._folder))
        if _TOLD.match(below) or (event == "torn" and not Path(name).is_file()):
            return
        count = self._counts[event, below] = self._counts.get((event, below), 0) + 1
        point = (event, below, count)
        self.seen.append(point)
        if point != self._point:
            return
        if event == "torn":
            # Half of what is being added never reached the disk.
            size = Path(name).stat().st_size
            os.truncate(name, size - min(size // 2, 40))
        os.kill(os.getpid(), signal.SIGKILL)


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:  # noqa: BLE001 -- the child's last word
            _say({"raised": f"{type(error).__name__}: {error}"[:500]})
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def outcome(folder: Path) -> dict[str, object]:
    """All that a run leaves but its times."""
    return {
        path.relative_to(folder).as_posix(): _content(path)
        for path in sorted(folder.rglob("*"))
        if not re.match(
            r"tensorboard|summary|environment|config", str(path.relative_to(folder))
        )
    }


def _content(path: Path) -> object:
    if path.is_symlink():
        return str(path.readlink())
    if path.is_dir():
        return None
    if path.suffix == ".jsonl":
        return [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
    if path.suffix == ".pt":
        state = torch.load(path, weights_only=True)
        return _plain({key: value for key, value in state.items() if key != "wall_s"})
    return path.read_bytes()


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.numpy().tobytes())
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _timeless(one) for key, one in value.items() if not key.endswith("_s")
        }
    return value


def main(file: str, asked: str) -> None:
    torch.set_num_threads(1)
    config = load_config(Path(file))
    whole = config.model_copy(update={"out": config.out.with_name("whole")})
    listed = whole.out.with_suffix(".json")

    def live() -> None:
        death = Death(whole.out, None)
        run_grpo(whole)
        listed.write_text(json.dumps(death.seen))

    assert forked(live) == 0
    expected = outcome(whole.out)
    points = json.loads(listed.read_text() if asked == "all" else asked)
    for event, path, count in points:
        said = _die_and_go_on(config, (event, path, count), expected)
        _say({"point": [event, path, count], **said})


def _die_and_go_on(
    config: TrainConfig, point: Point, expected: dict[str, object]
) -> dict[str, object]:
    shutil.rmtree(config.out, ignore_errors=True)

    def die() -> None:
        Death(config.out, point)
        run_grpo(config)

    killed = forked(die)
    resumed = forked(lambda: run_grpo(config, resume=True) and None)
    found = outcome(config.out)
    keys = sorted(expected.keys() | found.keys())
    differ = [key for key in keys if expected.get(key) != found.get(key)]
    return {"killed": killed, "resumed": resumed, "differ": differ}


if __name__ == "__main__":
    main(*sys.argv[1:])
