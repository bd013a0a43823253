#!/usr/bin/env bash
# skyrl 0.3.0, torch 2.11.0: which groups does `zero_variance_filter` take out of the loss, and what is a metric of three groups?
#
# Guessed: the groups whose answers all score alike, however the generator was run; and the mean, as it is within a group.
# Seen:    none by default. SkyRL's own generator gives rewards by token, to which its synchronous trainer does not apply the
#          filter: four right answers stay in the loss, and the metric of how many were filtered is missing. With
#          `generator.batched` the rewards are by response and the group is masked. Where outputs are put together, as for the
#          asynchronous trainer, letters in a metric's name choose: of three groups that score 1, 0.5 and 0 `score` is the
#          sum, 1.5, `meaning` the mean and `minor` the least.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/tools"
"$folder/tools/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
uv="$folder/tools/bin/uv"
"$uv" venv --quiet --python 3.12 "$folder/env"
"$uv" pip install --quiet --python "$folder/env" skyrl==0.3.0 skyrl-gym==0.4.0 torch==2.11.0 ray==2.56.0 loguru==0.7.3 tqdm==4.70.1 omegaconf==2.3.1 hydra-core==1.3.2 jaxtyping==0.3.11 tensordict==0.15.3 peft==0.18.1 accelerate==1.15.0 datasets==5.2.0 torchdata==0.11.0 polars==2.1.0 fastapi==0.165.0 uvicorn==0.54.0 tensorboard==2.21.0 wandb==0.31.0 transformers==5.8.0 numpy==2.3.5 aiohttp==3.14.5 func_timeout==4.3.5 s3fs==2026.9.0
cd "$folder"
export HOME="$folder" CUDA_VISIBLE_DEVICES="" HF_HUB_OFFLINE=1
cat >probe.py <<'PYTHON'
import asyncio
import importlib.metadata as metadata
import sys

import skyrl_gym
from loguru import logger
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator
from skyrl.train.generators.utils import concatenate_generator_outputs
from skyrl.train.trainer import RayPPOTrainer
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

logger.remove()


class Worded(BaseTextEnv):
    """One turn: the score of a response is that of its word."""

    def __init__(self, env_config=None, extras=None):
        super().__init__()
        self.score = 0.0

    def step(self, action):
        self.score = {"right": 1.0, "half": 0.5, "wrong": 0.0}[action.split()[0]]
        return BaseTextEnvStepOutput(observations=[], reward=self.score, done=True, metadata={})

    def get_metrics(self):
        return dict.fromkeys(("score", "meaning", "minor"), self.score)


class Engine:
    """An engine that answers a prompt with its own words."""

    async def generate(self, input_batch, model=None):
        ids = [list(prompt) for prompt in input_batch["prompt_token_ids"]]
        return {"responses": [tokenizer.decode(row) for row in ids], "response_ids": ids, "stop_reasons": ["stop"] * len(ids), "response_logprobs": [[0.0] * len(row) for row in ids]}

    async def finish_session(self, session_id):
        pass


words = Tokenizer(models.WordLevel({word: number for number, word in enumerate("<end> right half wrong".split())}, unk_token="<end>"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", pad_token="<end>")
tokenizer.chat_template = "{{ messages[0].content }}"
skyrl_gym.register(id="worded", entry_point=Worded)


def config(batched):
    """SkyRL's defaults with the filter, for groups of four, in the one way of its generator or the other."""
    made = SkyRLTrainConfig()
    made.trainer.algorithm.zero_variance_filter = True
    made.generator.n_samples_per_prompt = 4
    made.generator.batched = batched
    made.generator.inference_engine.enable_ray_prometheus_stats = False
    made.trainer.enable_ray_gpu_monitor = False
    return made


def generated(made, answers):
    """What SkyRL's generator makes of a group of answers."""
    generator = SkyRLGymGenerator(made.generator, made.environment.skyrl_gym, Engine(), tokenizer)
    batch = {
        "prompts": [[{"role": "user", "content": answer}] for answer in answers],
        "env_classes": ["worded"] * len(answers),
        "env_extras": [{} for _ in answers],
        "sampling_params": None,
    }
    return asyncio.run(generator.generate(batch, disable_tqdm=True))


def trained_on(batched):
    """How many tokens of each response the loss sees, of four right answers and of a mixed group."""
    made = config(batched)
    output = generated(made, ["right"] * 4 + ["right", "wrong", "wrong", "wrong"])
    trainer = RayPPOTrainer(made, None, tokenizer, None, None, None)
    kind = "token" if isinstance(output["rewards"][0], list) else "response"
    output, _ = trainer.postprocess_generator_output(output, ["equal"] * 4 + ["mixed"] * 4)
    return kind, [sum(mask) for mask in output["loss_masks"]], trainer.all_metrics.get("reward/num_zero_variance_filtered")


for package in ("skyrl", "skyrl-gym", "torch"):
    print(package, metadata.version(package))
found = [trained_on(batched) for batched in (False, True)]
for rewards, tokens, filtered in found:
    print(f"rewards by {rewards}, four right answers and a mixed group: tokens in the loss {tokens}, groups filtered: {filtered}")
together = concatenate_generator_outputs([generated(config(False), [word] * 4) for word in ("right", "half", "wrong")])
metrics = {name: value for name, value in together["rollout_metrics"].items() if name.startswith("environment/")}
print("three groups that score 1, 0.5 and 0, put together:", metrics)
expected = [("token", [1] * 8, None), ("response", [0] * 4 + [1] * 4, 1)]
sys.exit((found, metrics) != (expected, {"environment/score": 1.5, "environment/meaning": 0.5, "environment/minor": 0.0}))
PYTHON
env/bin/python -W ignore probe.py 2>errors || { cat errors; exit 1; }
