"""`rubric-eval lm-eval …`: lm-eval's own command line, with our tasks found and its cache keyed."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter

lm_eval = App(
    name="lm-eval",
    help="Run lm-eval with our tasks: every argument is lm-eval's own.",
    help_flags=(),
    version_flags=(),
)


@lm_eval.default
def run(
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
) -> int:
    """Run lm-eval with our tasks found; a `--use_cache` is kept apart for each model.

    Example: rubric-eval lm-eval run --tasks rubric_gsm8k --metadata data=bench --model hf …

    Args:
        arguments: lm-eval's.

    Returns:
        Exit status.
    """
    from rubric_eval.transfer.pass_through import run_lm_eval  # noqa: PLC0415

    return run_lm_eval(arguments, say=lambda text: print(text, file=sys.stderr))
