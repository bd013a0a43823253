"""The policy update of Algorithm 1: several optimiser updates on one batch of rollouts."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, cast

import torch
from torch import Tensor
from torch.optim import AdamW
from torch.optim.lr_scheduler import LinearLR
from transformers import PreTrainedModel

from rubric_train_openrlhf import objective as formulas
from rubric_train_openrlhf import policy as policies
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import NonFiniteUpdateError
from rubric_train_openrlhf.local.rollout import bfloat16_if
from rubric_train_openrlhf.run.records import UpdateMetrics
from rubric_train_openrlhf.step.agreement import Agreement, Tolerance

OnResponses: TypeAlias = Callable[[int], object]
"""Callback with the number of further responses that have gone into a gradient."""


@dataclass(frozen=True)
class UpdateBatch:
    """Rollouts with advantages and masks, one entry per response."""

    rollouts: policies.Rollouts
    advantages_B: Tensor
    """Advantages in float64."""
    valid_B: Tensor
    """False leaves a response out of the loss and of its averages."""
    old_BT: Tensor | None = None
    """The trainer's own log π_old, if an importance correction needs it."""


class ForwardPass(NamedTuple):
    """Figures of a micro-batch of B responses of at most T tokens."""

    loss: Tensor
    """Its part of the update's loss, with gradient."""
    logprobs_BT: Tensor
    """The policy's log π(token), nats."""
    entropy_BT: Tensor
    """Entropy of the policy's next-token distribution, nats."""
    reference_BT: Tensor | None = None
    """Log-probabilities of the frozen reference, which are the policy's own at the start."""
    metrics: Mapping[str, float] = MappingProxyType({})
    """Further means over the update's tokens."""


