"""One process of the warm start: `python -m … DEVICE MODULE FLAGS…` runs a module of OpenRLHF.

On a CPU with what OpenRLHF assumes of a GPU replaced; the module itself is the one installed.
"""

import os
import runpy
import signal
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from rubric_core.data.end_tokens import end_tokens
from rubric_train_openrlhf.cluster import cpu, orphans


def main() -> None:
    """Run the module with the flags after it; end with what started this, which a stop kills."""
    orphans.end_with(os.getppid(), by=signal.SIGKILL)
    device, module, *_ = sys.argv[1:]
    if device == "cpu":
        cpu.install()
    _train_on_written_ends()
    sys.argv[:3] = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _train_on_written_ends() -> None:
    """Have answers end as the chat template ends them: OpenRLHF puts the tokenizer's end there."""
    from openrlhf import utils

    utils.get_tokenizer = repaired(utils.get_tokenizer)


def repaired(load: Callable[..., Any]) -> Callable[..., Any]:
    """Make a loader of tokenizers give those whose end token is the one to train on."""

    @wraps(load)
    def load_repaired(*args: Any, **options: Any) -> Any:
        tokenizer = load(*args, **options)
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(
            end_tokens(tokenizer).ids[0]
        )
        return tokenizer

    return load_repaired


if __name__ == "__main__":
    main()
