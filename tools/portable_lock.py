"""Keep `uv.lock` free of addresses, so that it resolves against whichever index a machine uses.

The committed lock names every package, version and hash, and no address: registry sources and file
addresses are relative, sizes and dates, which some indexes state and others do not, are left out,
and one workspace member is missing from the manifest. That missing member makes `uv sync` resolve
again in place, with every locked version kept, and write addresses of the machine's own index.
`strip` undoes exactly that; git runs it as a clean filter (`just setup`).
"""

import argparse
import difflib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "uv.lock"

_REGISTRY = re.compile(r'\bregistry = "[^"]*"')
_FILE = re.compile(r'\burl = "(?:[^"]*/)?([^"/]+)"')
_FACTS = re.compile(r', (?:size = \d+|upload-time = "[^"]*")')
_MEMBERS = re.compile(
    r"^\[manifest\]\nmembers = \[\n.*?^\]\n", re.MULTILINE | re.DOTALL
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SHOWN_LINES = 40


def strip(lock_text: str, *, root_name: str) -> str:
    """Return the lock without addresses and without the root among the manifest's members."""
    text = _REGISTRY.sub('registry = "pypi"', lock_text)
    text = _FACTS.sub("", _FILE.sub(r'path = "\1"', text))
    return _MEMBERS.sub(
        lambda found: found[0].replace(f'    "{root_name}",\n', "", 1), text
    )


def addresses(lock_text: str) -> list[int]:
    """Return the numbers of the lines that hold an address."""
    lines = lock_text.splitlines()
    return [
        number for number, line in enumerate(lines, start=1) if _ADDRESS.search(line)
    ]


def faults(committed: str, written: str, *, root_name: str) -> list[str]:
    """Say how the committed lock differs from a portable form of what uv wrote."""
    found = [f"uv.lock:{number}: holds an address" for number in addresses(committed)]
    expected = strip(written, root_name=root_name)
    if committed != expected:
        diff = difflib.unified_diff(
            committed.splitlines(),
            expected.splitlines(),
            "committed",
            "written by uv",
            lineterm="",
        )
        shown = [line for _, line in zip(range(_SHOWN_LINES), diff, strict=False)]
        found.append("\n".join(["uv.lock: committed and written locks differ", *shown]))
    return found


def _root_name() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "name"
    ]


def _staged_lock() -> str:
    command = ["git", "show", ":uv.lock"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, check=True
    ).stdout.decode("utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Strip standard input to standard output, or check the committed lock."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument(
        "--strip", action="store_true", help="filter: standard input to output"
    )
    mode.add_argument(
        "--check", action="store_true", help="compare uv.lock with what git holds"
    )
    chosen = parser.parse_args(arguments)
    if chosen.strip:
        text = strip(sys.stdin.buffer.read().decode("utf-8"), root_name=_root_name())
        sys.stdout.buffer.write(text.encode("utf-8"))
        return 0
    found = faults(_staged_lock(), LOCK.read_text("utf-8"), root_name=_root_name())
    for fault in found:
        print(fault, file=sys.stderr)
    if not found:
        print("uv.lock: no address, and the same versions and hashes as uv wrote")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
