"""An adapter can be imported wherever rubric_judge can, and brings no stack with it."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from rubric_judge import adapters

MODULES = sorted(path.stem for path in Path(adapters.__path__[0]).glob("[a-z]*.py"))
STACKS = {
    "art",
    "harbor",
    "inspect_ai",
    "nemo_gym",
    "nemo_rl",
    "openenv",
    "openrlhf",
    "ray",
    "skyrl",
    "skyrl_gym",
    "slime",
    "tinker",
    "tinker_cookbook",
    "torch",
    "transformers",
    "trl",
    "verifiers",
    "verl",
}


def test_no_adapter_imports_a_stack(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import importlib, json, sys, threading
        for name in sys.argv[1:]:
            importlib.import_module(f"rubric_judge.adapters.{name}")
        loaded = sorted({name.partition(".")[0] for name in sys.modules})
        print(json.dumps([loaded, threading.active_count()]))
    """)
    command = [sys.executable, "-W", "error", "-c", script, *MODULES]

    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    loaded, threads = json.loads(done.stdout)
    assert set(loaded) & (STACKS | {"instructor", "litellm"}) == set()
    assert threads == 1
    assert {"trl", "verl", "openrlhf", "scoring"} <= set(MODULES)
