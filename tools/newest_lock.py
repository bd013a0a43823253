"""Lock the newest release of everything: `just upgrade`.

One `uv lock --upgrade` would not. A release that an extra holds back, as vLLM holds torch, is then
taken where the extra is not asked for too. So the workspace is first locked without the extras
that hold others back, and then as it is, from where the first ended.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOLDING_BACK = ("openrlhf", "openrlhf-cpu")
"""Extras of the root and of the package that they are of."""


def without_extras(text: str) -> str:
    """Return a `pyproject.toml` without those extras and without their conflicts."""
    for name in HOLDING_BACK:
        text = re.sub(
            rf"^{name} = \[.*?^\]\n", "", text, flags=re.MULTILINE | re.DOTALL
        )
    return re.sub(r"^conflicts = \[.*?^\]\n", "", text, flags=re.MULTILINE | re.DOTALL)


def main() -> int:
    """Lock twice; the first time in a copy that holds nothing but what uv reads."""
    files = [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for path in files:
            place = copy / path.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            changed = without_extras(path.read_text("utf-8"))
            tomllib.loads(changed)
            place.write_text(changed, "utf-8")
        subprocess.run(["uv", "lock", "--upgrade"], cwd=copy, check=True)
        shutil.copy(copy / "uv.lock", ROOT / "uv.lock")
    return subprocess.run(["uv", "lock"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
