#!/usr/bin/env bash
# py-openjudge 0.2.4, openai 3.57.0: when is a score 0, of a grader that is asked for 1 to 5?
#
# Guessed: never. What cannot be read is a `GraderError`, as for a server that fails, and a weighted sum of errors is one too.
# Seen:    an empty reply scores 0. A reply without the key `score`, or in a list, is an error, and 0 where the name of the
#          judge model holds "qwen", for which no schema is asked or checked; 45 of 5 stays 45. The sum of a runner is
#          divided by the sum of the weights of those that replied, so that a penalty that weighs as much as the rest, or
#          more, makes it 0 whatever the scores, one that weighs less lifts a right answer from 5 to 9, and a penalty whose judge
#          failed turns -3 into 1. Where all have failed the sum is a score of 0 and no error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
"$folder/env/bin/uv" pip install --quiet --python "$folder/env" py-openjudge==0.2.4 openai==3.57.0
cd "$folder"
export HOME="$folder"
cat >probe.py <<'PYTHON'
import asyncio
import importlib.metadata as metadata
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from loguru import logger
from openjudge.graders.llm_grader import LLMGrader
from openjudge.models.openai_chat_model import OpenAIChatModel
from openjudge.runner.aggregator.weighted_sum_aggregator import WeightedSumAggregator
from openjudge.runner.grading_runner import GradingRunner

logger.remove()
ERROR = "error"
REPLIES = {
    '{"score": 4, "reason": ""}': [4.0, 4.0],
    "": [0.0, 0.0],
    '{"rating": 4, "reason": ""}': [ERROR, 0.0],
    '[{"score": 4, "reason": ""}]': [ERROR, 0.0],
    '{"score": "4/5", "reason": ""}': [ERROR, ERROR],
    '{"score": 45, "reason": ""}': [45.0, 45.0],
}
SUMS = [
    ({"right": 2, "rude": -1}, (5, 1), 9.0),
    ({"right": 2, "rude": -1}, (1, 5), -3.0),
    ({"right": 2, "rude": -1}, (1, 500), 1.0),
    ({"right": 1, "rude": -1}, (5, 1), 0.0),
    ({"right": 1, "rude": -1}, (1, 5), 0.0),
    ({"right": 1, "rude": -2}, (5, 1), 0.0),
    ({"right": 1, "rude": 1}, (500, 500), 0.0),
]


class Model(BaseHTTPRequestHandler):
    """Replies to a prompt what the server is told for the word in it; a number is a status."""

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        reply = next(reply for word, reply in self.server.replies.items() if f"Is it {word}?" in asked)
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": str(reply)}}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        self.send_response(reply if isinstance(reply, int) else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()


async def graded(replies, model="gpt-5-mini", weights=None):
    """What a runner gives an answer, by grader and for their sum."""
    server.replies = replies
    client = OpenAIChatModel(model, api_key="none", base_url=f"http://127.0.0.1:{server.server_port}/v1", max_retries=0)
    graders = {word: LLMGrader(client, name=word, template=f"Is it {word}? From 1 to 5: {{response}}") for word in replies}
    runner = GradingRunner(graders, aggregators=WeightedSumAggregator("sum", weights), show_progress=False)
    results = await runner.arun([{"response": "5 g"}])
    return {name: getattr(result, "score", ERROR) for name, (result,) in results.items()}


for package in ("py-openjudge", "openai"):
    print(package, metadata.version(package))
changed = False
for reply, expected in REPLIES.items():
    found = [asyncio.run(graded({"right": reply}, model))["right"] for model in ("gpt-5-mini", "qwen3-32b")]
    print(f"{reply!r}: gpt-5-mini {found[0]}, qwen3-32b {found[1]}", flush=True)
    changed |= found != expected
for weights, scores, expected in SUMS:
    replies = {
        word: score if score == 500 else json.dumps({"score": score, "reason": ""}) for word, score in zip(weights, scores)
    }
    found = asyncio.run(graded(replies, weights=weights))
    print(f"weights {weights}: {found}", flush=True)
    changed |= found["sum"] != expected
sys.exit(changed)
PYTHON
env/bin/python -W ignore probe.py 2>errors || { cat errors; exit 1; }
