"""NeMo-RL: an environment, which the registry finds by name.

`RubricEnvironment` is bound to the stack when it is first asked for, so it is not in `__all__`.
NeMo-RL has no way to leave a sample out: an unavailable judgement is 0, or ends the training.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from rubric_core import Thoughts, opens_thought
from rubric_core.traces.messages import text_of
from rubric_judge.adapters.scoring import (
    Judgement,
    Submission,
    shared_scorer,
    stack_module,
)

__all__ = ["environment_class", "register"]

_INSTALL = "nemo-rl (from its repository)"
_ACTOR = f"{__name__}.RubricEnvironment"


def register(name: str = "rubric") -> None:
    """Make `env.<name>` of a NeMo-RL configuration a rubric environment.

    Its settings are `judge` and `tasks` (files), `workers`, `thoughts` and `on_unavailable`
    ("zero", "raise").
    Each sample's `extra_env_info` names its `task_id`, or holds `rubric` and `passage`.

    Raises:
        MissingExtraError: NeMo-RL is not installed.
        ValueError: the name is taken.
    """
    actors = stack_module(
        "nemo_rl.distributed.ray_actor_environment_registry", install=_INSTALL
    )
    environments = stack_module("nemo_rl.environments.utils", install=_INSTALL)
    system = stack_module("nemo_rl.distributed.virtual_cluster", install=_INSTALL)
    environments.register_env(name, _ACTOR)
    actors.ACTOR_ENVIRONMENT_REGISTRY[_ACTOR] = system.PY_EXECUTABLES.SYSTEM


@cache
def environment_class() -> type[Any]:
    """Return the environment as a plain class; `RubricEnvironment` is the Ray actor of it.

    Raises:
        MissingExtraError: NeMo-RL or torch is not installed.
    """
    interfaces = stack_module("nemo_rl.environments.interfaces", install=_INSTALL)
    torch = stack_module("torch", install=_INSTALL)

    class RubricEnvironment(interfaces.EnvironmentInterface):
        """One turn, judged against the rubric of its task."""

        def __init__(self, cfg: Mapping[str, object]) -> None:
            self._scorer = shared_scorer("env", **cfg)
            self._unreported: list[Judgement] = []

        def step(
            self,
            message_log_batch: Sequence[Sequence[Mapping[str, object]]],
            metadata: Sequence[Mapping[str, object]],
        ) -> Any:  # the stack's EnvironmentReturn
            """Judge the last assistant message of every log."""
            submissions: list[Submission] = []
            for log, row in zip(message_log_batch, metadata, strict=True):
                opened = _opened(log, self._scorer.thoughts)
                submissions.append(Submission(row, log, log, opened=opened))
            judgements = self._scorer.judge_from_thread(submissions)
            self._unreported += judgements
            count = len(judgements)
            return interfaces.EnvironmentReturn(
                observations=[
                    {"role": "environment", "content": ""} for _ in range(count)
                ],
                metadata=list(metadata),
                next_stop_strings=[None] * count,
                rewards=torch.tensor(
                    [judgement.reward for judgement in judgements], dtype=torch.float32
                ),
                terminateds=torch.ones(count, dtype=torch.bool),
                answers=[judgement.view.response for judgement in judgements],
            )

        def global_post_process_and_metrics(
            self, batch: object
        ) -> tuple[object, dict[str, float]]:
            """Return the batch unchanged, and mean metrics of judgements since the last call."""
            rows = [judgement.metrics for judgement in self._unreported]
            self._unreported = []
            names = rows[0] if rows else ()
            return batch, {name: fmean(row[name] for row in rows) for name in names}

    RubricEnvironment.__qualname__ = "RubricEnvironment"
    return RubricEnvironment


def _opened(log: Sequence[Mapping[str, object]], thoughts: Thoughts) -> bool:
    """Whether the prompt opened a thought; the message before the policy's is the whole prompt."""
    *asked, _ = log
    return bool(asked) and opens_thought(text_of(asked[-1], role="user"), thoughts)


@cache
def _actor_class() -> Any:  # a Ray actor class
    ray = stack_module("ray", install=_INSTALL)
    # NeMo-RL calls `step` from many rollouts at once; each call waits in a thread of its own.
    remote = ray.remote(
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=1000,
    )
    return remote(environment_class())


def __getattr__(name: str) -> Any:
    if name == "RubricEnvironment":
        return _actor_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
