"""The process that decides checks; it ends when its input does, or when it has nothing to do.

settings: {"path", "memory_bytes", "idle_s"}
in:       pickles of (check, text, regex_timeout_s, cpu_s)
out:      a line of JSON at the start, and one for each check: {"share", "note"} or {"broken"}
"""

import json
import os
import pickle
import resource
import select
import signal
import sys
from typing import Any

from rubric_judge.checks.deciding import QuickCheck, decide


def main(settings: dict[str, Any]) -> None:
    """Decide what arrives, each in bounded processor time and all in bounded memory."""
    most = settings["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    _say({})
    orders = sys.stdin.buffer
    while select.select([orders], [], [], settings["idle_s"])[0]:
        # One at a time: the next order comes after the answer, so that none waits in the buffer.
        try:
            job = pickle.load(orders)  # noqa: S301  # the judge's own
        except EOFError:
            return
        _say(_answer(*job))


def _answer(
    check: QuickCheck, text: str, regex_timeout_s: float, cpu_s: float
) -> dict[str, object]:
    signal.setitimer(signal.ITIMER_PROF, cpu_s)  # no handler: it ends this process
    try:
        verdict = decide(check, text, regex_timeout_s=regex_timeout_s)
    except (ImportError, OSError) as error:
        return {"broken": type(error).__name__}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {"share": verdict.share, "note": verdict.note}


def _say(message: dict[str, object]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")
