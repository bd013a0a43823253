#!/usr/bin/env bash
# harbor 0.25.0 and 0.26.0: what are a job's mean and pass@k of, where a trial has no reward, or a task one key more?
#
# Guessed: both are of all trials, one without a reward being a failure, in both releases; the mean of a criterion is
#          of the trials that have it; and a second key beside `reward` changes neither.
# Seen:    0.25 counts a trial without a reward as 0, in the mean and in pass@2, and 0.26 leaves it out of both: the
#          same job is 2/3 and then 1. In both releases a criterion that some tasks have not is 0 for them, so that one
#          that is met wherever it stands has a mean of 1/2; and where any task has a second key, the entry `mean` gives
#          way to one for each key, and pass@k is empty.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/tools"
"$folder/tools/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
uv="$folder/tools/bin/uv"
cat >"$folder/plugs.py" <<'PYTHON'
"""An environment in which nothing runs, and a verifier that gives each task the rewards in its instruction."""

import json

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.verifier.result import VerifierResult
from harbor.verifier.base import BaseVerifier


class Nowhere(BaseEnvironment):
    @staticmethod
    def type():
        return "nowhere"

    def _validate_definition(self):
        pass

    async def _nothing(self, *_, **__):
        pass

    start = stop = upload_file = upload_dir = download_file = download_dir = _nothing

    async def exec(self, *_, **__):
        return ExecResult(stdout="", stderr="", return_code=0)


class Told(BaseVerifier):
    async def verify(self):
        rewards = json.loads(self.task.instruction)
        if rewards is None:
            raise RuntimeError("no judge answers")
        return VerifierResult(rewards=rewards)
PYTHON
cat >"$folder/probe.py" <<'PYTHON'
import importlib.metadata as metadata
import json
import subprocess
import sys
from pathlib import Path

LOST = {"a": {"reward": 1}, "b": {"reward": 1}, "c": None}
MORE = {"a": {"reward": 1, "brief": 1}, "b": {"reward": 1}}
EXPECTED = {
    "0.25.0": ([{"mean": 2 / 3}], {"2": 2 / 3}),
    "0.26.0": ([{"mean": 1.0}], {"2": 1.0}),
}


def job(name, tasks):
    """Metrics and pass@k of a job with two trials of each task."""
    for task, rewards in tasks.items():
        place = Path(name, task)
        (place / "environment").mkdir(parents=True)
        (place / "environment/Dockerfile").write_text("FROM scratch\n")
        (place / "tests").mkdir()
        (place / "tests/test.sh").write_text("exit 0\n")
        (place / "instruction.md").write_text(json.dumps(rewards))
        (place / "task.toml").write_text(f'version = "1.0"\n[task]\nname = "probe/{task}"\n')
    words = [str(Path(sys.executable).with_name("harbor")), "run", "--path", name, "--agent", "nop", "-k", "2"]
    words += ["--env", "plugs:Nowhere", "--verifier", "plugs:Told"]
    words += ["--jobs-dir", f"{name}-jobs", "--job-name", "job", "--quiet", "--yes"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    stats = json.loads(Path(f"{name}-jobs/job/result.json").read_text())["stats"]
    (evaluated,) = stats["evals"].values()
    return evaluated["metrics"], evaluated["pass_at_k"]


release = metadata.version("harbor")
lost, more = job("lost", LOST), job("more", MORE)
print("harbor", release)
print("  two tasks earn 1, a third has no reward:", *lost)
print("  both earn 1, and one of them 1 for `brief`:", *more)
sys.exit((lost, more) != (EXPECTED[release], ([{"brief": 0.5, "reward": 1.0}], {})))
PYTHON
export HARBOR_TELEMETRY=off
for release in 0.25.0 0.26.0; do
  "$uv" venv --quiet --python 3.12 "$folder/$release"
  "$uv" pip install --quiet --python "$folder/$release" "harbor==$release"
  mkdir "$folder/in-$release"
  (cd "$folder/in-$release" && HOME="$folder" PYTHONPATH="$folder" "$folder/$release/bin/python" ../probe.py)
done
