# /// script
# requires-python = ">=3.11"
# ///
"""Try the table "What resolves together" of docs/install.md: `uv run tools/together.py`.

Each row is resolved with the versions that it states, for Python 3.11 on Linux; a row that takes
nothing has to fail. Ends with 1 where a row is not so. Nothing is installed.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "install.md"
OVERRIDES = ROOT / "packages" / "rubric-train-openrlhf" / "overrides.txt"
ALWAYS = ("rubric-core", "rubric-judge[litellm]")
_ROW = re.compile(
    r"^\| (?P<added>`[^|]*) \| (?P<taken>[^|]*) \| [^|]* \|$", re.MULTILINE
)


class Row(NamedTuple):
    """What is added, and the versions that are then taken: none where nothing resolves."""

    added: tuple[str, ...]
    taken: dict[str, str]
    is_overridden: bool


def rows(page: str) -> list[Row]:
    """Return the rows of the table."""
    _, _, section = page.partition("## What resolves together\n")
    found: list[Row] = []
    for row in _ROW.finditer(section):
        named = re.findall(r"`([^`]+)`", row["added"])
        pairs = [pair.split() for pair in row["taken"].split(", ") if pair != "nothing"]
        overridden = OVERRIDES.name in named
        added = tuple(name for name in named if name != OVERRIDES.name)
        found.append(Row(added, dict(pairs), overridden))
    return found


def resolves(row: Row) -> bool:
    """Tell whether uv finds what the row states."""
    named = [*ALWAYS, *row.added]
    wanted = [_in_the_clone(name) for name in named]
    wanted += [f"{name}=={version}" for name, version in row.taken.items()]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--no-config",
            "--no-sources",
            "-",
        ]
        command += [
            "--python-version",
            "3.11",
            "--python-platform",
            "x86_64-manylinux_2_35",
        ]
        command += ["--override", str(OVERRIDES)] if row.is_overridden else []
        text = "\n".join(wanted)
        done = subprocess.run(
            command, input=text, cwd=folder, text=True, capture_output=True, check=False
        )
    return done.returncode == 0


def _in_the_clone(name: str) -> str:
    package = name.partition("[")[0]
    return (
        f"{name} @ {(ROOT / 'packages' / package).as_uri()}"
        if "rubric-" in name
        else name
    )


def main() -> int:
    """Try each row and print how it went."""
    wrong = 0
    for row in rows(PAGE.read_text("utf-8")):
        is_right = resolves(row) is bool(row.taken)
        wrong += not is_right
        print(
            "good " if is_right else "WRONG",
            " ".join(row.added),
            row.taken or "nothing",
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
