#!/usr/bin/env bash
# mlflow-skinny 3.17.2: which names may metrics have beside each other in a store of files?
#
# Guessed: a name of letters, digits, dots and slashes is taken or refused by itself, whatever else there is,
#          and a name that is no longer than 250 characters is short enough.
# Seen:    `a` after `a/b` fails with "Is a directory", and `a/b` after `a` with "Not a directory": a name is
#          the path of a file. `a/../b` and `a//b` are refused with a reason. Of letters outside ASCII 200 are
#          too many, although 250 characters are the limit: a file's name has 255 bytes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check mlflow-skinny==3.17.2
cd "$folder"
export HOME="$folder" MLFLOW_ALLOW_FILE_STORE=true MLFLOW_DISABLE_TELEMETRY=true
env/bin/python - <<'PYTHON'
import importlib.metadata as metadata
import sys
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric

print("mlflow-skinny", metadata.version("mlflow-skinny"))
client = MlflowClient(tracking_uri=f"file:{Path.cwd() / 'store'}")
experiment = client.create_experiment("names")


def logged(*names):
    """What becomes of the last of several names that are logged one after the other."""
    run_id = client.create_run(experiment).info.run_id
    said = "taken"
    for name in names:
        try:
            client.log_batch(run_id, metrics=[Metric(name, 1.0, 0, 0)])
            said = "taken"
        except Exception as error:
            said = str(error)
    return said


cases = {
    "a": (("a",), "taken"),
    "a after a/b": (("a/b", "a"), "Is a directory"),
    "a/b after a": (("a", "a/b"), "directory"),
    "a/../b": (("a/../b",), "must not resolve to other names"),
    "a//b": (("a//b",), "must not resolve to other names"),
    "200 × e": (("e" * 200,), "taken"),
    "200 × é": (("é" * 200,), "File name too long"),
}
changed = False
for case, (names, expected) in cases.items():
    said = logged(*names)
    print(f"{case}: {said[:160]}")
    changed |= expected not in said
sys.exit(int(changed))
PYTHON
