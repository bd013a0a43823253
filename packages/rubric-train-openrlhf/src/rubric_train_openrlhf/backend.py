"""The two backends as other packages find them: entry points `rubric.trainers`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rubric_train_openrlhf.cluster.launching.launch import launch
from rubric_train_openrlhf.config.loading import parse_config
from rubric_train_openrlhf.report.page import write_report


class LocalBackend:
    """Algorithm 1 in one process, on a CPU or one GPU."""

    name = "local"

    def plan(self, config: Mapping[str, object]) -> str:
        """Describe the run: resolved configuration, steps and memory; nothing is started."""
        from rubric_train_openrlhf.local.plan import describe_plan

        return describe_plan(parse_config(config), full=True)

    def run(self, config: Mapping[str, object], *, resume: bool = False) -> Path:
        """Train, write the report, and return the run folder."""
        from rubric_train_openrlhf.local.start import run_grpo

        parsed = parse_config(config)
        run_grpo(parsed, resume=resume)
        write_report(parsed.out)
        return parsed.out


class OpenRLHFBackend:
    """Algorithm 1 through OpenRLHF: Ray, DeepSpeed and vLLM, on one machine or many."""

    name = "openrlhf"

    def plan(self, config: Mapping[str, object]) -> str:
        """Describe the run: resolved configuration, command, layout and sizes; starts nothing."""
        from rubric_train_openrlhf.cluster.planning.plan import describe_plan

        return describe_plan(parse_config(config), full=True)

    def run(self, config: Mapping[str, object], *, resume: bool = False) -> Path:
        """Train, write the report, and return the run folder."""
        parsed = parse_config(config)
        launch(parsed, resume=resume)
        write_report(parsed.out)
        return parsed.out
