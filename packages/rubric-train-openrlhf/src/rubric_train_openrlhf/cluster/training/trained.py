"""Check that each response was trained on with its own tokens and its own advantage.

Between the judge's side and the loss, OpenRLHF cuts, pads, orders and sends the responses. Each
process of the policy reports what reached its loss: the tokens, which of them counted, and by what
advantage.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rubric_train_openrlhf.cluster.sampling.samples import Draw, Group
from rubric_train_openrlhf.errors import ClusterError, NonFiniteUpdateError
from rubric_train_openrlhf.run.records import ClusterStep, UpdateMetrics
from rubric_train_openrlhf.step.credit import StepCredit
from rubric_train_openrlhf.step.rows import StepRecord, TrainedAnswer


@dataclass(frozen=True)
class Shares:
    """How the responses of a step are divided."""

    updates: int
    """Optimiser updates, each on an equal share."""
    ranks: int
    """Processes that train, each of which takes an equal part of every share."""


def update_order(n: int, shares: Shares) -> list[int]:
    """Order rows so that every update takes a contiguous share of them.

    OpenRLHF hands each rank a contiguous part of the rows, and every update the next part of what
    each rank has. Rows are laid out so that the k-th part of all ranks together is the k-th share.

    Args:
        n: rows; a multiple of updates · ranks.
        shares: updates and ranks.

    Returns:
        The row for each place.
    """
    rows = np.arange(n).reshape(shares.updates, shares.ranks, -1)
    return [int(row) for row in rows.transpose(1, 0, 2).reshape(-1)]


_MEANS = UpdateMetrics.model_fields.keys() - {"entropy"}
_DIGEST_BYTES = 16
_CLOSE = 1e-6
"""Tolerance of an advantage, which the loss has in float32, relative to 1 or to itself."""


@dataclass(frozen=True, slots=True)
class TrainedSample:
    """One response, as it reached the loss."""

    digest: bytes
    """Digest of its tokens, the prompt's included."""
    tokens: int
    """Tokens that counted; none of a masked response."""
    advantage: float
    """Mean over the tokens that counted; 0 without any."""


def trained_samples(experience: Any) -> list[TrainedSample]:
    """Describe every response of an `Experience` that was given its advantages, in its order."""
    mask_BT = experience.action_mask.bool().cpu()
    advantages_BT = experience.advantages.double().cpu()
    rows = zip(_digests(experience), mask_BT, advantages_BT, strict=True)
    return [
        TrainedSample(
            digest=digest,
            tokens=int(mask_T.sum()),
            advantage=float(advantages_T[mask_T].mean()) if mask_T.any() else 0.0,
        )
        for digest, mask_T, advantages_T in rows
    ]


def _digests(experience: Any) -> list[bytes]:
    attended_BT = experience.attention_mask.bool().cpu()
    tokens_BT = experience.sequences.cpu()
    return [
        hashlib.blake2b(
            tokens_T[attended_T].numpy(), digest_size=_DIGEST_BYTES
        ).digest()
        for tokens_T, attended_T in zip(tokens_BT, attended_BT, strict=True)
    ]


def in_row_order(
    reports: Sequence[Sequence[TrainedSample]], *, shares: Shares, step: int
) -> list[TrainedSample]:
    """Bring what the ranks trained on into the order of the step's rows.

    Args:
        reports: of each rank, in the order in which it trained.
        shares: how the responses were divided.
        step: number of the step.

    Raises:
        ClusterError: the ranks did not train on equal parts.
    """
    samples = [sample for report in reports for sample in report]
    if len(reports) != shares.ranks or len(samples) % (shares.updates * shares.ranks):
        sizes = [len(report) for report in reports]
        raise ClusterError(
            f"step {step}: {len(reports)} ranks trained on {sizes} responses, which is no "
            f"equal part of {shares.updates} updates on {shares.ranks} ranks"
        )
    by_row = dict(zip(update_order(len(samples), shares), samples, strict=True))
    return [by_row[row] for row in range(len(samples))]


