#!/usr/bin/env bash
# openpipe-art 0.5.18: to which answer of a group goes a score, where RULER's judge lists the best answer first?
#
# Guessed: to the one that the score names. The prompt gives each trajectory an id and asks for no order, and each score of
#          the reply has to have its `trajectory_id`.
# Seen:    to the one at its place in the list; the ids are not read. A judge that ranks, and lists its scores best first,
#          gives the best score to the first trajectory, which here is the wrong one. A reply that scores one answer
#          twice and another never is taken too: only the count is checked. Scores from 0 to 100 come out as they are.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
"$folder/env/bin/uv" pip install --quiet --python "$folder/env" openpipe-art==0.5.18 litellm==1.82.0 openai==3.57.0
cd "$folder"
export HOME="$folder" WEAVE_DISABLED=true LITELLM_LOCAL_MODEL_COST_MAP=True OPENAI_API_KEY=none
cat >probe.py <<'PYTHON'
import asyncio
import importlib.metadata as metadata
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import art
from art.rewards import ruler_score_group

QUESTION = {"role": "user", "content": "What is 2 + 2?"}
ANSWERS = ["5", "4", "about 4"]
REPLIES = {
    "in the order of the prompt": ([("1", 0.1), ("2", 0.9), ("3", 0.5)], [0.1, 0.9, 0.5]),
    "best first": ([("2", 0.9), ("3", 0.5), ("1", 0.1)], [0.9, 0.5, 0.1]),
    "the second twice, the third never": ([("2", 0.9), ("2", 0.9), ("1", 0.1)], [0.9, 0.9, 0.1]),
    "of 100": ([("1", 10), ("2", 90), ("3", 50)], [10, 90, 50]),
}


class Judge(BaseHTTPRequestHandler):
    """Replies with the scores that the server is told."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        scores = [{"trajectory_id": name, "explanation": "", "score": score} for name, score in self.server.scores]
        message = {"role": "assistant", "content": json.dumps({"scores": scores})}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
threading.Thread(target=server.serve_forever, daemon=True).start()


def rewards(scores):
    """What each of the three answers earns."""
    server.scores = scores
    answers = [[QUESTION, {"role": "assistant", "content": answer}] for answer in ANSWERS]
    group = art.TrajectoryGroup([art.Trajectory(messages_and_choices=answer, reward=0.0) for answer in answers])
    place = {"api_base": f"http://127.0.0.1:{server.server_port}/v1"}
    scored = asyncio.run(ruler_score_group(group, "openai/gpt-5-mini", extra_litellm_params=place))
    return [trajectory.reward for trajectory in scored.trajectories]


for package in ("openpipe-art", "litellm"):
    print(package, metadata.version(package))
changed = False
for name, (scores, expected) in REPLIES.items():
    earned = rewards(scores)
    print(f"{name}: judge {scores}, rewards {dict(zip(ANSWERS, earned))}")
    changed |= earned != expected
sys.exit(changed)
PYTHON
env/bin/python -W ignore probe.py
