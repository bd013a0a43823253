"""`rubric-eval report` as people give it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Folders


PROGRESS = "rubric-eval: writing the report"
"""Said where it takes longer than a second."""


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    code = "from rubric_eval.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "report", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def _said(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if not line.startswith(PROGRESS)]


def test_the_command_writes_the_page_and_says_where(folders: Folders) -> None:
    heldout = folders.heldout(questions=8)

    done = _run(
        heldout.root, "--training", folders.training(), "--out", folders.root / "out"
    )

    assert (done.returncode, _said(done)) == (0, [])
    assert (
        done.stdout.splitlines()[0]
        == f"written: {folders.root / 'out' / 'report.html'}"
    )
    assert (folders.root / "out" / "tables" / "table1_heldout.tex").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no evaluation is named"),
        (["nowhere"], "nowhere holds no evaluation"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: list[str], said: str) -> None:
    done = _run(*arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert len(_said(done)) == 1
