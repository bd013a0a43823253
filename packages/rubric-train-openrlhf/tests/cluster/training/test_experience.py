"""Our advantages in OpenRLHF's own tensors, batches and loss."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from structlog.testing import capture_logs

from rubric_core import group_advantages
from rubric_train_openrlhf.cluster.training.trained import Shares
from rubric_train_openrlhf.errors import ClusterError, PolicyMismatchError
from rubric_train_openrlhf.objective import ObjectiveBatch, policy_loss
from rubric_train_openrlhf.step.agreement import Agreement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rubric_train_openrlhf.cluster.training.experience import Experiences

pytestmark = pytest.mark.openrlhf

WHOLE = Shares(updates=1, ranks=1)
REWARDS: list[list[float | None]] = [
    [0.0, 0.25, 0.5, 1.0],
    [0.1, 0.1, 0.1, 0.1],  # no spread: in float32 its deviation is not 0
    [0.3, None, 0.9, -1.0],  # one masked, one invalid, which is a 0 that counts
    [None, None, 0.7, None],  # one valid response has no baseline
    [0.2, 0.2, None, 0.8],
    [1.0, 0.0, 0.0, 0.0],
]


def expected_advantages(
    rewards_PG: Sequence[Sequence[float | None]],
) -> np.ndarray[Any, Any]:
    valid_PG = [[reward is not None for reward in group] for group in rewards_PG]
    values_PG = [[max(reward or 0.0, 0.0) for reward in group] for group in rewards_PG]
    return group_advantages(values_PG, valid_PG=valid_PG).reshape(-1)


def made(
    batch: Any,
    *,
    micro_batch: int = 4,
    shares: Shares = WHOLE,
    ratio_to_sampler: bool = False,
    check: Agreement | None = None,
) -> Experiences:
    """Run OpenRLHF's maker and ours on a batch, with log-probabilities made up."""
    from rubric_train_openrlhf.cluster.training.experience import RubricExperienceMaker

    class Maker(RubricExperienceMaker):
        def make_experience(self, samples_list: list[Any]) -> list[Any]:
            for samples in samples_list:
                samples.action_log_probs = (
                    samples.rollout_log_probs - 0.25 * samples.action_mask
                )
                samples.base_action_log_probs = samples.rollout_log_probs * 1.5
                samples.kl = torch.zeros_like(samples.rollout_log_probs)
                samples.info["kl"] = torch.zeros(len(samples.sequences))
            return samples_list

    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=SimpleNamespace(estimator="rloo")),
        train=SimpleNamespace(dynamic_batch_enable=False),
        rollout=SimpleNamespace(micro_batch_size=micro_batch),
    )
    maker = Maker(
        *(None,) * 5,
        SimpleNamespace(args=args),
        SimpleNamespace(pad_token_id=0),
        coordinator=batch.coordinator,
        shares=shares,
        ratio_to_sampler=ratio_to_sampler,
        precision="float32",
    )
    return maker.make_step(1, batch.groups, check=check)


def rows_of(batches: Sequence[Any]) -> list[Any]:
    """Every response on its own, as OpenRLHF's replay buffer keeps it."""
    from openrlhf.trainer.ppo_utils.experience import (
        remove_padding_in_sequences,
        split_experience_batch,
    )

    return remove_padding_in_sequences(
        [row for batch in batches for row in split_experience_batch(batch)]
    )


