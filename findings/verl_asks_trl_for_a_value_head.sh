#!/usr/bin/env bash
# verl 0.9.1, transformers 5.10.4, torch 2.13.0: does it matter to verl's FSDP worker whether TRL is installed beside it?
#
# Guessed: no. TRL is asked for a value head, where a critic's checkpoint has none; the policy of a GRPO run has nothing to do
#          with it, and an older or newer TRL makes no difference.
# Seen:    the policy is loaded without TRL and beside 1.12.0. Beside 1.13.0 and 1.16.0 loading it is an ImportError: for every
#          model, verl takes a class with a value head from any TRL it finds, to replace its `state_dict`, and that class
#          ended with `trl.experimental.ppo`. An installer lets any TRL stand beside verl; only its extras `fsdp` and
#          `megatron` ask for one (0.27.0).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
install=("$folder/env/bin/uv" pip install --quiet --python "$folder/env")
packages=(verl==0.9.1 cachetools==6.2.2 uvicorn==0.38.0 fastapi==0.121.0 torch==2.13.0 transformers==5.10.4 ray==2.60.0 accelerate==1.15.0 datasets==5.2.0 peft==0.21.2 pillow==13.0.0 torchdata==0.11.0)
"${install[@]}" "${packages[@]}"
cd "$folder"
export HOME="$folder" CUDA_VISIBLE_DEVICES="" HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1
cat >probe.py <<'PYTHON'
import importlib.metadata as metadata
import os
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from verl.trainer.config import CheckpointConfig
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine import EngineRegistry

trl, expected = sys.argv[1:]
config = LlamaConfig(vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
LlamaForCausalLM(config).save_pretrained("policy")
torch.distributed.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meeting-{os.getpid()}", rank=0, world_size=1)


engine = EngineRegistry.new(
    model_type="language_model",
    backend="fsdp",
    model_config=HFModelConfig(path="policy", load_tokenizer=False, override_config={"attn_implementation": "sdpa"}),
    engine_config=FSDPEngineConfig(use_torch_compile=False),
    optimizer_config=FSDPOptimizerConfig(lr=1e-6),
    checkpoint_config=CheckpointConfig(),
)
try:
    # What the engine does first when a worker initializes it; sharding follows.
    found = type(engine._build_module()).__name__
except ImportError as error:
    found = str(error).partition(" (")[0]
print(f"verl {metadata.version('verl')}, trl {trl}: {found}", flush=True)
sys.exit(found != expected)
PYTHON
error="cannot import name 'AutoModelForCausalLMWithValueHead' from 'trl'"
for case in "none LlamaForCausalLM" "1.12.0 LlamaForCausalLM" "1.13.0 $error" "1.16.0 $error"; do
    trl=${case%% *}
    if [ "$trl" != none ]; then "${install[@]}" "${packages[@]}" "trl==$trl"; fi
    env/bin/python -W ignore probe.py "$trl" "${case#* }" 2>errors || { cat errors; exit 1; }
done
