import subprocess
import sys

HEAVY = (
    "litellm",
    "instructor",
    "openai",
    "jinja2",
    "structlog",
    "rich",
    "numpy",
    "aiohttp",
)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        f"import sys, rubric_judge; print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
