"""Checks of what OpenRLHF 0.11.2 cannot run, by our reading and by its own parser."""

import argparse
import ast
import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from rubric_core import MissingExtraError
from rubric_core.files import read_file
from rubric_train_openrlhf import objective as losses
from rubric_train_openrlhf.config.sections import TinyModel
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError

_SEEDS = 2**32
"""numpy and vLLM take seeds below it."""


_THEIRS = (
    losses.NoImportance,
    losses.Truncated,
    losses.IcePop,
    losses.SeqMaskTruncated,
)
"""Corrections that OpenRLHF's loss has too."""


_NO_FOLDER = (
    "model.type='tiny' is built by the local backend, for prompts that vLLM cannot read; give "
    "type: path and a folder in Hugging Face format"
)


def check_expressible(config: TrainConfig) -> None:
    """Refuse what would be done in another way than it is written.

    Raises:
        TrainConfigError: names every such key, and what to do.
    """
    problems = list(_problems(config))
    if problems:
        text = "; ".join(problems)
        location = problems[0].partition("=")[0]
        raise TrainConfigError(f"backend 'openrlhf': {text}", location=location)


def model_path(config: TrainConfig) -> Path:
    """Folder of the policy.

    Raises:
        TrainConfigError: it is not one in a folder, which `check_expressible` refuses too.
        RubricError: the model of an installed package cannot be had.
    """
    if not isinstance(config.model, TinyModel):
        return config.model.folder()
    raise TrainConfigError(f"backend 'openrlhf': {_NO_FOLDER}", location="model.type")


def _problems(config: TrainConfig) -> Iterator[str]:
    """Yield what cannot be done here as it is written: `key=value`, why, and what to do."""
    if isinstance(config.model, TinyModel):
        yield _NO_FOLDER
    last = _SEEDS - config.cluster.engine_count
    if config.seed > last:
        yield f"seed={config.seed} must be at most {last}: engine i takes seed + i"
    deepspeed = config.cluster.deepspeed
    sums = config.precision == "bfloat16" and deepspeed.grad_accumulation == "float32"
    if deepspeed.zero_stage == 1 and sums and not deepspeed.offload_optimizer:
        yield (
            "cluster.deepspeed.zero_stage=1 in bfloat16 with grad_accumulation='float32' is "
            "another optimiser of DeepSpeed's, which ends the run at a gradient of zero, as of an "
            "update whose groups are all tied, and cannot move its state aside; use 2, which "
            "splits no less"
        )
    yield from _loss_problems(config.objective)


def _loss_problems(objective: losses.ObjectiveConfig) -> Iterator[str]:
    surrogate = objective.surrogate
    importance = objective.importance
    # A subclass is another formula, though an instance of the one that it is made of.
    if type(surrogate) is not losses.Clipped:
        yield (
            f"objective.surrogate.type={surrogate.type!r}: the loss here is OpenRLHF's own "
            "PolicyLoss, which has the clipped surrogate alone; use type='clipped', or backend: "
            "local"
        )
    if type(importance) not in _THEIRS:
        yield (
            f"objective.importance.type={importance.type!r}: the corrections here are OpenRLHF's "
            "own; use type='none', 'tis', 'icepop' or 'seq_mask_tis', or backend: local"
        )
    is_leveled = isinstance(importance, losses.Truncated | losses.IcePop)
    if is_leveled and importance.level == "sequence":
        yield (
            "objective.importance.level='sequence' weighs by the product over a response, and "
            "OpenRLHF has weights per token only; use level='token' or type='seq_mask_tis'"
        )
    by_sequence = objective.ratio == "sequence"
    if by_sequence and importance.reads_old_logprobs:
        yield (
            f"objective.importance.type={importance.type!r} with ratio='sequence': OpenRLHF's GSPO "
            "then drops the correction and divides by the sampler's probabilities; use type='none'"
        )
    if by_sequence and objective.aggregation == "token":
        yield (
            "objective.aggregation='token' with ratio='sequence': OpenRLHF averages GSPO over "
            "responses always; use aggregation='sequence'"
        )


