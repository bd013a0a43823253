"""The process of a tracker by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

THREAD_THAT_WAITS = """
import sys, threading, time
from rubric_train_openrlhf.tracking import process

def follow(folder, kind):
    threading.Thread(target=time.sleep, args=(600,)).start()
    raise OSError("no server")

process._follow = follow
process.main("run", "mlflow")
"""


def test_one_whose_run_was_killed_ends_whatever_its_library_waits_for(
    tmp_path: Path,
) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # as the system does when the run is killed
    try:
        ended = subprocess.run(
            [sys.executable, "-c", THREAD_THAT_WAITS],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writing)

    assert ended.returncode == 1
    assert "BrokenPipeError" not in ended.stderr
