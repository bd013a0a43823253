"""Stacks that are given a file of Python: TRL, verl, SkyRL, slime and miles, inspect_ai."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath

from rubric_synth.export.environment import Environment, File, Target
from rubric_synth.export.package import template


def _files(file: str, environment: Environment) -> Iterator[File]:
    yield File(PurePosixPath(file), template(f"{file}.j2", {"e": environment}))


def _target(name: str, stack: str, command: str) -> Target:
    file = f"with_{name.replace('-', '_')}.py"
    usage = f"```bash\n{command}\n```"
    files = partial(_files, file)
    return Target(name, stack, files, usage=usage, is_trainer=name != "inspect-ai")


TARGETS = (
    _target(
        "trl",
        "trl==1.16.0",
        "python with_trl.py --model_name_or_path MODEL --output_dir runs/trl --num_generations 8",
    ),
    _target(
        "verl",
        "verl==0.9.1",
        "python with_verl.py actor_rollout_ref.model.path=MODEL trainer.n_gpus_per_node=8",
    ),
    _target(
        "skyrl",
        "skyrl==0.3.0",
        "python with_skyrl.py trainer.policy.model.path=MODEL \\\n"
        "    trainer.placement.policy_num_gpus_per_node=8 generator.inference_engine.num_engines=8",
    ),
    _target(
        "slime",
        "slime 624b824, miles 31f1ca9",
        'PYTHONPATH=MEGATRON python with_slime.py "${{MODEL_ARGS[@]}}" \\\n'
        "    --hf-checkpoint MODEL --ref-load MODEL_torch_dist",
    ),
    _target(
        "inspect-ai",
        "inspect-ai==0.3.285",
        "inspect eval with_inspect_ai.py --model MODEL",
    ),
)
"""The targets; `usage` of each is the command that starts its file."""
