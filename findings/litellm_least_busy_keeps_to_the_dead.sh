#!/usr/bin/env bash
# litellm 1.110.2: a Router with two deployments of one group, one of which nothing answers at, and another model as fallback.
#
# Guessed: with `least-busy` and one retry, the healthy deployment answers nearly all of 24 calls, made one after another,
#          as it does with `simple-shuffle`.
# Seen:    a call that is refused at once leaves its deployment less busy than any other, so that `least-busy` chooses it
#          for the call and for its retry. Without cooldowns the fallback answers all 24 and the healthy deployment none;
#          with cooldowns the fallback answers the first one or two.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check litellm==1.110.2
cat >"$folder/probe.py" <<'PYTHON'
import asyncio
import json
import logging
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

for name in ("LiteLLM", "LiteLLM Router"):
    logging.getLogger(name).setLevel(100)
litellm.suppress_debug_info = True
CALLS = 24


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls += 1
        message = {"role": "assistant", "content": "yes"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def served():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.calls = 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def deployment(group, id_, port):
    address = f"http://127.0.0.1:{port}/v1"
    params = {"model": "openai/m", "api_base": address, "api_key": "none"}
    return {"model_name": group, "litellm_params": params, "model_info": {"id": id_}}


async def answered(strategy, **settings):
    """Calls that the healthy deployment and the fallback answered."""
    healthy, spare = served(), served()
    models = [
        deployment("judge", "dead", 1),
        deployment("judge", "healthy", healthy.server_port),
        deployment("spare", "spare", spare.server_port),
    ]
    router = litellm.Router(
        model_list=models, routing_strategy=strategy, num_retries=1, fallbacks=[{"judge": ["spare"]}], **settings
    )
    for number in range(CALLS):
        question = [{"role": "user", "content": f"question {number}"}]
        await router.acompletion(model="judge", messages=question, max_retries=0)
    healthy.shutdown()
    spare.shutdown()
    return healthy.calls, spare.calls


async def main():
    print("litellm", version("litellm"))
    results = {}
    for strategy in ("simple-shuffle", "least-busy"):
        for off in (False, True):
            results[strategy, off] = await answered(strategy, disable_cooldowns=off)
            by_healthy, by_spare = results[strategy, off]
            cooldowns = "without" if off else "with"
            print(f"{strategy}, {cooldowns} cooldowns: healthy {by_healthy}, fallback {by_spare} of {CALLS}")
    assert results["least-busy", True] == (0, CALLS)
    assert results["least-busy", False][1] >= 1
    assert min(results["simple-shuffle", off][0] for off in (False, True)) > CALLS / 4


asyncio.run(main())
PYTHON
"$folder/env/bin/python" -W ignore "$folder/probe.py" || { echo "this has changed"; exit 1; }
