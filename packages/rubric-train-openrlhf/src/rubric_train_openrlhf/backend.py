"""The two backends: what runs a configuration. Other packages find them under `rubric.trainers`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rubric_train_openrlhf.config.train import TrainConfig, parse_config

if TYPE_CHECKING:
    from rubric_judge.ui.console.progress import Progress
    from rubric_train_openrlhf.run.records import RunSummary


def describe_plan(config: TrainConfig, *, full: bool = False) -> str:
    """Describe a run, as the backend that its configuration names does; nothing is started.

    Args:
        config: of the run.
        full: with the resolved configuration, and what the sizes are made of.
    """
    # Neither has a use for what the other imports.
    if config.backend == "openrlhf":
        from rubric_train_openrlhf.cluster.planning import plan
    else:
        from rubric_train_openrlhf.local import plan
    return plan.describe_plan(config, full=full)


def train(
    config: TrainConfig, *, resume: bool = False, progress: Progress | None = None
) -> RunSummary:
    """Train by the backend that a configuration names.

    Args:
        config: of the run.
        resume: go on from the last checkpoint in `config.out`.
        progress: told of every phase; nothing is shown if left out.
    """
    if config.backend == "openrlhf":
        from rubric_train_openrlhf.cluster.launching.launch import launch as run
    else:
        from rubric_train_openrlhf.local.start import run_grpo as run
    return run(config, resume=resume, progress=progress)


class _Backend:
    name: str

    def plan(self, config: Mapping[str, object]) -> str:
        """Describe the run, its resolved configuration included; nothing is started."""
        return describe_plan(self._parsed(config), full=True)

    def run(self, config: Mapping[str, object], *, resume: bool = False) -> Path:
        """Train, write the report, and return the run folder."""
        from rubric_train_openrlhf.report.page import write_report

        parsed = self._parsed(config)
        train(parsed, resume=resume)
        write_report(parsed.out)
        return parsed.out

    def _parsed(self, config: Mapping[str, object]) -> TrainConfig:
        return parse_config({**config, "backend": self.name})


class LocalBackend(_Backend):
    """Algorithm 1 in one process, on a CPU or one GPU."""

    name = "local"


class OpenRLHFBackend(_Backend):
    """Algorithm 1 through OpenRLHF: Ray, DeepSpeed and vLLM, on one machine or many."""

    name = "openrlhf"
