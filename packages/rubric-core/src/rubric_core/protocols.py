"""What a third party implements to add a judge or a trainer; see `rubric_core.plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rubric_core.result import JudgeResult
    from rubric_core.views import JudgeView


@runtime_checkable
class Judge(Protocol):
    """Scores responses against rubrics."""

    @property
    def name(self) -> str:
        """Identifies the judge and its version in results and reports."""
        ...

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Score one response.

        Never raises for what a model, a network or a response does: that is an `invalid` or
        `unavailable` result. Cancellation passes through.
        """
        ...


class JudgeFactory(Protocol):
    """Makes a judge from the options of a configuration file; the target of an entry point."""

    def __call__(self, options: Mapping[str, object], /) -> Judge:
        """Make the judge, or raise ConfigError for options that do not fit."""
        ...


@runtime_checkable
class TrainerBackend(Protocol):
    """Trains a policy from a configuration."""

    @property
    def name(self) -> str:
        """Identifies the backend in configurations and run folders."""
        ...

    def plan(self, config: Mapping[str, object]) -> str:
        """Return what `run` would do, in full, without a GPU and without doing it."""
        ...

    def run(self, config: Mapping[str, object], *, resume: bool = False) -> Path:
        """Train, and return the run folder; `resume` continues one that was cut off."""
        ...
