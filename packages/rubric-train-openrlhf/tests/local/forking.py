"""Runs `rubric-train` in forks of one process that has loaded torch, which takes 6 CPU seconds.

Run as a program, it reads a JSON object from each line of its standard input and answers each with
a line of its own: `{"run": [WORD, …], "errors": FILE, "largest": BYTES}` starts `rubric-train WORD
…` and gives its process id, `{"wait": PID}` waits for one and gives its status, and `{"call":
[WORD, …]}` runs any other command, where the disk of a run is mounted for this process alone.
"""

import json
import os
import resource
import subprocess
import sys
from typing import Any, NoReturn

import torch.utils.tensorboard.writer  # noqa: F401 -- loaded once, before the forks

import rubric_train_openrlhf.local.assembly
import rubric_train_openrlhf.local.loop
import rubric_train_openrlhf.report.page  # noqa: F401
from rubric_train_openrlhf import cli


def run(words: list[str], errors: str, largest: int | None) -> NoReturn:
    """Be a run of its own, as the command would be."""
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        cli.main(words)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def answer(asked: dict[str, Any]) -> int:
    if "call" in asked:
        return subprocess.run(asked["call"], check=False).returncode
    if "wait" in asked:
        return os.waitstatus_to_exitcode(os.waitpid(asked["wait"], 0)[1])
    return os.fork() or run(asked["run"], asked["errors"], asked["largest"])


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(f"{answer(json.loads(line))}\n")
        sys.stdout.flush()