_UNKNOWN = "unrecognized arguments: "

GRPO_PROGRAM = "openrlhf.cli.train_ppo_ray"
SFT_PROGRAM = "openrlhf.cli.train_sft"


class CheckedCommand(NamedTuple):
    """A command that OpenRLHF accepts."""

    args: SimpleNamespace
    """Arguments that it would run on, by section, with its defaults and corrections."""
    warnings: tuple[str, ...]
    """Lines that it printed."""


def openrlhf_installed() -> bool:
    """Whether OpenRLHF can be imported here."""
    return find_spec("openrlhf") is not None


def check_command(
    words: Sequence[str], *, program: str = GRPO_PROGRAM
) -> CheckedCommand:
    """Parse a command as OpenRLHF would, with all of its checks.

    Args:
        words: arguments after the program's name.
        program: whose arguments they are.

    Raises:
        TrainConfigError: it knows no such flag, or the flags do not go together.
        MissingExtraError: OpenRLHF is not installed.
        ImportError: its program is another than in 0.11.2.
    """
    block = compile(_command_block(program), program, "exec")
    names = {"argparse": argparse, "os": os, "datetime": datetime, "words": list(words)}
    refused = io.StringIO()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(refused), contextlib.redirect_stdout(printed):
            exec(block, names)  # noqa: S102  # an installed package's own code
    except SystemExit as exit_:
        raise _refused(refused.getvalue(), status=exit_.code) from None
    except AssertionError as error:
        raise TrainConfigError(f"OpenRLHF refuses its command: {error}") from error
    args = names["args"]
    if not isinstance(args, SimpleNamespace):
        raise TypeError(
            f"OpenRLHF's parser gave {type(args).__name__}, not a namespace"
        )
    lines = (line.strip() for line in printed.getvalue().splitlines())
    return CheckedCommand(args, tuple(line for line in lines if line))


def _refused(printed: str, *, status: object) -> TrainConfigError:
    if not status:
        key = "cluster.extra_flags"
        return TrainConfigError(
            f"{key}: OpenRLHF prints its help and does nothing", location=key
        )
    reason = printed.strip().rpartition("error: ")[2]
    unknown = reason.removeprefix(_UNKNOWN)
    if unknown == reason:
        return TrainConfigError(f"OpenRLHF refuses its command: {reason}")
    # Their values stay unsaid: a flag that should carry a key may be a misspelt one.
    names = [
        word.removeprefix("--") for word in unknown.split() if word.startswith("--")
    ]
    named = ", ".join(f"--{name}" for name in names)
    key = ".".join(["cluster.extra_flags", *names[:1]])
    return TrainConfigError(
        f"cluster.extra_flags: OpenRLHF 0.11.2 has no flag {named}; look for it in `python -m "
        "openrlhf.cli.train_ppo_ray --help`",
        location=key,
    )


def _command_block(program: str) -> ast.Module:
    """Return what a program of OpenRLHF does as a command, without the training itself.

    The parser stands under `if __name__ == "__main__"`, where nothing can import it.
    """
    source = _source(program)
    module = ast.parse(read_file(source))
    block = next(node for node in reversed(module.body) if isinstance(node, ast.If))
    body = [node for node in block.body if ast.unparse(node) != "train(args)"]
    if len(body) != len(block.body) - 1:
        raise ImportError(
            f"{program} does not end in one train(args) as in OpenRLHF 0.11.2"
        )
    for node in ast.walk(block):
        if isinstance(node, ast.Call) and ast.unparse(node) == "parser.parse_args()":
            node.args.append(ast.Name("words", ast.Load()))
    return ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))


def _source(program: str) -> Path:
    # On disk: a package of this name that is loaded may be a part of it.
    spec = PathFinder.find_spec("openrlhf")
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            "OpenRLHF is not installed; `uv sync --extra openrlhf` brings it, or `--extra "
            "openrlhf-cpu` where there is no GPU"
        )
    # By path: looking the module up by its name would import the packages around it.
    return Path(spec.origin).parent.joinpath(*program.split(".")[1:]).with_suffix(".py")