def check_trained(
    trained: Sequence[TrainedSample],
    groups: Sequence[Group],
    credit: StepCredit,
    *,
    step: int,
) -> None:
    """Stop a run in which a response was trained on with another response's data.

    Args:
        trained: by row.
        groups: that were drawn for the step.
        credit: of the groups.
        step: number of the step.

    Raises:
        ClusterError: responses, masks or advantages are not those of the step; says of which row.
    """
    samples = [sample for group in groups for sample in group.samples]
    if len(trained) != len(samples):
        raise ClusterError(
            f"step {step}: the policy was trained on {len(trained)} of {len(samples)} "
            "responses; report this, with the versions in environment.json"
        )
    advantages_B = credit.advantages_PG.reshape(-1)
    valid_B = credit.valid_PG.reshape(-1)
    for row, (trained_sample, sample) in enumerate(zip(trained, samples, strict=True)):
        tokens = sample.tokens if valid_B[row] else 0
        advantage = float(advantages_B[row]) if tokens else 0.0
        problem = ""
        if [trained_sample.digest] != _digests(sample.experience):
            problem = "another response"
        elif trained_sample.tokens != tokens:
            problem = f"{trained_sample.tokens} tokens instead of {tokens}"
        elif not abs(trained_sample.advantage - advantage) <= _CLOSE * max(
            1.0, abs(advantage)
        ):
            problem = (
                f"an advantage of {trained_sample.advantage!r} instead of {advantage!r}"
            )
        if problem:
            raise ClusterError(
                f"step {step}, response {row} of {len(samples)}: the policy was trained on "
                f"{problem}; report this, with the versions in environment.json"
            )


def check_update(figures: Mapping[str, float], *, step: int) -> None:
    """Stop a run whose update is not a number, before its weights go anywhere.

    Raises:
        NonFiniteUpdateError: loss or gradient norm is nan or infinite.
    """
    broken = [
        name for name in ("loss", "grad_norm") if not math.isfinite(figures[name])
    ]
    if broken:
        named = " and ".join(broken)
        raise NonFiniteUpdateError(
            f"step {step}: {named} of the update is not a finite number; continue from the "
            "last checkpoint with --resume and a lower optim.learning_rate or "
            "optim.max_grad_norm",
            step=step,
        )


def step_record(
    step: int,
    drawn: Draw,
    credit: StepCredit,
    trained: Sequence[TrainedSample],
    *,
    figures: Mapping[str, float],
    ended_at: Mapping[str, float],
) -> StepRecord:
    """Bring all that one step has to say into the form that both backends write rows from.

    Args:
        step: number of the step.
        drawn: its groups.
        credit: of the groups.
        trained: what the learner made of it, by row.
        figures: of the updates, as `RubricLearner` names them; `sampler_gap`, `engine_restarts`.
        ended_at: when each part ended, in seconds of one clock; `start` is when the step began.
    """
    samples = [
        (group.prompt, sample) for group in drawn.groups for sample in group.samples
    ]
    return StepRecord(
        step=step,
        credit=credit,
        answers=[
            TrainedAnswer(
                task_id=prompt.task_id,
                question=prompt.question,
                completion=sample.completion,
                tokens=sample.tokens,
                ended=sample.ended,
                advantage=trained_sample.advantage,
                is_finished=sample.judgement.is_answer,
            )
            for (prompt, sample), trained_sample in zip(samples, trained, strict=True)
        ],
        prompts_drawn=drawn.prompts,
        generated_tokens=drawn.generated_tokens,
        timing=drawn.timing,
        update=UpdateMetrics(entropy=None, **{name: figures[name] for name in _MEANS}),
        update_s=ended_at["update"] - ended_at["experience"],
        step_s=ended_at["sync"] - ended_at["start"],
        cluster=ClusterStep(
            sampler_gap=figures["sampler_gap"],
            dropped_frac=figures.get("dropped_frac"),
            updates=int(figures["updates"]),
            experience_s=ended_at["experience"] - ended_at["draw"],
            sync_s=ended_at["sync"] - ended_at["update"],
            engine_restarts=int(figures["engine_restarts"]),
            resent_responses=drawn.resent,
            judge_restarts=credit.judge_restarts,
            attribution=credit.attribution_abs,
        ),
    )
