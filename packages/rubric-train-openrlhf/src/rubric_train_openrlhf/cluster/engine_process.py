"""vLLM's own process behind an engine, which ends with the engine's."""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# vLLM is typed in part only.
from __future__ import annotations

import os
import signal
from typing import Any

from vllm.v1.engine.core import EngineCoreProc

from rubric_train_openrlhf.cluster.orphans import end_with

_run: Any = EngineCoreProc.run_engine_core


def run_engine_core(*args: Any, **options: Any) -> None:  # noqa: ANN401  # vLLM's
    """Be that process: vLLM starts it with this function, by name, once `end_with_engine` ran."""
    # An orphan would keep its share of the GPU's memory, also from the engine that Ray restarts.
    end_with(os.getppid(), by=signal.SIGKILL)
    _run(*args, **options)


def end_with_engine() -> None:
    """Have the process that this one starts for vLLM end when this one does, by kill -9 too."""
    EngineCoreProc.run_engine_core = staticmethod(run_engine_core)
