from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.settings import RUN_FILE, ClusterPaths

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig

pytestmark = pytest.mark.openrlhf


def test_what_vllms_process_dies_of_is_told_to_the_engine_and_kept_among_the_logs(
    make_config: Callable[..., TrainConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rubric_train_openrlhf.cluster.sampling import engine_process

    def without_memory(**_: Any) -> None:
        raise RuntimeError("no available memory for the cache blocks")

    config = make_config(out=tmp_path / "run")
    paths = ClusterPaths(config.out)
    PolicyRun.of(config, namespace="n").write(paths.run)
    monkeypatch.setenv(RUN_FILE, str(paths.run))
    # This process is both here, the engine and vLLM's.
    monkeypatch.setattr(os, "getppid", os.getpid)
    monkeypatch.setattr(engine_process.orphans, "end_with", lambda *_, **__: None)
    monkeypatch.setattr(engine_process, "_run", without_memory)

    assert engine_process.engine_error() is None
    with pytest.raises(RuntimeError, match="no available memory"):
        engine_process.run_engine_core()

    assert sys.modules["vllm.env_override"].__file__, "what vLLM computes with"
    told = engine_process.engine_error() or ""
    assert told.startswith("RuntimeError at test_engine_process.py:")
    assert told.endswith("no available memory for the cache blocks")
    assert [path.read_text() for path in paths.logs.iterdir()] == [told]
