"""SkyRL: a single-turn text environment, which `skyrl_gym.register` finds by name.

`RubricEnv` is bound to the stack when it is first asked for, so it is not in `__all__`. SkyRL has
no way of its own to leave a trajectory out: `skyrl_advantages.register` gives it one. Without it an
unavailable judgement is 0, or ends the training.
"""

import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from rubric_core import ConfigError
from rubric_core.reward import turns
from rubric_judge.adapters import rows, scoring
from rubric_judge.adapters.advantages import is_hooked
from rubric_judge.adapters.ties import tied_reward

__all__ = ["env_class", "turn_rewards"]

TRAINER = "skyrl.train.trainer"
HOOKED = ("convert_to_training_input", "compute_advantages_and_returns")
"""Module of SkyRL's trainer, and its methods that `skyrl_advantages.register` wraps."""
LEFT_OUT = "rubric/left_out"
"""Metric of an episode that a trainer is to leave out: 1 where there is no judgement."""
leaves_out = threading.Event()
"""Set once an environment of this process has promised to leave such episodes out."""


class _RubricEnv:
    """One turn, judged against the rubric of its row.

    The settings are the `kwargs` of `register`, or the environment's section of the trainer's
    configuration. A row names its task in `task_id` or in `reward_spec.ground_truth`, or has
    `rubric`, `passage` and `question` in `extra_info` or as columns. `on_unavailable` is "mask"
    unless set, where `skyrl_advantages.register` was called, else "zero".
    """

    def __init__(
        self,
        env_config: Mapping[str, object] | None = None,
        extras: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        super().__init__()  # of the stack's class
        merged = {**settings, **(env_config or {})}
        maskable = _trainer_leaves_out()
        policy = merged.setdefault("on_unavailable", "mask" if maskable else "zero")
        if policy == "mask" and not maskable:
            raise ConfigError(
                "on_unavailable='mask': SkyRL cannot leave an episode out by itself: call "
                "rubric_judge.adapters.skyrl_advantages.register() in the process of the trainer, "
                "or set 'zero' or 'raise'",
                location="on_unavailable",
            )
        self._masks = policy == "mask"
        if self._masks:
            leaves_out.set()
        self._scorer = scoring.shared_scorer(
            "skyrl_gym environment",
            True,  # noqa: FBT003  # can log
            maskable,
            **merged,
        )
        self._row = _row(extras or {})
        self._prompt: object = ""
        self._metrics: dict[str, float | str] = {}

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:  # messages
        """Keep the prompt: it is the question of a row without one."""
        self._prompt = prompt
        return prompt, {}

    def step(self, action: str) -> dict[str, Any]:
        """Judge the response."""
        submission = scoring.Submission(self._row, action, self._prompt)
        (judgement,) = self._scorer.judge_from_thread([submission])
        numbers = judgement.metrics | judgement.criteria
        self._metrics = {**numbers, **judgement.log_entry}
        if self._masks:
            self._metrics[LEFT_OUT] = float(judgement.unavailable)
        return {
            "observations": [],
            "reward": judgement.reward or 0.0,
            "done": True,
            "metadata": dict(self._metrics),
        }

    def get_metrics(self) -> dict[str, Any]:
        """Return the metrics of the episode; SkyRL averages the numbers among them."""
        return dict(self._metrics)


def turn_rewards(judgement: scoring.Judgement, loss_mask: Sequence[int]) -> list[float]:
    """Return a reward for each token of a trajectory, as a generator of SkyRL hands them over.

    What a criterion earns that names a turn stands at the last token of that turn, the rest at the
    end: the list for `generator_output["rewards"]`, of which `examples/train/turn_level_rewards`
    makes one.

    Args:
        judgement: of `RubricScorer.judge` for a submission with its `trace`.
        loss_mask: 1 for tokens of the policy; each run of them is a turn.

    Raises:
        UnavailableRewardError: there is no judgement.
        RewardError: the mask holds no turn.
    """
    count = len(turns.ends_of_turns(loss_mask))
    rewards = turns.turn_rewards(judgement.result, judgement.view.rubric, count)
    # In a trainer's bits, so that equal sums are equal: the last turn has what is left of them.
    rewards = [tied_reward(reward) for reward in rewards]
    rewards[-1] = (judgement.reward or 0.0) - sum(rewards[:-1])
    return turns.rewards_at_ends(rewards, loss_mask)


@cache
def env_class() -> type[Any]:
    """Return the environment: `rubric_judge.adapters.skyrl:RubricEnv` to the registry.

    Raises:
        MissingExtraError: skyrl-gym is not installed.
    """
    base = scoring.stack_module(
        "skyrl_gym.envs.base_text_env", install="skyrl-gym"
    ).BaseTextEnv
    names = {"__module__": __name__, "__doc__": _RubricEnv.__doc__}
    return type("RubricEnv", (_RubricEnv, base), names)


def _trainer_leaves_out() -> bool:
    """Whether the trainer of this process has the hooks of `skyrl_advantages.register`."""
    trainer = getattr(sys.modules.get(TRAINER), "RayPPOTrainer", None)
    return all(is_hooked(getattr(trainer, method, None)) for method in HOOKED)


def _row(extras: Mapping[str, object]) -> Mapping[str, object]:
    truth = cast("Mapping[str, object]", extras.get("reward_spec") or {}).get(
        "ground_truth"
    )
    info = cast("Mapping[str, object]", extras.get("extra_info") or {})
    return rows.joined_row(truth, {**info, **extras})


def __getattr__(name: str) -> type[Any]:
    if name == "RubricEnv":
        return env_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
