from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FILES = "--judge judge.yaml --out out"


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("reliability tasks.jsonl responses.jsonl", "--seed"),
        ("rejudge responses.jsonl tasks.jsonl", "--replicate"),
    ],
)
@pytest.mark.parametrize("count", [-1, 2**63])
def test_a_number_that_is_no_count_is_one_line_and_no_traceback(
    command: str, flag: str, count: int, tmp_path: Path
) -> None:
    program = Path(sys.executable).with_name("rubric-judge")
    done = subprocess.run(
        [program, *command.split(), *FILES.split(), f"{flag}={count}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == f"rubric-judge: {flag} is {count}: give 0 or more, below 2^63\n"
