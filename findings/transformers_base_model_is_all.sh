#!/usr/bin/env bash
# transformers 5.24.0, torch 2.15.0: what is `base_model` of a causal language model, and does a model load from its body?
#
# Guessed: the part without the output embedding, in every architecture, as in Llama; and `from_pretrained` of the whole
#          finds the weights of a checkpoint that holds this part alone.
# Seen:    Llama 4 and Mllama name a part `language_model` that their causal models call `model`, so that `base_model` and
#          `get_decoder()` are the model itself, which gives logits where Llama's body gives hidden states. A checkpoint of
#          the body loads into the whole without an error and with none of its matrices: all are drawn anew. The other
#          way, Llama 4's body loads from the whole, and Mllama's gets none of its matrices either.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
"$folder/env/bin/uv" pip install --quiet --python "$folder/env" transformers==5.24.0 torch==2.15.0
cd "$folder"
cat >probe.py <<'PYTHON'
import importlib.metadata as metadata
import sys

import torch
import transformers
from transformers import (
    Llama4ForCausalLM,
    Llama4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MllamaForCausalLM,
)
from transformers.models.mllama.configuration_mllama import MllamaTextConfig

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
SIZES = {
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "pad_token_id": 0,
}
EXPERTS = {"intermediate_size_mlp": 16, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1}
MODELS = {
    "Llama": LlamaForCausalLM(LlamaConfig(**SIZES)),
    "Llama 4": Llama4ForCausalLM(Llama4TextConfig(**SIZES, **EXPERTS)),
    "Mllama": MllamaForCausalLM(MllamaTextConfig(**SIZES, cross_attention_layers=[])),
}
EXPECTED = {"Llama": (False, 16, 15, 15), "Llama 4": (True, 64, 0, 21), "Mllama": (True, 64, 0, 0)}


def matrices(body):
    """The weights that are drawn, which the gains of norms are not."""
    return {name: weight for name, weight in body.state_dict().items() if weight.dim() > 1}


def from_checkpoint(saved, kind, body_of):
    """How many matrices of a body are those of the checkpoint that it was loaded from."""
    saved.save_pretrained("checkpoint")
    loaded = matrices(body_of(kind.from_pretrained("checkpoint")))
    kept = matrices(getattr(saved, "model", saved))
    return sum(torch.equal(weight, loaded[name]) for name, weight in kept.items())


for name in ("transformers", "torch"):
    print(name, metadata.version(name))
changed = False
for name, model in MODELS.items():
    body = model.model
    is_all = model.base_model is model and model.get_decoder() is model
    is_part = model.base_model is body and model.get_decoder() is body
    assert is_all != is_part
    width = model.eval().base_model(torch.tensor([[1, 2, 3]]))[0].shape[-1]
    of_body = from_checkpoint(body, type(model), lambda whole: whole.model)
    of_whole = from_checkpoint(model, type(body), lambda body: body)
    print(f"{name}: base_model is the model {is_all}, its output {width} wide;", end=" ")
    print(f"{of_body} of {len(matrices(body))} matrices from the body, {of_whole} from the whole")
    changed |= (is_all, width, of_body, of_whole) != EXPECTED[name]
sys.exit(changed)
PYTHON
HOME="$folder" HF_HUB_OFFLINE=1 env/bin/python -W ignore probe.py
