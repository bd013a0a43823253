"""What a type checker makes of the packages from outside, and of the scripts that use them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ("benchmarks", "examples", "tools")
RULES = (
    "reportAttributeAccessIssue",
    "reportCallIssue",
    "reportUndefinedVariable",
    "reportRedeclaration",
)


@pytest.mark.slow
def test_every_public_type_of_the_core_is_known(tmp_path: Path) -> None:
    command = [
        "pyright",
        "--verifytypes",
        "rubric_core",
        "--ignoreexternal",
        "--outputjson",
    ]
    here = str(Path(sys.executable).parent)
    # Asks the first `python` of the path where the package is.
    environment = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}  # noqa: TID251
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["typeCompleteness"]

    unknown = [
        symbol["name"] for symbol in found["symbols"] if not symbol["isTypeKnown"]
    ]

    assert unknown == []
    assert found["completenessScore"] == 1
    assert found["exportedSymbolCounts"]["withKnownType"] > 500


@pytest.mark.slow
def test_scripts_call_what_the_packages_have(tmp_path: Path) -> None:
    config = {
        "include": [os.path.relpath(ROOT / folder, tmp_path) for folder in SCRIPTS],
        "extraPaths": [str(ROOT / "benchmarks"), str(ROOT / "examples")],
        "typeCheckingMode": "off",
        "reportMissingImports": "none",  # those of other stacks
        **dict.fromkeys(RULES, "error"),
    }
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(config), "utf-8")
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("pyright")),
            "--project",
            str(project),
            "--pythonpath",
            sys.executable,
            "--outputjson",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)

    errors = [
        f"{one['file']}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    ]
    assert errors == []
    assert found["summary"]["filesAnalyzed"] > 60