@dataclass(frozen=True)
class Learner:
    """The policy in training, and the frozen reference that it is kept close to."""

    model: PreTrainedModel
    reference: PreTrainedModel | None
    """Reference model; None if the divergence has no weight."""
    optimizer: AdamW
    schedule: LinearLR
    config: TrainConfig
    """Configuration of the run; its temperature applies to log-probabilities too."""

    def update(
        self,
        batch: UpdateBatch,
        *,
        step: int,
        on_responses: OnResponses = lambda _: None,
        is_first: bool = False,
    ) -> UpdateMetrics:
        """Make `updates_per_rollout` optimiser updates, each on an equal share of the responses.

        Shares are contiguous, so that groups stay together where they can. A share without a
        valid response makes no update.

        Args:
            batch: B responses, at least one of them valid; an advantage counts for all tokens.
            step: training step, for errors.
            on_responses: called after every micro-batch.
            is_first: whether it is the first of this process, so that its weights are those that
                sampled: see `Agreement`.

        Returns:
            Means over the updates made.

        Raises:
            NonFiniteUpdateError: a loss or gradient norm is nan or infinite; the weights are
                those from before the update.
            PolicyMismatchError: the first update is not of the policy that sampled.

        Source: paper, §A, Algorithm 1.
        """
        lr = float(self.schedule.get_last_lr()[0])
        if self.config.objective.importance.reads_old_logprobs:
            batch = replace(batch, old_BT=self._old_logprobs(batch))
        means = self._updates(batch, on_responses, step=step, is_first=is_first)
        return UpdateMetrics(**means, lr=lr)

    def _updates(
        self,
        batch: UpdateBatch,
        on_responses: OnResponses,
        *,
        step: int,
        is_first: bool,
    ) -> dict[str, float]:
        """Make the updates of a step, and return the means of their figures."""
        shares = equal_shares(
            len(batch.valid_B), shares=self.config.optim.updates_per_rollout
        )
        valid = [[row for row in rows if batch.valid_B[row]] for rows in shares]
        updates: list[dict[str, float]] = []
        for rows in valid:
            if not rows:
                continue
            check = None
            if is_first and not updates:
                check = self._check(batch, valid, step=step)
            updates.append(
                self._one_update(batch, rows, on_responses, step=step, check=check)
            )
        self.schedule.step()
        totals = _totals(updates)
        return {name: total / len(updates) for name, total in totals.items()}

    def _one_update(
        self,
        batch: UpdateBatch,
        rows: Sequence[int],
        on_responses: OnResponses,
        *,
        step: int,
        check: Agreement | None,
    ) -> dict[str, float]:
        size = formulas.update_size(batch.rollouts.mask_BT[list(rows)])
        parts: list[dict[str, float]] = []
        self.optimizer.zero_grad(set_to_none=True)
        for micro_rows in self._micro_batches(batch.rollouts, rows):
            parts.append(self._accumulate(batch, micro_rows, size=size, check=check))
            on_responses(len(micro_rows))
        totals = _totals(parts)
        grad_norm = float(
            torch.nn.utils.clip_grad_norm_(
                self.model.parameters(), self.config.optim.max_grad_norm
            )
        )
        if not (math.isfinite(grad_norm) and math.isfinite(totals["loss"])):
            raise NonFiniteUpdateError(
                f"step {step}: loss {totals['loss']!r}, gradient norm {grad_norm!r}; lower "
                "optim.learning_rate, or set objective.kl_output_clamp or objective.dual_clip",
                step=step,
            )
        if check is not None:
            check.settle()
        self.optimizer.step()
        return {**totals, "grad_norm": grad_norm}

    def _check(
        self, batch: UpdateBatch, shares: Sequence[Sequence[int]], *, step: int
    ) -> Agreement:
        """Check the responses of later updates; the first update checks its own responses."""
        check = Agreement(
            type(self.model).__name__, step=step, on_mismatch=self.config.on_mismatch
        )
        _, *later = (share for share in shares if share)
        later_rows = list(chain.from_iterable(later))
        for rows in self._micro_batches(batch.rollouts, later_rows):
            tokens = policies.pack_rollouts(batch.rollouts, rows)
            ours_BT = self._frozen_logprobs(self.model, tokens)
            self._look(check, batch, rows, ours_BT, mask_BT=tokens.response_mask_BT)
        return check

    def _look(
        self,
        check: Agreement,
        batch: UpdateBatch,
        rows: list[int],
        ours_BT: Tensor,
        *,
        mask_BT: Tensor,
    ) -> None:
        drawn_BT = batch.rollouts.logprobs_BT[rows, : ours_BT.shape[1]]
        tolerance = Tolerance.of(self.config.precision)
        check.look(
            "the sampler", drawn_BT, ours_BT, mask_BT, rows=rows, tolerance=tolerance
        )

    def _accumulate(
        self,
        batch: UpdateBatch,
        rows: list[int],
        *,
        size: formulas.UpdateSize,
        check: Agreement | None,
    ) -> dict[str, float]:
        """Add the gradient of one micro-batch, scaled by the size of the whole update."""
        tokens = policies.pack_rollouts(batch.rollouts, rows)
        mask_BT = tokens.response_mask_BT
        passed = self._forward(batch, rows, tokens, size=size)
        if check is not None:
            ours_BT = passed.logprobs_BT
            self._look(check, batch, rows, ours_BT, mask_BT=mask_BT)
            if passed.reference_BT is not None and check.is_start:
                tolerance = Tolerance.of(self.config.precision)
                check.look(
                    "the reference", passed.reference_BT, ours_BT, mask_BT, rows=rows,
                    tolerance=tolerance,
                )  # fmt: skip
        passed.loss.backward()
        entropy = formulas.token_mean(
            passed.entropy_BT, mask_BT=mask_BT, total_tokens=size.tokens
        )
        loss = float(passed.loss.detach())
        return {"loss": loss, **passed.metrics, "entropy": float(entropy)}

    def _forward(
        self,
        batch: UpdateBatch,
        rows: list[int],
        tokens: policies.TokenBatch,
        *,
        size: formulas.UpdateSize,
    ) -> ForwardPass:
        """Read some rows of a batch, packed as `tokens`, and compute their part of the update."""
        width = tokens.response_mask_BT.shape[1]
        # Before the policy's own pass, whose activations stay until the backward pass.
        ref_logprobs_BT = None
        if self.reference is not None:
            ref_logprobs_BT = self._frozen_logprobs(self.reference, tokens)
        current = self._logprobs(self.model, tokens)
        old_logprobs_BT = None
        if batch.old_BT is not None:
            old_logprobs_BT = batch.old_BT[rows, :width]
        loss = formulas.policy_loss(
            current.logprobs_BT,
            formulas.ObjectiveBatch(
                gen_logprobs_BT=batch.rollouts.logprobs_BT[rows, :width],
                advantages_B=batch.advantages_B[rows],
                mask_BT=tokens.response_mask_BT,
                ref_logprobs_BT=ref_logprobs_BT,
                old_logprobs_BT=old_logprobs_BT,
            ),
            config=self.config.objective,
            size=size,
        )
        return ForwardPass(
            loss.loss,
            current.logprobs_BT,
            current.entropy_BT,
            ref_logprobs_BT,
            {name: float(value) for name, value in loss.metrics.items()},
        )

    def _old_logprobs(self, batch: UpdateBatch) -> Tensor:
        old_BT = torch.zeros_like(batch.rollouts.logprobs_BT)
        for rows in self._micro_batches(batch.rollouts, range(len(batch.valid_B))):
            tokens = policies.pack_rollouts(batch.rollouts, rows)
            logprobs_BT = self._frozen_logprobs(self.model, tokens)
            old_BT[rows, : logprobs_BT.shape[1]] = logprobs_BT
        return old_BT

    def _frozen_logprobs(
        self, model: PreTrainedModel, tokens: policies.TokenBatch
    ) -> Tensor:
        with torch.no_grad():
            return self._logprobs(model, tokens).logprobs_BT

    def _logprobs(
        self, model: PreTrainedModel, tokens: policies.TokenBatch
    ) -> policies.ResponseLogprobs:
        temperature = self.config.rollout.temperature
        with self._autocast():
            return policies.response_logprobs(
                model,
                tokens,
                temperature=temperature,
                share_prompts=self.config.optim.share_prompts,
            )

    def _autocast(self) -> torch.autocast:
        return bfloat16_if(
            self.config.precision == "bfloat16", device=self.model.device
        )

    def _micro_batches(
        self, rollouts: policies.Rollouts, rows: Sequence[int]
    ) -> Iterator[list[int]]:
        """Cut rows into micro-batches.

        Responses to one prompt stay together, since their prompt is read once per pass, and among
        them those of similar length, so that little of a pass is padding.
        """
        lengths_B = cast("list[int]", rollouts.lengths_B.tolist())
        ordered = sorted(
            rows, key=lambda row: (row // rollouts.group_size, lengths_B[row])
        )
        size = self.config.optim.micro_batch
        for first in range(0, len(ordered), size):
            yield ordered[first : first + size]


def equal_shares(n: int, *, shares: int) -> list[range]:
    """Cut n rows into contiguous shares of equal size; n is a multiple of their number."""
    size = n // shares
    return [range(first, first + size) for first in range(0, n, size)]


def _totals(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(part[name] for part in parts) for name in parts[0]}
