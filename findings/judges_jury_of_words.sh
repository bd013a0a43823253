#!/usr/bin/env bash
# judges 0.1.1, instructor 1.17.0: what does a jury say whose judges answer in words of a scale?
#
# Guessed: the mean place on the scale: 4 of 5 for three times "good", 1 for three times "very poor", or an error for a
#          word that it cannot place.
# Seen:    all but "excellent" is 3, the middle, for three of the library's own graders. "good" and "bad" have become true
#          and false before they are placed, as a score is read before the type that says it is no boolean; "poor" and
#          "very poor" are not on its list, and neither is any word of the graders for refusals and for coverage. So a
#          question that all three call very poor and one that all call good get the same verdict.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check judges==0.1.1 instructor==1.17.0
cd "$folder"
cat >probe.py <<'PYTHON'
import importlib.metadata as metadata
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from judges import Jury
from judges.graders.information_coverage import HaystackBulletPointCoverageCorrectness
from judges.graders.query_quality import MagpieQueryQuality
from judges.graders.refusal_detection import ORBenchRefusalDetection


class Model(BaseHTTPRequestHandler):
    """Calls the function that it is offered, with the score that the server is told."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked["tools"][0]["function"]["name"]
        arguments = json.dumps({"reasoning": "", "score": self.server.score, "score_type": "likert"})
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1"}


def verdict(grader, score):
    """What a jury of three such graders says, when each gives this score."""
    server.score = score
    jury = Jury([grader("openai/gpt-5-mini") for _ in range(3)], voting_method="average")
    found = jury.vote(input="How tall is it?", output="It is tall.", expected="It is tall.")
    return found.score, {repr(judgment.score) for judgment in found.judgments}


for package in ("judges", "instructor"):
    print(package, metadata.version(package))
seen = []
for word in ("very poor", "poor", "average", "good", "excellent"):
    score, kept = verdict(MagpieQueryQuality, word)
    print(f"MagpieQueryQuality, three times {word!r}: kept as {kept}, verdict {score}")
    seen.append(score)
for word in ("1.direct_answer", "2.direct_refusal"):
    score, kept = verdict(ORBenchRefusalDetection, word)
    print(f"ORBenchRefusalDetection, three times {word!r}: verdict {score}")
    seen.append(score)
for word in ("NO_COVERAGE", "FULL_COVERAGE"):
    score, kept = verdict(HaystackBulletPointCoverageCorrectness, json.dumps({"coverage": word, "bullet_id": 1}))
    print(f"HaystackBulletPointCoverageCorrectness, three times {word!r}: verdict {score}")
    seen.append(score)
sys.exit(seen != [3, 3, 3, 3, 5, 3, 3, 3, 3])
PYTHON
env/bin/python -W ignore probe.py
