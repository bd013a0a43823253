"""OpenEnv: a `Rubric` module for an environment.

`RubricModule` is bound to the stack when it is first asked for, so it is not in `__all__`.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Unpack, cast

from rubric_core import ConfigError
from rubric_judge.adapters import scoring

__all__ = ["module_class"]


class _RubricModule:
    """Judges an action against the rubric of its task.

    The observation's `metadata` names the task (`task_id`) or holds `rubric`, `passage` and
    `question`. `last_metrics` holds the metrics of the last judgement.
    """

    def __init__(
        self,
        *,
        response_field: str = "message",
        **options: Unpack[scoring.MaskingOptions],
    ) -> None:
        """Read the configuration; nothing is called.

        Args:
            response_field: the action's field with the response; an action that is a text, is
                the response.
            options: `judge`, `tasks`, `workers`, `ledger`, `thoughts` and `on_unavailable`, of
                which "mask", the default, gives the reward None.

        Raises:
            ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
        """
        super().__init__()  # of the stack's class
        self._scorer = scoring.RubricScorer(**options)
        self._response_field = response_field
        self.last_metrics: dict[str, float] = {}

    async def forward(self, action: object, observation: Any) -> float | None:
        """Judge; the environment awaits it through `_apply_rubric_async`."""
        self.last_metrics = {}
        row = cast("Mapping[str, object]", observation.metadata)
        (judgement,) = await self._scorer.judge(
            [scoring.Submission(row, self._response(action))]
        )
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
    base = scoring.stack_module("openenv.core.rubrics", install="openenv-core").Rubric
    names = {"__module__": __name__, "__doc__": _RubricModule.__doc__}
    return type("RubricModule", (_RubricModule, base), names)


def __getattr__(name: str) -> type[Any]:
    if name == "RubricModule":
        return module_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
