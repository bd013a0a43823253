"""Every benchmark says what it claims, takes the same options and writes the same record."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
RECORD = {"claim", "value", "target", "direction", "passed", "details"}
NEEDS_A_STACK = {"local_grpo_vs_trl.py"}


def _records(tree: ast.Module) -> list[set[str]]:
    """The keys of every dictionary that is written out and looks like a record."""
    keys = [
        {key.value for key in node.keys if isinstance(key, ast.Constant)}
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
    ]
    return [found for found in keys if "claim" in found]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_benchmark_has_a_claim_a_target_and_one_record(script: Path) -> None:
    tree = ast.parse(script.read_text("utf-8"))
    names = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    assert {"CLAIM", "TARGET"} <= names
    assert _records(tree) == [RECORD]
    assert f"benchmarks/{script.name}" in (ast.get_docstring(tree) or "")
    assert 'sys.exit(0 if result["passed"] else 1)' in script.read_text("utf-8")


# One interpreter for all: most import the same stacks, which takes ten seconds.
ASK_ALL = """
import io, json, runpy, sys
from contextlib import redirect_stdout, suppress
said = {}
for script in sys.argv[1:]:
    sys.argv, sys.path[0] = [script, "--help"], script.rpartition("/")[0]
    with redirect_stdout(io.StringIO()) as out, suppress(SystemExit):
        runpy.run_path(script, run_name="__main__")
    said[script] = out.getvalue()
print(json.dumps(said))
"""


def test_every_benchmark_tells_its_options() -> None:
    scripts = [str(script) for script in SCRIPTS if script.name not in NEEDS_A_STACK]

    done = subprocess.run(
        [sys.executable, "-c", ASK_ALL, *scripts], capture_output=True, text=True, check=True
    )

    lacking = {
        script: {"--json", "--quick"} - set(re.findall(r"--\w+", said))
        for script, said in json.loads(done.stdout).items()
    }
    assert lacking == {script: set() for script in scripts}


def test_every_benchmark_is_on_the_page_of_figures() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")

    assert [script.name for script in SCRIPTS if script.name not in page] == []
