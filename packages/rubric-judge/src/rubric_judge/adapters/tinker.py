"""Tinker cookbook: a group builder whose rewards are a rubric's."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Unpack

from rubric_core import RewardShapeError
from rubric_judge.adapters.scoring import MaskingOptions, RubricScorer, Submission

__all__ = ["GroupRewards", "RubricEnvGroupBuilder", "rubric_rewards"]


@dataclass(frozen=True)
class GroupRewards:
    """Scores the trajectories of a group. Can be pickled where the judge is named by a file."""

    scorer: RubricScorer
    renderer: Any
    """Turns the tokens of an action into a message: `parse_response(tokens)[0]`."""

    async def score(
        self, trajectories: Sequence[Any], *, row: dict[str, object]
    ) -> list[tuple[float, dict[str, float]]]:
        """Return reward and metrics of each trajectory.

        One without a judgement gets the mean of the others, which is an advantage of 0 and leaves
        their baseline where it was.
        """
        submissions = [
            Submission(
                row,
                self.renderer.parse_response(trajectory.transitions[-1].ac.tokens)[0],
            )
            for trajectory in trajectories
        ]
        judgements = await self.scorer.judge(submissions)
        rewards = [judgement.reward for judgement in judgements]
        known = [reward for reward in rewards if reward is not None]
        neutral = fmean(known) if known else 0.0
        return [
            (
                neutral if reward is None else reward,
                judgement.metrics | judgement.criteria,
            )
            for reward, judgement in zip(rewards, judgements, strict=True)
        ]


@dataclass(frozen=True)
class RubricEnvGroupBuilder:
    """Any group builder, its environments and its tags, with the rewards of a rubric."""

    builder: Any
    """Makes the environments, whose steps should give no reward of their own."""

    rewards: GroupRewards

    row: dict[str, object]
    """The task of this group: `{"task_id": …}`, or `rubric`, `passage` and `question`."""

    async def make_envs(self) -> Sequence[Any]:
        """Return the builder's environments."""
        return await self.builder.make_envs()

    async def compute_group_rewards(
        self, trajectory_group: list[Any], env_group: Sequence[Any]
    ) -> list[tuple[float, dict[str, float]]]:
        """Judge the group."""
        if len(trajectory_group) != len(env_group):
            raise RewardShapeError(
                f"{len(trajectory_group)} trajectories of {len(env_group)} environments"
            )
        return await self.rewards.score(trajectory_group, row=self.row)

    async def cleanup(self) -> None:
        """Clean up after the builder."""
        await self.builder.cleanup()

    def logging_tags(self) -> list[str]:
        """Return the builder's tags."""
        return self.builder.logging_tags()


def rubric_rewards(
    *,
    renderer: Any,  # a tinker_cookbook renderer
    **options: Unpack[MaskingOptions],
) -> GroupRewards:
    """Return the rewards that the group builders of a data set share.

    Args:
        renderer: the renderer of the policy's chat format.
        options: `judge`, `tasks`, `workers`, `ledger`, `thoughts` and `on_unavailable`, of which
            "mask", the default, gives a trajectory the mean reward of its group.

    Raises:
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    return GroupRewards(RubricScorer(**options), renderer)
