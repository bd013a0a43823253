"""OpenEnv: a `Rubric` module for an environment.

`RubricModule` is bound to the stack when it is first asked for, so it is not in `__all__`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from rubric_core import ConfigError, Judge
from rubric_core.reward.projection import OnUnavailable
from rubric_judge.adapters.rows import Tasks
from rubric_judge.adapters.scoring import RubricScorer, Submission
from rubric_judge.adapters.stacks import stack_module
from rubric_judge.config import JudgeSpec

__all__ = ["module_class"]


class _RubricModule:
    """Judges an action against the rubric of its task.

    The observation's `metadata` names the task (`task_id`) or holds `rubric`, `passage` and
    `question`. `last_metrics` holds the metrics of the last judgement.
    """

    def __init__(
        self,
        *,
        judge: Judge | JudgeSpec | Path | str,
        tasks: Tasks = None,
        response_field: str = "message",
        workers: int = 32,
        on_unavailable: OnUnavailable = "mask",
        ledger: Path | str | None = None,
    ) -> None:
        """Read the configuration; nothing is called.

        Args:
            judge: a judge, its configuration, or the YAML file with it.
            tasks: the tasks that ids name, or their file.
            response_field: the action's field with the response; an action that is a text, is
                the response.
            workers: judge workers of this process; each holds up to four responses.
            on_unavailable: "mask" gives the reward None.
            ledger: file that keeps every judgement, for `rubric-judge rejudge` and the books.

        Raises:
            ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
        """
        super().__init__()  # of the stack's class
        self._scorer = RubricScorer(
            judge=judge,
            tasks=tasks,
            workers=workers,
            on_unavailable=on_unavailable,
            ledger=ledger,
        )
        self._response_field = response_field
        self.last_metrics: dict[str, float] = {}

    async def forward(self, action: object, observation: Any) -> float | None:
        """Judge; the environment awaits it through `_apply_rubric_async`."""
        row = cast("Mapping[str, object]", observation.metadata)
        (judgement,) = await self._scorer.judge([Submission(row, self._response(action))])
        self.last_metrics = judgement.metrics | judgement.criteria
        return judgement.reward

    def _response(self, action: object) -> object:
        if isinstance(action, str):
            return action
        if not hasattr(action, self._response_field):
            raise ConfigError(
                f"{type(action).__name__} has no field {self._response_field!r}: name the one "
                "with the response as `response_field`",
                location="response_field",
            )
        return getattr(action, self._response_field)


@cache
def module_class() -> type[Any]:
    """Return the class that `RubricModule` names.

    Raises:
        MissingExtraError: openenv-core is not installed.
    """
    base = stack_module("openenv.core.rubrics", install="openenv-core").Rubric
    names = {"__module__": __name__, "__doc__": _RubricModule.__doc__}
    return type("RubricModule", (_RubricModule, base), names)


def __getattr__(name: str) -> type[Any]:
    if name == "RubricModule":
        return module_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
