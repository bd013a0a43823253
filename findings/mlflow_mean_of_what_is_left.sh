#!/usr/bin/env bash
# mlflow 3.17.2: what is the mean of a scorer that says "partly", "pass" or "fail" for some rows, or fails for them?
#
# Guessed: an error, or no mean, for words that are neither yes nor no; and for a scorer that failed a mean that shows it.
# Seen:    the mean is of the rows that say yes or no, and nothing says of how many: one "yes" among three "partly" has a
#          mean of 1, as has one "yes" beside a "pass" and two "fail". A scorer that raises an error for three rows of four
#          has the mean of the fourth; one that raises it for all has no metric at all. `false` counts, the word "false" does not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
"$folder/env/bin/uv" pip install --quiet --python "$folder/env" mlflow==3.17.2
cd "$folder"
export HOME="$folder" MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=true MLFLOW_TRACKING_URI=sqlite:///runs.db
cat >probe.py <<'PYTHON'
import contextlib
import importlib.metadata as metadata
import io
import logging
import sys

import mlflow
from mlflow.genai.scorers import scorer

logging.disable(logging.CRITICAL)
FAILED = "an error"
SCORES = {
    "three_grades": ["yes", "partly", "partly", "partly"],
    "pass_or_yes": ["yes", "pass", "fail", "fail"],
    "booleans": [True, False, False, False],
    "words": ["yes", "false", "false", "false"],
    "fails_thrice": [1.0, FAILED, FAILED, FAILED],
    "fails": [FAILED] * 4,
}
EXPECTED = {"three_grades": 1.0, "pass_or_yes": 1.0, "booleans": 0.25, "words": 1.0, "fails_thrice": 1.0, "fails": None}


def named(name, scores):
    """A scorer that gives the answer of each row its score, or raises an error."""

    def score(outputs):
        if scores[int(outputs)] == FAILED:
            raise RuntimeError("the judge does not answer")
        return scores[int(outputs)]

    return scorer(score, name=name)


rows = [{"inputs": {"question": "Which?"}, "outputs": str(number)} for number in range(4)]
scorers = [named(name, scores) for name, scores in SCORES.items()]
with contextlib.redirect_stdout(io.StringIO()):
    metrics = mlflow.genai.evaluate(data=rows, scorers=scorers).metrics
print("mlflow", metadata.version("mlflow"))
for name, scores in SCORES.items():
    print(f"{name}: {scores}, mean {metrics.get(f'{name}/mean')}")
sys.exit({name: metrics.get(f"{name}/mean") for name in SCORES} != EXPECTED)
PYTHON
env/bin/python -W ignore probe.py 2>errors || { cat errors; exit 1; }
