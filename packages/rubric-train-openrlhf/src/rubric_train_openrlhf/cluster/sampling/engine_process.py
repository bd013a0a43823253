"""vLLM's own process behind an engine, which ends with the engine's.

What handles of engines bring along loads this module in all processes of a run: vLLM's core is
loaded where it runs.
"""

import contextlib
import importlib
import os
import signal
from pathlib import Path
from typing import Any

from rubric_core.files import read_file
from rubric_train_openrlhf.cluster import cpu, failure, orphans, settings
from rubric_train_openrlhf.cluster.sampling.policy_run import read_policy_run

if settings.is_on_cpu():
    # Ray's set-up hook does it in the engine's process; vLLM's own begins with this module.
    cpu.install()


def _run(*args: Any, **options: Any) -> None:
    from vllm.v1.engine.core import EngineCoreProc

    run: Any = EngineCoreProc.run_engine_core
    run(*args, **options)


def run_engine_core(*args: Any, **options: Any) -> None:
    """Run vLLM's process: it is started with this function, by name, after `end_with_engine`."""
    # An orphan would keep its share of the GPU's memory, also from the engine that Ray restarts.
    orphans.end_with(os.getppid(), by=signal.SIGKILL)
    if not settings.is_eager():
        # How torch's compiler is adjusted: left out in processes that do not compute with vLLM.
        importlib.import_module("vllm.env_override")
    try:
        _run(*args, **options)
    except Exception as error:
        with contextlib.suppress(OSError):
            _error_file(os.getppid()).write_text(failure.shown(error), encoding="utf-8")
        raise


def end_with_engine() -> None:
    """Have the process that this one starts for vLLM end when this one does, by kill -9 too."""
    from vllm.v1.engine.core import EngineCoreProc

    EngineCoreProc.run_engine_core = staticmethod(run_engine_core)


def engine_error() -> str | None:
    """Why this process's child died, on one line; None if it said nothing."""
    try:
        return read_file(_error_file(os.getpid())).decode()
    except OSError:
        return None


def _error_file(engine: int) -> Path:
    """Where vLLM's process leaves its error to the engine that started it, and to a reader."""
    logs = settings.ClusterPaths(read_policy_run().out).logs
    logs.mkdir(parents=True, exist_ok=True)
    return logs / f"vllm_{os.uname().nodename}_{engine}.txt"
