"""Advantages as rubric_core computes them, in the shape that OpenRLHF trains on.

    A_t = A_pg · m_t        one advantage for all tokens of a response; m_t = 0 where it is masked

OpenRLHF's own reward arithmetic, penalties and normalisations are not run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

from rubric_train_openrlhf.cluster.sampling import samples
from rubric_train_openrlhf.cluster.sampling.judge_calls import CoordinatorClient
from rubric_train_openrlhf.cluster.training.trained import Shares, update_order
from rubric_train_openrlhf.errors import ClusterError
from rubric_train_openrlhf.step.agreement import Agreement, Tolerance
from rubric_train_openrlhf.step.credit import StepCredit


@dataclass(frozen=True)
class Experiences:
    """The data that a step is trained on."""

    batches: list[Experience]
    credit: StepCredit
    sampler_gap: float
    """Mean |log π_engine − log π_policy| of the tokens trained on, nats."""


class RubricExperienceMaker(RemoteExperienceMaker):
    """Turns groups into tensors with log-probabilities and advantages."""

    _step: int
    _groups: Sequence[samples.Group]
    _credit: StepCredit
    _check: Agreement | None = None
    _gaps: list[torch.Tensor]
    """|log π_engine − log π_policy| of each token trained on."""

    def __init__(
        self,
        *parts: Any,
        coordinator: CoordinatorClient,
        shares: Shares,
        ratio_to_sampler: bool,
        precision: str,
    ) -> None:
        """Take OpenRLHF's parts, and what is ours.

        Args:
            parts: groups of actors, KL controller, strategy and tokenizer.
            coordinator: divides the credit.
            shares: how the responses are divided.
            ratio_to_sampler: take the ratio of the loss to the probability that the engine drew a
                token with, not to the policy's own before the update.
            precision: that log-probabilities are computed in.
        """
        super().__init__(*parts)
        self._coordinator = coordinator
        self._shares = shares
        self._ratio_to_sampler = ratio_to_sampler
        self._precision = precision

    def make_step(
        self,
        step: int,
        groups: Sequence[samples.Group],
        *,
        check: Agreement | None = None,
    ) -> Experiences:
        """Compute log-probabilities and advantages of P groups of G responses.

        Args:
            step: number of the step.
            groups: in the order of their prompts.
            check: compares what engines, policy and reference make of each token, in the first
                step of a process.

        Raises:
            JudgeAbortError: too many judgements failed.
            PolicyMismatchError: engines or reference do not hold the policy.
        """
        self._step = step
        self._groups = groups
        self._gaps = []
        self._check = check
        rows = [sample.experience for group in groups for sample in group.samples]
        batches = self.make_experience_batch(rows)
        if check is not None:
            check.settle()
        gap = torch.cat(self._gaps).double()
        return Experiences(batches, self._credit, float(gap.sum()) / max(len(gap), 1))

    def split_rollout_samples(
        self, rollout_samples: list[Experience]
    ) -> list[Experience]:
        """Cut the responses into passes; `index` keeps which row of the step each one is."""
        order = update_order(len(rollout_samples), self._shares)
        passes = super().split_rollout_samples([rollout_samples[row] for row in order])
        for pass_ in passes:
            pass_.index = [order[place] for place in pass_.index]
        return passes

    def compute_advantages_and_returns(
        self, experiences: list[Experience]
    ) -> list[Experience]:
        """Give each response its advantage, and masked ones no token that counts."""
        rows = [row for experience in experiences for row in experience.index]
        size = sum(len(group.samples) for group in self._groups)
        if sorted(rows) != list(range(size)):
            raise ClusterError(
                f"step {self._step}: OpenRLHF returned {len(rows)} responses, and not each of "
                f"{size} once; advantages would go to the wrong ones"
            )
        credit = self._coordinator.credit(self._step, self._groups)
        self._credit = credit
        of_step = (
            credit.advantages_PG,
            credit.valid_PG,
            np.nan_to_num(credit.shaped_PG),
        )
        advantages_N, valid_N, rewards_N = (
            torch.tensor(values_PG.reshape(-1)) for values_PG in of_step
        )
        for experience in cast("list[Any]", experiences):
            mask_BT = experience.action_mask * valid_N[experience.index][:, None].to(
                experience.action_mask
            )
            advantages_BT = (
                advantages_N[experience.index].to(torch.float32)[:, None] * mask_BT
            )
            experience.action_mask = mask_BT
            experience.advantages = advantages_BT
            experience.returns = advantages_BT.clone()
            experience.rewards = rewards_N[experience.index].to(torch.float32)
            experience.scores = None
            experience.kl = None
            gap_BT = (
                experience.rollout_log_probs.float()
                - experience.action_log_probs.float()
            )
            self._gaps.append(gap_BT[mask_BT.bool()].abs())
            if self._check is not None:
                self._look(self._check, experience, mask_BT.bool())
            if self._ratio_to_sampler:
                experience.action_log_probs = experience.rollout_log_probs * mask_BT
            # What remains here becomes a mean over all responses in OpenRLHF's log, masked or not.
            experience.info = {}
        return experiences

    def _look(self, check: Agreement, experience: Any, mask_BT: torch.Tensor) -> None:
        """Compare engines and policy; the reference too, while it is the policy."""
        ours_BT = experience.action_log_probs
        theirs = {"the engine": experience.rollout_log_probs}
        if check.is_start and experience.base_action_log_probs is not None:
            theirs["the reference"] = experience.base_action_log_probs
        for source, theirs_BT in theirs.items():
            tolerance = Tolerance.of(self._precision, by_engine=source == "the engine")
            check.look(
                source,
                theirs_BT,
                ours_BT,
                mask_BT,
                rows=experience.index,
                tolerance=tolerance,
            )
