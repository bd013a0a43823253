"""The `local` backend as other packages find it: entry point `rubric.trainers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_train_openrlhf.config import parse_config
from rubric_train_openrlhf.local import run_grpo
from rubric_train_openrlhf.local.plan import describe_plan
from rubric_train_openrlhf.report import write_report

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class LocalBackend:
    """Algorithm 1 in one process, on a CPU or one GPU."""

    name = "local"

    def plan(self, config: Mapping[str, object]) -> str:
        """Describe the run: resolved configuration, steps and memory; nothing is started."""
        return describe_plan(parse_config(config))

    def run(self, config: Mapping[str, object], *, resume: bool = False) -> Path:
        """Train, write the report, and return the run folder."""
        parsed = parse_config(config)
        run_grpo(parsed, resume=resume)
        write_report(parsed.out)
        return parsed.out
