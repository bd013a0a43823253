#!/usr/bin/env bash
# trl 1.16.0, transformers 5.24.0, torch 2.13.0: what is a completion worth for which the reward function returns None?
#
# Guessed: it is left out of its group and pushes nothing, as in GRPO, whichever trainer takes the function.
# Seen:    GRPO and RLOO leave it out. SDPO, where a policy loss is mixed in, and Online DPO sum it as 0: among three answers
#          that earn 1 it has the advantage -1.5, among three that earn -1 it has 1.5, more than any that was judged, and in
#          a pair with -1 it is the chosen one. A pair of which neither was judged is trained as well. Neither trainer says so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
"$folder/env/bin/uv" pip install --quiet --python "$folder/env" trl==1.16.0 transformers==5.24.0 torch==2.13.0 datasets==5.2.0 accelerate==1.15.0
cd "$folder"
export HOME="$folder" CUDA_VISIBLE_DEVICES="" HF_HUB_OFFLINE=1 TRL_EXPERIMENTAL_SILENCE=1
cat >probe.py <<'PYTHON'
import contextlib
import importlib.metadata as metadata
import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer
from trl.experimental.sdpo import SDPOConfig, SDPOTrainer

WORDS = "<pad> <end> a b c d e f".split()
words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<pad>"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>")
config = LlamaConfig(
    vocab_size=len(WORDS), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, eos_token_id=1, pad_token_id=0
)
LlamaForCausalLM(config).save_pretrained("policy")
GROUPS = {"among three that earn 1": [1.0, 1.0, 1.0, None], "among three that earn -1": [-1.0, -1.0, -1.0, None]}
PAIRS = {"beside -1": [-1.0, None], "beside another": [None, None]}


def step(trainer_class, config_class, rewards, **more):
    """What one step gives each completion: advantages, or what Online DPO chooses by."""
    seen = []

    class Watched(trainer_class):
        def compute_loss(self, model, inputs, *args, **kwargs):
            seen.extend(inputs.get("advantages", torch.zeros(0)).tolist())
            return super().compute_loss(model, inputs, *args, **kwargs)

        def _calculate_rewards_from_functions(self, *args, **kwargs):
            found = super()._calculate_rewards_from_functions(*args, **kwargs)
            seen.extend(found.tolist())
            return found

    def reward(completions, **_):
        return rewards[: len(completions)]

    arguments = config_class(
        output_dir="out", use_cpu=True, max_steps=1, report_to="none", disable_tqdm=True, save_strategy="no", logging_strategy="no", **more
    )
    rows = Dataset.from_dict({"prompt": ["a b", "c d", "e f", "b a"]})
    trainer = Watched(model="policy", processing_class=tokenizer, reward_funcs=reward, args=arguments, train_dataset=rows)
    with contextlib.redirect_stdout(None):
        loss = trainer.train().training_loss
    return [round(value, 2) + 0.0 for value in seen], round(loss, 2)


group = {"per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 4}
CASES = [
    (GRPOTrainer, GRPOConfig, GROUPS, group),
    (RLOOTrainer, RLOOConfig, GROUPS, group),
    (SDPOTrainer, SDPOConfig, GROUPS, {**group, "teacher_model_kind": "live", "distillation_weight": 0.5}),
    (OnlineDPOTrainer, OnlineDPOConfig, PAIRS, {"per_device_train_batch_size": 1, "max_new_tokens": 4}),
]
EXPECTED = [[0.0] * 4, [0.0] * 4, [0.0] * 4, [0.0] * 4, [0.5, 0.5, 0.5, -1.5], [-0.5, -0.5, -0.5, 1.5], [-1.0, 0.0], [0.0, 0.0]]
for package in ("trl", "transformers", "torch"):
    print(package, metadata.version(package))
found, pair_losses = [], []
for trainer, configuration, batches, more in CASES:
    for name, rewards in batches.items():
        values, loss = step(trainer, configuration, rewards, **more)
        found.append(values)
        if batches is PAIRS:
            pair_losses.append(loss)
        print(f"{trainer.__name__}, {name}: {values}, loss {loss}", flush=True)
sys.exit((found, pair_losses) != (EXPECTED, [0.69, 0.69]))
PYTHON
env/bin/python -W ignore probe.py 2>errors || { cat errors; exit 1; }
