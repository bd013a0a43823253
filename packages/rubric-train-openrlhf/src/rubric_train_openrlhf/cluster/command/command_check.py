"""Does OpenRLHF itself accept a command? Asked of its own parser and checks; nothing is started."""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal, NamedTuple

from rubric_core import MissingExtraError
from rubric_core.files import read_file
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNKNOWN = "unrecognized arguments: "

Program = Literal["openrlhf.cli.train_ppo_ray", "openrlhf.cli.train_sft"]


class CheckedCommand(NamedTuple):
    """A command that OpenRLHF accepts."""

    args: SimpleNamespace
    """What it would run on, by section: its defaults and corrections included."""
    warnings: tuple[str, ...]
    """Lines that it printed."""


def openrlhf_installed() -> bool:
    """Whether OpenRLHF can be imported here."""
    return find_spec("openrlhf") is not None


def check_command(
    words: Sequence[str], *, program: Program = "openrlhf.cli.train_ppo_ray"
) -> CheckedCommand:
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
    return TrainConfigError(
        f"cluster.extra_flags: OpenRLHF 0.11.2 has no flag {named}; look for it in "
        "`python -m openrlhf.cli.train_ppo_ray --help`",
        location=".".join(["cluster.extra_flags", *names[:1]]),
    )


def _command_block(program: Program) -> ast.Module:
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


def _source(program: Program) -> Path:
    spec = find_spec("openrlhf")
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            "OpenRLHF is not installed; `uv sync --extra openrlhf` brings it, or `--extra "
            "openrlhf-cpu` where there is no GPU"
        )
    # By path: looking the module up by its name would import the packages around it.
    return Path(spec.origin).parent.joinpath(*program.split(".")[1:]).with_suffix(".py")
