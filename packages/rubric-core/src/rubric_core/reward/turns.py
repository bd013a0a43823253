"""Credit by turn: the advantage of a criterion that names a turn goes to that turn's tokens.

A trajectory has turns 1 to K_g. What a criterion says of the whole of it concerns all of its
tokens, as the advantage of a single response does; what it says of one turn concerns that turn.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rubric_core.arrays import FloatArray, float_array
from rubric_core.errors import RewardError, RewardShapeError
from rubric_core.judgement.result import JudgeResult
from rubric_core.reward.projection import normalized_reward
from rubric_core.schema.judged import turn_of
from rubric_core.schema.rubric import Rubric

IntArray = NDArray[np.int64]


def named_turns(rubric: Rubric) -> tuple[int, ...]:
    """Return the turn that each criterion names, from 1; 0 for one that names none."""
    return tuple(turn_of(criterion.judges) or 0 for criterion in rubric)


def turn_advantages(
    advantages_PG: ArrayLike,
    attribution_PGM: ArrayLike,
    turns_PM: ArrayLike,
    counts_PG: ArrayLike,
) -> FloatArray:
    """Return the advantage of each turn: without what criteria say of other turns.

        A_k^(g) = A^(g) − Σ_j A_j^(g) [1 ≤ t_j ≤ K_g and t_j ≠ k]

    so that a criterion counts for the turn that it names, one that names none for all turns, and
    one whose turn the policy did not take also for all: ending early is what it did.

    Args:
        advantages_PG: shape [P, G], A^(g) of whole trajectories, penalties included.
        attribution_PGM: shape [P, G, M], the parts A_j^(g) of the criteria.
        turns_PM: integers, shape [P, M]: t_j, the turn that a criterion names, from 1; 0 for none.
        counts_PG: integers, shape [P, G]: K_g, the turns of a trajectory.

    Returns:
        Shape [P, G, K + 1], K the most turns. Column k is of turn k; column 0 of tokens of the
        policy that are of no numbered turn. 0 beyond K_g. Where no criterion names a turn, each
        turn has A^(g) exactly, and so has the turn of a trajectory with one.

    Raises:
        RewardShapeError: axes that do not fit.
        RewardError: turns or counts that are no integers from 0 up.
    """
    advantages = float_array(advantages_PG, name="advantages_PG", axes="PG")
    parts = float_array(attribution_PGM, name="attribution_PGM", axes="PGM")
    turns = _counts(turns_PM, name="turns_PM", axes="PM")
    counts = _counts(counts_PG, name="counts_PG", axes="PG")
    fits = parts.shape[:2] == advantages.shape == counts.shape
    if not fits or turns.shape != (parts.shape[0], parts.shape[2]):
        raise RewardShapeError(
            f"advantages_PG has shape {advantages.shape}, attribution_PGM {parts.shape}, "
            f"turns_PM {turns.shape}, counts_PG {counts.shape}"
        )
    most = int(counts.max(initial=0))
    credit = np.zeros((*advantages.shape, most + 1))
    for k in range(most + 1):
        elsewhere_PM = (turns > 0) & (turns != k)
        is_taken_PGM = turns[:, None, :] <= counts[:, :, None]
        removed_PG = np.where(elsewhere_PM[:, None, :] & is_taken_PGM, parts, 0.0)
        turn_PG = advantages - removed_PG.sum(axis=2)
        credit[:, :, k] = np.where(counts >= k, turn_PG, 0.0)
    return credit


def token_advantages(credit_K: ArrayLike, turn_T: ArrayLike) -> FloatArray:
    """Return the advantage of each token of a trajectory.

    Args:
        credit_K: shape [K + 1], one response's row of `turn_advantages`.
        turn_T: integers, shape [T]: the turn that a token is of, from 1; 0 for a token of the
            policy in no numbered turn, −1 for one that the policy did not write.

    Returns:
        Shape [T]; 0 for tokens that the policy did not write.

    Raises:
        RewardShapeError: not one axis each.
        RewardError: a token of a turn that has no advantage.
    """
    credit = float_array(credit_K, name="credit_K", axes="K")
    turn = np.asarray(turn_T)
    if turn.ndim != 1 or (turn.size and turn.dtype.kind not in "iu"):
        raise RewardShapeError(
            f"turn_T must be integers [T], not {turn.dtype} {turn.shape}"
        )
    if turn.size and not -1 <= turn.min() <= turn.max() < len(credit):
        raise RewardError(
            f"turn_T has turns {turn.min()} to {turn.max()}, and credit_K is of {len(credit) - 1}"
        )
    if not turn.size:
        return np.zeros(0)
    return np.where(turn >= 0, credit[np.maximum(turn, 0)], 0.0)


def turn_rewards(result: JudgeResult, rubric: Rubric, turns: int) -> list[float]:
    """Return a reward for each turn, for trainers that take one after each.

        r_k = 1/W · Σ_j s_j [t_j = k];   the last turn has the rest of the reward

    Args:
        result: a judgement of the whole rubric.
        rubric: gives the turns t_j, w_j and W.
        turns: K ≥ 1, the turns of the trajectory.

    Returns:
        K rewards, which sum to `normalized_reward` within rounding; with one turn it is that.

    Raises:
        UnavailableRewardError: the judgement did not happen.
        RewardError: no turn.
    """
    if turns < 1:
        raise RewardError(f"turns must be 1 or more, not {turns}")
    reward = normalized_reward(result, rubric)
    rewards = [0.0] * turns
    for number in range(1, turns):
        named = [c.id for c in rubric if turn_of(c.judges) == number]
        scores = math.fsum(result.scores.get(name, 0.0) for name in named)
        rewards[number - 1] = scores / rubric.total_weight
    rewards[-1] = reward - math.fsum(rewards[:-1])
    return rewards


def rewards_at_ends(rewards_K: Sequence[float], mask_T: Sequence[int]) -> list[float]:
    """Return a reward for each token: each turn's at its last token, else 0.

    Args:
        rewards_K: a reward for each turn.
        mask_T: the loss mask, 1 for tokens of the policy; a turn is a run of them.

    Returns:
        Shape [T].

    Raises:
        RewardError: another number of runs than of rewards.
    """
    ends = ends_of_turns(mask_T)
    if len(ends) != len(rewards_K):
        raise RewardError(
            f"the mask has {len(ends)} runs of the policy's tokens, and there are "
            f"{len(rewards_K)} rewards: give one for each turn"
        )
    tokens = [0.0] * len(mask_T)
    for end, reward in zip(ends, rewards_K, strict=True):
        tokens[end] = reward
    return tokens


def ends_of_turns(mask_T: Sequence[int]) -> list[int]:
    """Return the place of the last token of each run of the policy's tokens."""
    last = len(mask_T) - 1
    return [
        place
        for place, own in enumerate(mask_T)
        if own and (place == last or not mask_T[place + 1])
    ]


def _counts(values: ArrayLike, *, name: str, axes: str) -> IntArray:
    array = float_array(values, name=name, axes=axes)
    if not ((array >= 0) & (array == np.floor(array))).all():
        raise RewardError(f"{name} must hold integers from 0 up")
    return array.astype(np.int64)
