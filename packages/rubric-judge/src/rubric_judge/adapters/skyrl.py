"""SkyRL: a single-turn text environment, which `skyrl_gym.register` finds by name.

`RubricEnv` is bound to the stack when it is first asked for, so it is not in `__all__`. SkyRL has
no way to leave a trajectory out: an unavailable judgement is 0, or ends the training.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from rubric_core.reward import turns
from rubric_judge.adapters import rows, scoring
from rubric_judge.adapters.ties import tied_reward

__all__ = ["env_class", "turn_rewards"]


class _RubricEnv:
    """One turn, judged against the rubric of its row.

    The settings are the `kwargs` of `register`, or the environment's section of the trainer's
    configuration. A row names its task in `task_id` or in `reward_spec.ground_truth`, or has
    `rubric`, `passage` and `question` in `extra_info` or as columns.
    """

    def __init__(
        self,
        env_config: Mapping[str, object] | None = None,
        extras: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        super().__init__()  # of the stack's class
        merged = {**settings, **(env_config or {})}
        self._scorer = scoring.shared_scorer(
            "skyrl_gym environment",
            True,  # noqa: FBT003  # can log
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
        return {
            "observations": [],
            "reward": judgement.reward,
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
