"""What OpenRLHF 0.11.2 cannot run, by our reading and by its own parser."""

import argparse
import ast
import contextlib
import io
import os
from collections.abc import Sequence
from datetime import datetime
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Final, NamedTuple

from rubric_core import MissingExtraError
from rubric_core.configuration import said_where
from rubric_core.files import read_file, toml_beside
from rubric_train_openrlhf import objective as losses
from rubric_train_openrlhf.config.sections import TinyModel
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError

_SEEDS = 2**32
"""numpy and vLLM take seeds below it."""


_THEIRS = (losses.NoImportance, losses.Truncated, losses.IcePop, losses.SeqMaskTruncated)
"""Corrections that OpenRLHF's loss has too."""


_TEXTS: Final[dict[str, str]] = toml_beside(__file__, "refusals.toml")


def check_expressible(config: TrainConfig) -> None:
    """Refuse what would be done in another way than it is written.

    Raises:
        TrainConfigError: names every such key, and what to do.
    """
    last = _SEEDS - config.cluster.engine_count
    if problems := said_where(_problems(config), _TEXTS, run=config, last=last):
        text, location = "; ".join(problems), problems[0].partition("=")[0]
        raise TrainConfigError(f"backend 'openrlhf': {text}", location=location)


def model_path(config: TrainConfig) -> Path:
    """Folder of the policy.

    Raises:
        TrainConfigError: it is not one in a folder, which `check_expressible` refuses too.
        RubricError: the model of an installed package cannot be had.
    """
    if not isinstance(config.model, TinyModel):
        return config.model.folder()
    raise TrainConfigError(f"backend 'openrlhf': {_TEXTS['no_folder']}", location="model.type")


def _problems(config: TrainConfig) -> dict[str, bool]:
    """Of each text that says what cannot be done here, whether it is asked for."""
    deepspeed, last = config.cluster.deepspeed, _SEEDS - config.cluster.engine_count
    sums = config.precision == "bfloat16" and deepspeed.grad_accumulation == "float32"
    objective, importance = config.objective, config.objective.importance
    by_sequence, by_token = objective.ratio == "sequence", objective.aggregation == "token"
    is_leveled = isinstance(importance, losses.Truncated | losses.IcePop)
    # A subclass is another formula, though an instance of the one that it is made of.
    is_clipped, is_theirs = type(objective.surrogate) is losses.Clipped, type(importance) in _THEIRS
    return {
        "no_folder": isinstance(config.model, TinyModel),
        "large_seed": config.seed > last,
        "zero_1": deepspeed.zero_stage == 1 and sums and not deepspeed.offload_optimizer,
        "surrogate": not is_clipped,
        "importance": not is_theirs,
        "by_product": is_leveled and importance.level == "sequence",
        "gspo_importance": by_sequence and importance.type != "none",
        "gspo_token_mean": by_sequence and by_token,
    }


_UNKNOWN = "unrecognized arguments: "

GRPO_PROGRAM: Final = "openrlhf.cli.train_ppo_ray"
SFT_PROGRAM: Final = "openrlhf.cli.train_sft"


class CheckedCommand(NamedTuple):
    """A command that OpenRLHF accepts."""

    args: SimpleNamespace
    """What it would run on, by section: its defaults and corrections included."""
    warnings: tuple[str, ...]
    """Lines that it printed."""


def openrlhf_installed() -> bool:
    """Whether OpenRLHF can be imported here."""
    return find_spec("openrlhf") is not None


def check_command(words: Sequence[str], *, program: str = GRPO_PROGRAM) -> CheckedCommand:
    """Parse a command as OpenRLHF would, with all of its checks.

    Args:
        words: arguments behind the program's name.
        program: whose arguments they are.

    Raises:
        TrainConfigError: it knows no such flag, or the flags do not go together.
        MissingExtraError: OpenRLHF is not installed.
        ImportError: its program is another than in 0.11.2.
    """
    block = compile(_command_block(program), program, "exec")
    names = {"argparse": argparse, "os": os, "datetime": datetime, "words": list(words)}
    refused, printed = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(refused), contextlib.redirect_stdout(printed):
            exec(block, names)  # noqa: S102  # an installed package's own code
    except SystemExit as exit_:
        raise _refused(refused.getvalue(), status=exit_.code) from None
    except AssertionError as error:
        raise TrainConfigError(f"OpenRLHF refuses its command: {error}") from error
    args = names["args"]
    if not isinstance(args, SimpleNamespace):
        raise TypeError(f"OpenRLHF's parser gave {type(args).__name__}, not a namespace")
    lines = (line.strip() for line in printed.getvalue().splitlines())
    return CheckedCommand(args, tuple(line for line in lines if line))


def _refused(printed: str, *, status: object) -> TrainConfigError:
    if not status:
        key = "cluster.extra_flags"
        return TrainConfigError(f"{key}: OpenRLHF prints its help and does nothing", location=key)
    reason = printed.strip().rpartition("error: ")[2]
    unknown = reason.removeprefix(_UNKNOWN)
    if unknown == reason:
        return TrainConfigError(f"OpenRLHF refuses its command: {reason}")
    # Their values stay unsaid: a flag that should carry a key may be a misspelt one.
    names = [word.removeprefix("--") for word in unknown.split() if word.startswith("--")]
    named = ", ".join(f"--{name}" for name in names)
    key = ".".join(["cluster.extra_flags", *names[:1]])
    return TrainConfigError(
        f"cluster.extra_flags: OpenRLHF 0.11.2 has no flag {named}; look for it in `python -m "
        "openrlhf.cli.train_ppo_ray --help`",
        location=key,
    )


def _command_block(program: str) -> ast.Module:
    """What a program of OpenRLHF does as a command, but for the training itself.

    The parser stands under `if __name__ == "__main__"`, where nothing can import it.
    """
    source = _source(program)
    module = ast.parse(read_file(source))
    block = next(node for node in reversed(module.body) if isinstance(node, ast.If))
    body = [node for node in block.body if ast.unparse(node) != "train(args)"]
    if len(body) != len(block.body) - 1:
        raise ImportError(f"{program} does not end in one train(args) as in OpenRLHF 0.11.2")
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
