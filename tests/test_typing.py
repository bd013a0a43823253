"""What a type checker makes of the packages from outside, with `pyright --verifytypes`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


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
