#!/usr/bin/env bash
# harbor-rewardkit 0.2.3, litellm 1.110.2: what does a judge get to read of a trajectory that fits in its budget?
#
# Guessed: all of it. What is longer than the budget is cut, says `format_trajectory`, and a warning tells of it.
# Seen:    each message, call and result may have budget / number of blocks, however short the others are and though
#          all of it fits. Of an answer of 800 tokens, within 5,000, 250 of 400 words are left after four short calls,
#          and twelve after a hundred; after 300 calls, 139 words, in 6,000 tokens of the 168,000 that a model of 200,000
#          leaves. The end, which rubrics ask about, is what is lost. The warning is for what is still too long after
#          the cut, so that there is none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/tools"
"$folder/tools/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
uv="$folder/tools/bin/uv"
"$uv" venv --quiet --python 3.12 "$folder/env"
"$uv" pip install --quiet --python "$folder/env" harbor-rewardkit==0.2.3 litellm==1.110.2
cd "$folder"
cat >probe.py <<'PYTHON'
import importlib.metadata as metadata
import json
import os
import sys
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
from rewardkit.trajectory import format_trajectory

WORDS = [f"word{number}" for number in range(400)]
EXPECTED = {(5_000, 0): 400, (5_000, 4): 250, (5_000, 10): 113, (5_000, 100): 12, (168_000, 300): 139}


def tokens(text):
    """Tokens of a text, as Reward Kit counts them for the judge that it uses by default."""
    return len(litellm.encode(model="anthropic/claude-opus-5-5", text=text))


def trajectory(calls):
    """A file of a question, short calls of a tool, and an answer of 400 words."""
    steps = [{"source": "user", "message": "Count to 400."}]
    for call in range(calls):
        made = {"tool_call_id": str(call), "function_name": "ls", "arguments": {}}
        result = {"source_call_id": str(call), "content": "ok"}
        steps.append({"source": "agent", "message": "", "tool_calls": [made], "observation": {"results": [result]}})
    steps.append({"source": "agent", "message": " ".join(WORDS)})
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    agent = {"name": "probe", "version": "1"}
    path = Path(f"{calls}.json")
    path.write_text(json.dumps({"schema_version": "ATIF-v1.7", "session_id": "1", "agent": agent, "steps": numbered}))
    return path


for name in ("harbor-rewardkit", "litellm"):
    print(name, metadata.version(name))
print("tokens of the answer:", tokens(" ".join(WORDS)))
changed = False
for (budget, calls), expected in EXPECTED.items():
    path, warnings = trajectory(calls), []
    whole = format_trajectory(path, max_tokens=10**9)
    text = format_trajectory(path, max_tokens=budget, warnings_out=warnings)
    left = sum(word in text.replace(".", " ").split() for word in WORDS)
    sizes = f"budget {budget}, {calls} calls, {tokens(whole)} tokens in all"
    print(f"{sizes}: {left} of 400 words in {tokens(text)} tokens, warnings {warnings}")
    changed |= (left, warnings) != (expected, []) or tokens(whole) > budget
sys.exit(changed)
PYTHON
env/bin/python probe.py
