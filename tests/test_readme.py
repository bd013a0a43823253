"""What the README shows, runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^uv run python (\S+)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)\)")
PACKAGES = sorted(path.name for path in (Path(__file__).parents[1] / "packages").iterdir())


@pytest.fixture(scope="module")
def readme(root: Path) -> str:
    return (root / "README.md").read_text("utf-8")


def _printed(code: str, folder: Path) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_example_runs_and_its_first_response_wins(readme: str, tmp_path: Path) -> None:
    (code,) = BLOCK.findall(readme)

    rewards = [float(number) for number in re.findall(r"[\d.]+", _printed(code, tmp_path))[:3]]

    assert rewards[0] > rewards[1] > rewards[2] == 0


@pytest.mark.parametrize("package", PACKAGES)
def test_the_example_of_a_package_runs_and_prints_what_it_says(
    root: Path, package: str, tmp_path: Path
) -> None:
    (code,) = BLOCK.findall((root / "packages" / package / "README.md").read_text("utf-8"))

    printed = _printed(code, tmp_path)

    promised = re.findall(r"^print\(.*\)  # > (.+)$", code, re.MULTILINE)
    assert printed
    assert [line for line in promised if line not in printed.splitlines()] == []


def test_every_file_that_the_readme_names_is_there(root: Path, readme: str) -> None:
    named = LINK.findall(readme) + COMMAND.findall(readme)

    assert [name for name in named if not (root / name).exists()] == []