SHAPES = [
    pytest.param({"micro_batch": 1}, id="one-by-one"),
    pytest.param({"micro_batch": 4}, id="groups"),
    pytest.param({"micro_batch": 5}, id="ragged"),
    pytest.param({"micro_batch": 24}, id="all-at-once"),
    pytest.param({"micro_batch": 2, "shares": Shares(updates=3, ranks=2)}, id="shares"),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_token_has_the_advantage_of_its_response_in_every_shape_of_batch(
    make_batch: Callable[..., Any],
    shape: dict[str, Any],
    seed: int,
) -> None:
    batch = make_batch(REWARDS, seed=seed)
    expected = dict(zip(batch.labels, expected_advantages(REWARDS), strict=True))
    valid = [reward is not None for group in REWARDS for reward in group]
    is_valid = dict(zip(batch.labels, valid, strict=True))
    lengths = {
        s.judgement.text: s.tokens for group in batch.groups for s in group.samples
    }

    rows = rows_of(made(batch, **shape).batches)

    assert sorted(row.labels[0] for row in rows) == sorted(batch.labels)
    for row in rows:
        label = row.labels[0]
        tokens = lengths[label]
        assert int(row.action_mask.sum()) == (tokens if is_valid[label] else 0)
        advantages_T = row.advantages.double().numpy()
        assert np.abs(advantages_T[-tokens:] - expected[label]).max() <= 1e-6
        assert not advantages_T[:-tokens].any()
        assert torch.equal(row.returns, row.advantages)
        assert row.info == {}


@pytest.mark.parametrize("loss_agg", ["token", "sequence"])
def test_the_loss_and_its_denominators_leave_masked_responses_out(
    make_batch: Callable[..., Any], loss_agg: str
) -> None:
    from openrlhf.models.loss import PolicyLoss
    from openrlhf.trainer.ppo_utils.experience import make_experience_batch
    from openrlhf.utils.loss_utils import _optimizer_step_loss_norm

    objective = {"aggregation": loss_agg, "kl_coef": 0.0}
    batch = make_batch(REWARDS, objective=objective)
    rows = rows_of(made(batch, micro_batch=5, ratio_to_sampler=True).batches)
    rng = torch.Generator().manual_seed(0)
    passes = [
        make_experience_batch(rows[first : first + 5])
        for first in range(0, len(rows), 5)
    ]
    current = [
        (one.rollout_log_probs + 0.3 * torch.randn(one.advantages.shape, generator=rng))
        .detach()
        .requires_grad_()
        for one in passes
    ]
    info = _optimizer_step_loss_norm([one.action_mask for one in passes], None, 1, 1)
    theirs = PolicyLoss(0.2, 0.2, token_level_loss=loss_agg == "token")
    loss = sum(
        theirs(
            logprobs,
            one.action_log_probs,
            one.advantages,
            action_mask=one.action_mask,
            rollout_log_probs=one.rollout_log_probs,
            **info,
        )[0]
        for logprobs, one in zip(current, passes, strict=True)
    )
    loss.backward()

    width = max(one.advantages.shape[1] for one in passes)
    pad = [width - one.advantages.shape[1] for one in passes]

    def whole(tensors: Sequence[Any]) -> torch.Tensor:
        padded = [
            torch.nn.functional.pad(t, (0, n))
            for t, n in zip(tensors, pad, strict=True)
        ]
        return torch.cat(padded)

    ours_BT = whole([logprobs.detach() for logprobs in current]).requires_grad_()
    ours = policy_loss(
        ours_BT,
        ObjectiveBatch(
            gen_logprobs_BT=whole([one.rollout_log_probs for one in passes]),
            advantages_B=whole([one.advantages for one in passes]).sum(1)
            / whole([one.action_mask for one in passes]).sum(1).clamp(min=1),
            mask_BT=whole([one.action_mask for one in passes]).bool(),
        ),
        config=batch.coordinator.config.objective,
    )
    ours.loss.backward()
    assert float(info["global_batch_size"]) == sum(
        r is not None for g in REWARDS for r in g
    )
    assert float(loss.detach()) == pytest.approx(float(ours.loss.detach()), abs=1e-6)
    gradients = whole([logprobs.grad for logprobs in current])
    assert torch.allclose(gradients, ours_BT.grad, atol=1e-6)


def test_the_ratio_is_to_the_sampler_where_no_correction_asks_for_the_policy_itself(
    make_batch: Callable[..., Any],
) -> None:
    batch = make_batch(REWARDS[:1])
    for row in rows_of(made(batch, ratio_to_sampler=True).batches):
        mask = row.action_mask.bool()
        assert torch.equal(row.action_log_probs[mask], row.rollout_log_probs[mask])
    for row in rows_of(made(batch, ratio_to_sampler=False).batches):
        mask = row.action_mask.bool()
        assert torch.allclose(
            row.action_log_probs[mask] + 0.25, row.rollout_log_probs[mask]
        )


def test_the_gap_between_engine_and_policy_is_over_the_tokens_trained_on(
    make_batch: Callable[..., Any],
) -> None:
    batch = make_batch(REWARDS)
    assert made(batch).sampler_gap == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize(
    ("step", "sources"), [(1, ["engine", "reference"]), (2, ["engine"])]
)
def test_engines_and_reference_that_do_not_hold_the_policy_are_named(
    make_batch: Callable[..., Any], step: int, sources: list[str]
) -> None:
    with capture_logs() as logs:
        check = Agreement("Toy", step=step, on_mismatch="warn")
        made(make_batch(REWARDS), check=check)
    said = [log for log in logs if log["event"] == "train.policies_differ"]
    assert [log["source"] for log in said] == [f"the {source}" for source in sources]
    assert said[0]["gap"] == pytest.approx(0.25, abs=1e-6)

    with pytest.raises(PolicyMismatchError, match="the engine"):
        made(make_batch(REWARDS), check=Agreement("Toy", step=step, on_mismatch="stop"))


def test_penalties_of_ours_are_in_the_advantages(
    make_batch: Callable[..., Any],
) -> None:
    batch = make_batch(
        REWARDS[:1],
        shaping={"length_penalty": {"buffer_tokens": 8}},
        rollout={"max_new_tokens": 12},
    )
    credit = batch.coordinator.credit(1, batch.groups)
    assert not np.allclose(credit.shaped_PG, credit.rewards_PG)
    expected = dict(zip(batch.labels, credit.advantages_PG.reshape(-1), strict=True))
    for row in rows_of(made(batch).batches):
        assert abs(float(row.advantages[-1]) - expected[row.labels[0]]) <= 1e-6


def test_a_batch_that_is_not_whole_is_refused(make_batch: Callable[..., Any]) -> None:
    from rubric_train_openrlhf.cluster.training.experience import RubricExperienceMaker

    batch = make_batch(REWARDS[:2])
    experiences = made(batch).batches
    maker: Any = RubricExperienceMaker.__new__(RubricExperienceMaker)
    maker._step, maker._groups = 1, batch.groups
    with pytest.raises(ClusterError, match="not each of 8 once"):
        maker.compute_advantages_and_returns(experiences[:1])
