"""What a process of ours is started with: one module of the package, and not all above it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parents[2]
"""The folder of the package, the script's first argument."""

# Stand-ins for the packages above the module, which need more than it does.
_START = """
import sys, types
root = sys.argv[1]
for name, folder in (("rubric_judge", ""), ("rubric_judge.verification", "/verification")):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = [root + folder]
from {module} import main
main()
"""


def script_of(module: str) -> str:
    """Return the Python that runs a module's `main`.

    Args:
        module: in `rubric_judge.verification` or below.

    Returns:
        Source for `python -c`; the script's first argument is `SOURCES`.
    """
    return _START.format(module=module)
