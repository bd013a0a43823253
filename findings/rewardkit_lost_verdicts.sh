#!/usr/bin/env bash
# harbor-rewardkit 0.2.3, litellm 1.110.2: what is a criterion worth when its judge is late, or says yes in other words?
#
# Guessed: a judge that failed leaves no reward, whichever way it failed; a reply that is not the asked-for yes or no is
#          asked for again, as one without JSON is.
# Seen:    an error of the server ends the run without a reward file. A time-out writes one, with 0 for the criterion,
#          and status 0: with a negative weight that is the best there is, so that the same answer earns 0 in time and 1
#          late. "Yes." and "met" are a no, and nothing is asked again; with `negate` any words but yes, true and 1 earn all.
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
import logging
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none"}
import litellm
import rewardkit

litellm.suppress_debug_info = True
logging.getLogger("LiteLLM").setLevel(100)
PLAIN = '[[criterion]]\nname = "short"\ndescription = "The answer is short"\n'
NEGATED = PLAIN + "negate = true\n"
PENALTY = '[[criterion]]\nname = "right"\ndescription = "The answer is right"\n'
RUDE = '[scoring]\naggregation = "weighted-sum"\n[[criterion]]\nname = "rude"\ndescription = "The answer is rude"\nweight = -1.0\n'


class Judge(BaseHTTPRequestHandler):
    """Says what the server is told to say, after as long as it is told to wait; calls the answer right at once."""

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.calls += 1
        verdict = "yes" if "'right'" in asked else self.server.verdict
        if "'right'" not in asked:
            time.sleep(self.server.wait)
        message = {"role": "assistant", "content": json.dumps({"score": verdict, "reasoning": ""})}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):  # who asked has gone
        pass


server = Server(("127.0.0.1", 0), Judge)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["OPENAI_API_BASE"] = f"http://127.0.0.1:{server.server_port}/v1"


def earned(name, *files, verdict="yes", wait=0.0, status=200):
    """The reward that is written, or None, and how often the judge was asked."""
    server.verdict, server.wait, server.status, server.calls = verdict, wait, status, 0
    tests = Path(name, "tests")
    tests.mkdir(parents=True)
    for number, criteria in enumerate(files):
        judge = '[judge]\njudge = "openai/gpt-5-mini"\ntimeout = 1\n'
        (tests / f"judge{number}.toml").write_text(judge + criteria)
    if len(files) > 1:
        (tests / "reward.toml").write_text('[[reward]]\nname = "reward"\naggregation = "weighted-sum"\n')
    out = Path(name, "reward.json")
    try:
        rewardkit.run(tests, workspace=name, output=out)
    except ExceptionGroup:
        pass
    reward = json.loads(out.read_text())["reward"] if out.exists() else None
    print(f"{name}: reward {reward}, {server.calls} calls")
    return reward


for package in ("harbor-rewardkit", "litellm"):
    print(package, metadata.version(package))
seen = [
    earned("yes", PLAIN),
    earned("an error of the server", PLAIN, status=500),
    earned("too late", PLAIN, wait=3),
    earned("right and rude", PENALTY, RUDE),
    earned("right and rude, too late", PENALTY, RUDE, wait=3),
    earned("Yes with a full stop", PLAIN, verdict="Yes."),
    earned("met", PLAIN, verdict="met"),
    earned("negated, yes", NEGATED),
    earned("negated, Yes with a full stop", NEGATED, verdict="Yes."),
]
sys.exit(seen != [1, None, 0, 0, 1, 0, 0, 0, 1])
PYTHON
env/bin/python -W ignore probe.py
