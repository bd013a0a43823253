#!/usr/bin/env bash
# autorubric 1.6.1, litellm 1.110.2: what is a wrong answer worth whose judge fails on the criterion that says so?
#
# Guessed: None, as where all calls failed, or what the criteria that are left earn of the whole rubric: 0.
# Seen:    1, the best there is. A failed call abstains, and one that abstains is left out of the sum and of what it is
#          divided by; where only mistakes are left the score begins at 1. The same answer earns 0 when the judge
#          replies. A failed call on the mistake lifts a right and rude answer from 0 to 1. With a judge that says
#          CANNOT_ASSESS of itself it is the same. The report has an `error` for the criterion, the score none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
"$folder/env/bin/uv" pip install --quiet --python "$folder/env" autorubric==1.6.1 litellm==1.110.2
cd "$folder"
export HOME="$folder" LITELLM_LOCAL_MODEL_COST_MAP=True OPENAI_API_KEY=none
cat >probe.py <<'PYTHON'
import asyncio
import importlib.metadata as metadata
import json
import logging
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import litellm
from autorubric import LLMConfig, Rubric
from autorubric.graders import CriterionGrader

litellm.suppress_debug_info = True
logging.disable(logging.CRITICAL)
RIGHT, RUDE = "The dose is right", "The answer is rude"
RUBRIC = Rubric.from_dict([{"weight": 2.0, "requirement": RIGHT}, {"weight": -2.0, "requirement": RUDE}])
CASES = {
    "wrong, all calls succeed": ({RIGHT: "UNMET", RUDE: "UNMET"}, 0.0),
    "wrong, the first call fails": ({RIGHT: 500, RUDE: "UNMET"}, 1.0),
    "wrong, the first reply is no verdict": ({RIGHT: "perhaps", RUDE: "UNMET"}, 1.0),
    "wrong, the judge cannot assess the first": ({RIGHT: "CANNOT_ASSESS", RUDE: "UNMET"}, 1.0),
    "right and rude, all calls succeed": ({RIGHT: "MET", RUDE: "MET"}, 0.0),
    "right and rude, the second call fails": ({RIGHT: "MET", RUDE: 500}, 1.0),
    "both calls fail": ({RIGHT: 500, RUDE: 500}, None),
}


class Judge(BaseHTTPRequestHandler):
    """Replies with the verdict that the server is told for the criterion in the prompt, or with its status."""

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        (verdict,) = [verdict for name, verdict in self.server.verdicts.items() if name in asked]
        judgement = {"criterion_status": verdict, "explanation": "seen"}
        message = {"role": "assistant", "content": json.dumps(judgement)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        self.send_response(verdict if isinstance(verdict, int) else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
threading.Thread(target=server.serve_forever, daemon=True).start()
place = f"http://127.0.0.1:{server.server_port}/v1"
model = LLMConfig(model="openai/gpt-5-mini", api_base=place, max_retries=1, retry_min_wait=0.01, retry_max_wait=0.02)


def graded(verdicts):
    """The report on an answer, by a judge that replies like this."""
    server.verdicts = verdicts
    return asyncio.run(RUBRIC.grade("5 g of paracetamol", grader=CriterionGrader(judge_model_config=model)))


for package in ("autorubric", "litellm"):
    print(package, metadata.version(package))
changed = False
for name, (verdicts, expected) in CASES.items():
    report = graded(verdicts)
    print(f"{name}: score {report.score}, error of the report {report.error is not None}", flush=True)
    changed |= report.score != expected
sys.exit(changed)
PYTHON
env/bin/python -W ignore probe.py
