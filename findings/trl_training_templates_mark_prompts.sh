#!/usr/bin/env bash
# trl 1.16.0: which text do its training templates mark as the assistant's, for `assistant_only_loss`?
#
# Guessed: what a policy writes: all behind the generation prompt of the same template, up to the token that
#          ends the turn.
# Seen:    of fifteen, two do so. Qwen 3.5, 3.6 and 3.8 also mark the `<think>` that their generation
#          prompt has written, Qwen 2.5 the line break before the answer, gpt-oss and Muse the whole header of the
#          turn; so a loss over these marks is also over tokens of the prompt. Gemma, LFM2 and every Qwen mark
#          the line break behind the end token, which no policy samples. With DeepSeek V3 and Nemotron 3
#          the rendered turn does not begin with the generation prompt, which opens a thought.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
pip=("$folder/env/bin/pip" install --quiet --disable-pip-version-check)
"${pip[@]}" transformers==5.24.0 jinja2==3.1.6
"${pip[@]}" --no-deps trl==1.16.0 # only its templates are read
cd "$folder"
export HOME="$folder" HF_HUB_OFFLINE=1
env/bin/python - <<'PYTHON' 2>&1 | grep -v "PyTorch was not found"
import importlib.metadata as metadata
import sys
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

for name in ("trl", "transformers", "jinja2"):
    print(name, metadata.version(name))
templates = Path(str(metadata.distribution("trl").locate_file("trl/chat_templates")))
CHAT = [
    {"role": "user", "content": "What is warm?"},
    {"role": "assistant", "content": "The sun."},
]
EXPECTED = {
    "llama3": "what is written",
    "cohere": "what is written",
    "gemma3": "the line break behind the end",
    "lfm2": "the line break behind the end",
    "qwen3": "the line break behind the end",
    "qwen3_vl": "the line break behind the end",
    "qwen2_5": "the prompt's '\\n', the line break behind the end",
    "qwen3_5_nothink": "the prompt's '<think>\\n\\n</think>\\n\\n', the line break behind the end",
    "qwen3_5_think": "the prompt's '<think>\\n', the line break behind the end",
    "qwen3_6": "the prompt's '<think>\\n', the line break behind the end",
    "qwen3_8": "the prompt's '<think>\\n', the line break behind the end",
    "gptoss": "the prompt's '<|start|>assistant'",
    "muse_glimmer": "the prompt's '<|start|>assistant'",
    "deepseekv3": "the turn does not begin with the prompt",
    "nemotron_3_nano": "the turn does not begin with the prompt",
}


def marked(name):
    """What is marked, beside or in place of what a policy writes after the prompt."""
    template = (templates / f"{name}_training.jinja").read_text("utf-8")
    tokens = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}
    texts, places = render_jinja_template(
        [CHAT], chat_template=template, return_assistant_tokens_mask=True, **tokens
    )
    prompts, _ = render_jinja_template(
        [CHAT[:1]], chat_template=template, add_generation_prompt=True, **tokens
    )
    text, prompt = texts[0], prompts[0]
    if not text.startswith(prompt):
        return "the turn does not begin with the prompt"
    begin, end = places[0][0][0], places[0][-1][1]
    also = []
    if begin < len(prompt):
        also.append(f"the prompt's {prompt[begin:]!r}")
    if text[begin:end].endswith("\n"):
        also.append("the line break behind the end")
    return ", ".join(also) or "what is written"


changed = False
for name, expected in EXPECTED.items():
    seen = marked(name)
    print(f"{name}: {seen}")
    changed |= seen != expected
sys.exit(int(changed))
PYTHON
