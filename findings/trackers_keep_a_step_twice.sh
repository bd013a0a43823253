#!/usr/bin/env bash
# wandb 0.31.0, trackio 0.43.0, mlflow-skinny 3.17.2: what becomes of a step that is logged again after a restart?
#
# Guessed: `wandb.init(id=..., resume="allow", mode="offline")` goes on behind the last step of the files that
#          lie beside it, or refuses; Trackio and MLflow, which are given a step, keep the last value of it.
# Seen:    wandb says nothing and begins another file of the same run id at step 0, so that the two files have
#          steps in common; within a file, a step that does not rise is dropped with a warning on standard
#          error. Trackio and MLflow keep both values of a step, in the order of writing, and a step that goes
#          back too. Where Trackio's database cannot be written, `log` and `finish` return as if it were.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check wandb==0.31.0 trackio==0.43.0 mlflow-skinny==3.17.2
cd "$folder"
export HOME="$folder" TRACKIO_DIR="$folder/trackio" WANDB_ERROR_REPORTING=false
export MLFLOW_ALLOW_FILE_STORE=true MLFLOW_DISABLE_TELEMETRY=true
env/bin/python - <<'PYTHON'
import importlib.metadata as metadata
import json
import os
import sqlite3
import struct
import sys
import time
import warnings
from pathlib import Path

import trackio
import wandb
from mlflow import MlflowClient
from wandb.proto.wandb_internal_pb2 import Record

print(*(f"{name} {metadata.version(name)}" for name in ("wandb", "trackio", "mlflow-skinny")))


def own_steps(file):
    """Steps of the history in a file of wandb's: one block of LevelDB's log, each record whole."""
    content, place, steps = file.read_bytes(), 7, []
    while place + 7 <= len(content):
        _, length, kind = struct.unpack_from("<IHB", content, place)
        record = Record.FromString(content[place + 7 : place + 7 + length])
        place += 7 + length
        if kind == 1 and record.WhichOneof("record_type") == "history":
            values = {(*item.nested_key, item.key)[0]: item.value_json for item in record.history.item}
            steps.append((json.loads(values["_step"]), json.loads(values["x"])))
    return steps


settings = wandb.Settings(console="off", silent=True)
for rows in ([(5, 1), (6, 2)], [(0, 3), (0, 4), (1, 5), (0, 6)]):
    run = wandb.init(project="p", id="same", mode="offline", resume="allow", settings=settings)
    for step, value in rows:
        run.log({"x": value}, step=step, commit=True)
    run.finish()
    time.sleep(1.1)  # the folder's name is a second
kept = {"wandb": [own_steps(file) for file in sorted(Path("wandb").glob("offline-run-*/*.wandb"))]}

run = trackio.init(project="p", name="r", embed=False, auto_log_cpu=False, auto_log_gpu=False)
for step, value in ((1, 1), (1, 2), (0, 3)):
    run.log({"x": value}, step=step)
run.finish()
with sqlite3.connect("trackio/p.db") as database:
    rows = database.execute("select step, metrics from metrics order by id")
    kept["trackio"] = [(step, json.loads(text)["x"]) for step, text in rows]

client = MlflowClient("file:mlflow")
run_id = client.create_run("0").info.run_id
for step, value in ((1, 1), (1, 2), (0, 3)):
    client.log_metric(run_id, "x", value, step=step)
kept["mlflow"] = [(metric.step, int(metric.value)) for metric in client.get_metric_history(run_id, "x")]

Path("trackio/q.db").mkdir()
with warnings.catch_warnings(record=True):
    warnings.simplefilter("always")
    run = trackio.init(project="q", name="r", embed=False, auto_log_cpu=False, auto_log_gpu=False)
    run.log({"x": 1}, step=1)
    kept["trackio without a database"] = run.finish()

for name, values in kept.items():
    print(f"{name}: {values}")
expected = {
    "wandb": [[(5, 1), (6, 2)], [(0, 3), (1, 5)]],
    "trackio": [(1, 1), (1, 2), (0, 3)],
    "mlflow": [(1, 1), (1, 2), (0, 3)],
    "trackio without a database": None,
}
sys.stdout.flush()
os._exit(kept != expected)
PYTHON
