"""Advantages as rubric_core computes them, in the shape that OpenRLHF trains on.

    A_t = A_pg · m_t        one advantage for all tokens of a response; m_t = 0 where it is masked

OpenRLHF's own reward arithmetic, penalties and normalisations are not run.
"""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUntypedBaseClass=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# OpenRLHF and torch are typed in part or not at all.
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

from rubric_train_openrlhf.cluster.training.trained import update_order
from rubric_train_openrlhf.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    import numpy.typing as npt
    from openrlhf.trainer.ppo_utils.experience import Experience

    from rubric_train_openrlhf.cluster.sampling.groups import Group
    from rubric_train_openrlhf.cluster.training.trained import Shares
    from rubric_train_openrlhf.step.credit import StepCredit

    class Crediting(Protocol):
        """The judge's side, as far as advantages ask it."""

        def credit(self, step: int, groups: Sequence[Group]) -> StepCredit:
            """Divide the credit of a step."""
            ...


@dataclass(frozen=True)
class Experiences:
    """What a step is trained on."""

    batches: list[Experience]
    credit: StepCredit
    sampler_gap: float
    """Mean |log π_engine − log π_policy| of the tokens trained on, nats."""


class RubricExperienceMaker(RemoteExperienceMaker):
    """Turns groups into tensors with log-probabilities and advantages."""

    _step: int
    _groups: Sequence[Group]
    _credit: StepCredit
    _gap: _Gap

    def __init__(
        self,
        *parts: Any,
        judge_side: Crediting,
        shares: Shares,
        ratio_to_sampler: bool,
    ) -> None:
        """Take OpenRLHF's parts, and what is ours.

        Args:
            parts: groups of actors, KL controller, strategy and tokenizer.
            judge_side: divides the credit.
            shares: how the responses are divided.
            ratio_to_sampler: take the ratio of the loss to the probability that the engine drew a
                token with, not to the policy's own before the update.
        """
        super().__init__(*parts)
        self._judge_side = judge_side
        self._shares = shares
        self._ratio_to_sampler = ratio_to_sampler

    def make_step(self, step: int, groups: Sequence[Group]) -> Experiences:
        """Compute log-probabilities and advantages of P groups of G responses.

        Args:
            step: number of the step.
            groups: in the order of their prompts.

        Raises:
            JudgeAbortError: too many judgements failed.
        """
        self._step, self._groups, self._gap = step, groups, _Gap()
        rows = [sample.experience for group in groups for sample in group.samples]
        batches = self.make_experience_batch(rows)
        return Experiences(batches, self._credit, self._gap.mean)

    def split_rollout_samples(self, rollout_samples: list[Experience]) -> list[Experience]:
        """Cut the responses into passes; `index` keeps which row of the step each one is."""
        order = update_order(len(rollout_samples), self._shares)
        passes = super().split_rollout_samples([rollout_samples[row] for row in order])
        for one in passes:
            one.index = [order[place] for place in one.index]
        return passes

    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        """Give each response its advantage, and masked ones no token that counts."""
        rows = [row for experience in experiences for row in experience.index]
        size = sum(len(group.samples) for group in self._groups)
        if sorted(rows) != list(range(size)):
            raise ClusterError(
                f"step {self._step}: OpenRLHF returned {len(rows)} responses, and not each of "
                f"{size} once; advantages would go to the wrong ones"
            )
        credit = self._judge_side.credit(self._step, self._groups)
        self._credit = credit
        advantages_B = credit.advantages_PG.reshape(-1)
        valid_B = credit.valid_PG.reshape(-1)
        rewards_B = np.nan_to_num(credit.shaped_PG.reshape(-1), nan=0.0)
        for experience in experiences:
            self._fill(
                experience,
                advantages_B=advantages_B[experience.index],
                valid_B=valid_B[experience.index],
                rewards_B=rewards_B[experience.index],
            )
        return experiences

    def _fill(
        self,
        experience: Experience,
        *,
        advantages_B: npt.NDArray[np.float64],
        valid_B: npt.NDArray[np.bool_],
        rewards_B: npt.NDArray[np.float64],
    ) -> None:
        mask_BT = experience.action_mask * torch.from_numpy(valid_B)[:, None].to(
            experience.action_mask
        )
        advantages_BT = torch.from_numpy(advantages_B).to(torch.float32)[:, None] * mask_BT
        experience.action_mask = mask_BT
        experience.advantages = advantages_BT
        experience.returns = advantages_BT.clone()
        experience.rewards = torch.from_numpy(rewards_B).to(torch.float32)
        experience.scores = None
        experience.kl = None
        self._gap.add(experience)
        if self._ratio_to_sampler:
            experience.action_log_probs = experience.rollout_log_probs * mask_BT
        # What is left here becomes a mean over all responses in OpenRLHF's log, masked ones too.
        experience.info = {}


class _Gap:
    """Sums |log π_engine − log π_policy| over tokens."""

    def __init__(self) -> None:
        self._total = 0.0
        self._tokens = 0.0

    def add(self, experience: Experience) -> None:
        mask_BT = experience.action_mask.bool()
        gap_BT = experience.rollout_log_probs.float() - experience.action_log_probs.float()
        self._total += float(gap_BT[mask_BT].abs().double().sum())
        self._tokens += float(mask_BT.sum())

    @property
    def mean(self) -> float:
        return self._total / max(self._tokens, 1.0)
