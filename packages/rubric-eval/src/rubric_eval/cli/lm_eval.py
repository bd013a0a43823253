"""`rubric-eval lm-eval …`: lm-eval's own command line, with our tasks found and its cache keyed."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter

from rubric_eval.cli.app import working

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
    with working() as progress, progress.phase("loading lm-eval"):
        from rubric_eval.transfer.building import harness  # noqa: PLC0415
        from rubric_eval.transfer.pass_through import run_lm_eval  # noqa: PLC0415

        # Half a minute on a cold disk; from then on lm-eval tells of its work itself.
        harness("lm_eval.__main__")
    return run_lm_eval(arguments, say=lambda text: print(text, file=sys.stderr))
