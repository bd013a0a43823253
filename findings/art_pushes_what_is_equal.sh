#!/usr/bin/env bash
# openpipe-art 0.5.18, torch 2.13.0: what is trained on a step in whose groups all answers earn the same?
#
# Guessed: nothing. Its backend says that it skips a step where "all the trajectories in the same group have the same
#          reward", and a trajectory with advantage 0 is left out.
# Seen:    that holds for three rewards of 0.5. The mean of three rewards of 0.1 is not 0.1 in binary, and what is left,
#          10^-11, is not 0. Packing then divides all advantages by their mean size over the batch, so that each token
#          gets -1, as much as a wrong answer gets among right ones. Beside a group that differs it is as good as 0. The
#          same division undoes `scale_rewards=False` between steps: a group that differs by 0.01 and one that differs
#          by 1 are pushed alike, unless they are in the same step.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
"$folder/env/bin/uv" pip install --quiet --python "$folder/env" openpipe-art==0.5.18 torch==2.13.0 transformers==5.10.4 pillow
cd "$folder"
export HOME="$folder" CUDA_VISIBLE_DEVICES="" WEAVE_DISABLED=true LITELLM_LOCAL_MODEL_COST_MAP=True
cat >probe.py <<'PYTHON'
import importlib.metadata as metadata
import sys

import art
from art.preprocessing.pack import packed_tensors_from_tokenized_results
from art.preprocessing.tokenize import tokenize_trajectory_groups
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = "<pad> user assistant question red green blue answer <end> spare".split()
TEMPLATE = (
    "{% for m in messages %}{{ m.role }} {{ m.content }} "
    "{% if not (continue_final_message and loop.last) %}<end> {% endif %}{% endfor %}"
)
CASES = {
    "three times 0.5": ([[0.5] * 3], True, None),
    "three times 0.1": ([[0.1] * 3], True, {-1.0}),
    "three times 0.1, beside a group that differs": ([[0.1] * 3, [1, 0, 0]], True, {-1.5, 0.0, 3.0}),
    "1, 0, 0, unscaled": ([[1, 0, 0]], False, {-0.75, 1.5}),
    "0.51, 0.5, 0.5, unscaled": ([[0.51, 0.5, 0.5]], False, {-0.75, 1.5}),
    "1, 0 beside 0.51, 0.5, unscaled": ([[1, 0], [0.51, 0.5]], False, {-1.98, -0.02, 0.02, 1.98}),
}

words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<pad>"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>", chat_template=TEMPLATE)


def trajectory(colour, reward):
    """One of the answers to a question, and what it earns."""
    dialogue = [{"role": "user", "content": "question"}, {"role": "assistant", "content": f"{colour} answer"}]
    return art.Trajectory(messages_and_choices=dialogue, reward=reward)


def advantages(rewards, scaled):
    """What the tokens of the answers are pushed by, as the local backend packs them; None where there is nothing to train on."""
    groups = [art.TrajectoryGroup(map(trajectory, WORDS[4:], group)) for group in rewards]
    results = list(tokenize_trajectory_groups(tokenizer, groups, True, scaled))
    if not results:
        return None
    packed = packed_tensors_from_tokenized_results(results, 64, pad_token_id=0)
    return {round(value, 2) + 0.0 for value in packed["advantages"][packed["assistant_mask"]].tolist()}


for package in ("openpipe-art", "torch"):
    print(package, metadata.version(package))
changed = False
for name, (rewards, scaled, expected) in CASES.items():
    found = advantages(rewards, scaled)
    print(f"{name}: {'nothing to train on' if found is None else sorted(found)}")
    changed |= found != expected
sys.exit(changed)
PYTHON
env/bin/python -W ignore probe.py
