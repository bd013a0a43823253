#!/usr/bin/env bash
# trl-cgrpo 0.2.0, trl 1.14.2, torch 2.13.0: how many answers are judged where C-GRPO stops a prompt early?
#
# Guessed: as many as were drawn: it saves what is not needed of a group of fixed size, for which a judge has to be asked too.
# Seen:    as many as the largest group. Two answers of four are drawn, and `cgrpo/rollout_savings` says one half; the
#          reward function is called with four, of which two are empty: the end mark that fills the group. What it
#          returns for them is thrown away, so that a judge that is a model costs as much as in GRPO. The lengths of
#          answers that TRL logs count the fillers as answers of one token, those of rewards do not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
"$folder/env/bin/uv" pip install --quiet --python "$folder/env" trl-cgrpo==0.2.0 trl==1.14.2 transformers==5.24.0 torch==2.13.0 datasets==5.2.0 accelerate==1.15.0
cd "$folder"
export HOME="$folder" CUDA_VISIBLE_DEVICES="" HF_HUB_OFFLINE=1
cat >probe.py <<'PYTHON'
import contextlib
import importlib.metadata as metadata
import sys

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl_cgrpo import CGRPOConfig, CGRPOTrainer

WORDS = "<pad> <end> a b c d e f".split()
words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<pad>"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>")
config = LlamaConfig(
    vocab_size=len(WORDS), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, eos_token_id=1, pad_token_id=0
)
LlamaForCausalLM(config).save_pretrained("policy")
judged, verified = [], []


def reward(completions, **_):
    """A judge: 1 for an answer, 0 for none."""
    judged.extend(completions)
    return [float(completion != "") for completion in completions]


def verifier(completions, **_):
    """A cheap check that every answer passes, so that each prompt stops at the smallest group."""
    verified.extend(completions)
    return [True] * len(completions)


arguments = CGRPOConfig(
    output_dir="out",
    use_cpu=True,
    max_steps=1,
    budget_grid=[2, 4],
    score="first_success",
    delta=0.1,
    per_device_train_batch_size=8,
    max_completion_length=6,
    # No answer may be empty of itself.
    generation_kwargs={"suppress_tokens": [0, 1]},
    logging_steps=1,
    report_to="none",
    disable_tqdm=True,
    save_strategy="no",
)
rows = Dataset.from_dict({"prompt": ["a b", "c d"] * 8})
trainer = CGRPOTrainer(
    model="policy",
    processing_class=tokenizer,
    reward_funcs=reward,
    args=arguments,
    train_dataset=rows,
    calibration_dataset=rows,
    verifier=verifier,
)
with contextlib.redirect_stdout(None):
    trainer.train()
log = trainer.state.log_history[0]
drawn = len(verified) - int(log["cgrpo/calibration_rollouts"])
for package in ("trl-cgrpo", "trl", "torch"):
    print(package, metadata.version(package))
print(f"two prompts, groups of 2 to 4: {drawn} answers drawn, {len(judged)} judged, {judged.count('')} of them empty")
for name in ("cgrpo/mean_k", "cgrpo/rollout_savings", "rewards/reward/mean", "completions/mean_length"):
    print(name, log[name])
found = drawn, len(judged), judged.count(""), float(log["cgrpo/rollout_savings"]), float(log["completions/mean_length"])
sys.exit(found != (4, 8, 4, 0.5, 3.5))
PYTHON
env/bin/python -W ignore probe.py 2>errors || { cat errors; exit 1; }
