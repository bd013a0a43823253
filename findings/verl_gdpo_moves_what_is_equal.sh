#!/usr/bin/env bash
# verl 0.9.1: which advantage has a group of four right answers, under its `gdpo` with one reward?
#
# Guessed: none, as under `grpo`: with a single reward the two differ by a factor that is one for the whole batch.
# Seen:    that holds where all responses are equally long. `gdpo` ends with whitening over the tokens of the batch,
#          whose mean the longer responses decide. Where the right answer of another group is longer than its wrong ones,
#          all four right answers get -0.54 on each token, half of what a wrong answer of the other group gets; where the
#          wrong ones are longer, four wrong answers get +0.59. Under `grpo` both groups stay at 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
"$folder/env/bin/uv" pip install --quiet --python "$folder/env" verl==0.9.1 cachetools==6.2.2 uvicorn==0.38.0 fastapi==0.121.0 torch==2.13.0 transformers==5.10.4 ray==2.60.0
cd "$folder"
export HOME="$folder" CUDA_VISIBLE_DEVICES="" HF_HUB_OFFLINE=1
cat >probe.py <<'PYTHON'
import importlib.metadata as metadata
import sys

import numpy as np
import torch
from omegaconf import OmegaConf
from verl.protocol import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage

WIDTH = 40
RIGHT, WRONG = [1.0] * 4, [0.0] * 4
MIXED = [1.0, 0.0, 0.0, 0.0]
CONFIG = OmegaConf.create({"gdpo_reward_keys": ["right"]})


def batch(lengths, rewards):
    """Two groups of four responses, with what a reward gave each."""
    rows = len(rewards)
    mask = (torch.arange(WIDTH) < torch.tensor(lengths)[:, None]).long()
    scores = torch.zeros(rows, WIDTH)
    scores[torch.arange(rows), torch.tensor(lengths) - 1] = torch.tensor(rewards)
    prompts = torch.ones(rows, 2, dtype=torch.long)
    tensors = {
        "prompts": prompts,
        "attention_mask": torch.cat((prompts, mask), dim=1),
        "response_mask": mask,
        "token_level_rewards": scores,
    }
    names = np.array(["mixed"] * 4 + ["equal"] * 4, dtype=object)
    return DataProto.from_dict(tensors, non_tensors={"uid": names, "right": np.array(rewards)})


def advantages(estimator, lengths, rewards):
    """The advantage of each response's first token."""
    data = compute_advantage(batch(lengths, rewards), adv_estimator=estimator, config=CONFIG)
    return [round(value, 2) + 0.0 for value in data.batch["advantages"][:, 0].tolist()]


for name in ("verl", "torch"):
    print(name, metadata.version(name))
alike, long_right, long_wrong = [10] * 8, [40, 10, 10, 10, 5, 5, 5, 5], [10, 40, 40, 40, 5, 5, 5, 5]
cases = {
    ("grpo", "the right one longer, all right"): ("grpo", long_right, MIXED + RIGHT),
    ("grpo", "the wrong ones longer, all wrong"): ("grpo", long_wrong, MIXED + WRONG),
    ("gdpo", "as long, all right"): ("gdpo", alike, MIXED + RIGHT),
    ("gdpo", "the right one longer, all right"): ("gdpo", long_right, MIXED + RIGHT),
    ("gdpo", "the wrong ones longer, all wrong"): ("gdpo", long_wrong, MIXED + WRONG),
}
equal = {}
for name, case in cases.items():
    found = advantages(*case)
    equal[name] = found[4:]
    print(*name, "| mixed", found[:4], "| equal", found[4:])
seen = [group[0] for group in equal.values()]
sys.exit(seen != [0.0, 0.0, 0.0, -0.54, 0.59])
PYTHON
env/bin/python -W ignore probe.py 2>errors || { cat errors; exit 1; }
