"""A resources server of NeMo-Gym, rewarding by rubrics: its `app.py`, and what writes the rest.

    mkdir resources_servers/rubric
    cp CHECKOUT/examples/adapters/with_nemo_gym.py resources_servers/rubric/app.py
    python resources_servers/rubric/app.py write      # rows, configuration, requirements
    gym env start --resources-server rubric --model-type openai_model

The working folder is a checkout of NeMo-Gym; `dataset/train.jsonl` and `judge.yaml` lie in it.
CHECKOUT is the folder of this repository.
"""

import json
import sys
from pathlib import Path

from rubric_core import read_tasks
from rubric_judge.adapters.nemo_gym import RubricResourcesServer

TASKS = Path("dataset/train.jsonl").absolute()
FOLDER = Path("resources_servers/rubric")

CONFIGURATION = f"""\
rubric:
  resources_servers:
    rubric:
      entrypoint: app.py
      domain: knowledge
      verified: false
      judge: {Path("judge.yaml").absolute()}
      tasks: {TASKS}
rubric_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: rubric
      model_server:
        type: responses_api_models
        name: policy_model
      datasets:
      - name: train
        type: train
        jsonl_fpath: {FOLDER / "data/train.jsonl"}
        license: Apache 2.0
"""


def write() -> None:
    """Write what the policy is asked; the id is that by which the judge finds the rubric."""
    views = [task.policy_view() for task in read_tasks(TASKS)]
    rows = [
        {
            "responses_create_params": {"input": [{"role": "user", "content": view.message}]},
            "task_id": view.task_id,
            "agent_ref": {"type": "responses_api_agents", "name": "rubric_simple_agent"},
        }
        for view in views
    ]
    for folder in ("data", "configs"):
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (FOLDER / "data/train.jsonl").write_text(lines, encoding="utf-8")
    (FOLDER / "configs/rubric.yaml").write_text(CONFIGURATION, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        write()
    else:
        RubricResourcesServer.run_webserver()
