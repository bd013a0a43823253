#!/usr/bin/env bash
# deepspeed 0.19.8 beside mlflow-skinny 3.17.2, torch 2.13.0: does `import deepspeed` load a tracker that happens to be installed?
#
# Guessed: no. DeepSpeed has monitors for TensorBoard, W&B and Comet, which are configured, and none for MLflow;
#          its autotuner, which can log to MLflow, is a command of its own.
# Seen:    `import deepspeed` loads the autotuner, and that all of mlflow: several hundred modules more, for
#          code that neither tunes nor logs. In a training stack each worker process pays for it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
pip() { "$folder/env/bin/pip" install --quiet --disable-pip-version-check "$@"; }
pip setuptools wheel torch==2.13.0 numpy
pip --no-build-isolation deepspeed==0.19.8
cd "$folder"
export HOME="$folder" DS_ACCELERATOR=cpu MLFLOW_DISABLE_TELEMETRY=true
cat >count.py <<'PYTHON'
import importlib.metadata as metadata
import sys
import time

before = time.process_time()
import deepspeed

spent = time.process_time() - before
loaded = sum(name == "mlflow" or name.startswith("mlflow.") for name in sys.modules)
print(f"deepspeed {metadata.version('deepspeed')}: {loaded} modules of mlflow, {spent:.1f} s of processor")
sys.exit(0 if loaded == 0 else 3 if loaded > 100 else 1)
PYTHON
alone=0 beside=0
env/bin/python count.py 2>/dev/null || alone=$?
pip mlflow-skinny==3.17.2
env/bin/python count.py 2>/dev/null || beside=$?
[ "$alone" = 0 ] && [ "$beside" = 3 ]
