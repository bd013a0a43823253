"""What a vLLM that cannot serve leaves behind; `tests/test_vllm.py` has one that serves."""

import subprocess
import time
from pathlib import Path

import pytest

from rubric_judge.testing.vllm import VLLMServer


def test_a_server_that_does_not_start_says_why_and_leaves_no_process(
    tmp_path: Path,
) -> None:
    mark = str(tmp_path / "no model")
    with pytest.raises(
        RuntimeError, match=r"ended before it served; its log ends:\n.*vllm"
    ):
        VLLMServer(Path(mark)).__enter__()
    assert mark not in _running()


def test_a_server_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    mark = str(tmp_path / "no model")
    began_s = time.monotonic()
    with pytest.raises(RuntimeError, match="vLLM"):
        VLLMServer(Path(mark), start_within_s=0.05).__enter__()
    assert time.monotonic() - began_s < 15
    assert mark not in _running()


def _running() -> str:
    return subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout
