import dataclasses

import pytest
import torch

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import EncodedPrompt, Rollouts, concatenate


def rollouts(n_prompts: int = 2, group_size: int = 3, width: int = 4) -> Rollouts:
    rows = n_prompts * group_size
    lengths_B = torch.arange(rows) % width + 1
    mask_BT = torch.arange(width) < lengths_B[:, None]
    return Rollouts(
        tuple(EncodedPrompt((10 + prompt,)) for prompt in range(n_prompts)),
        torch.arange(rows * width).reshape(rows, width).masked_fill(~mask_BT, 0),
        torch.full((rows, width), -0.5).masked_fill(~mask_BT, 0.0),
        mask_BT,
        torch.zeros(rows, dtype=torch.bool),
    )


def test_rows_find_their_prompt_and_response() -> None:
    some = rollouts()
    assert some.group_size == 3
    assert some.prompt_of(2).token_ids == (10,)
    assert some.prompt_of(3).token_ids == (11,)
    assert some.response(1) == (4, 5)
    assert some.lengths_B.tolist() == [1, 2, 3, 4, 1, 2]


def test_whole_groups_can_be_taken_and_put_together_again() -> None:
    some = rollouts(n_prompts=3)
    swapped = some.take_prompts([2, 0])
    assert [prompt.token_ids for prompt in swapped.prompts] == [(12,), (10,)]
    assert swapped.response(0) == some.response(6)
    joined = concatenate([rollouts(width=2), rollouts(width=5)])
    assert joined.tokens_BT.shape == (12, 5)
    assert joined.response(7) == rollouts(width=5).response(1)


def test_different_group_sizes_do_not_go_together() -> None:
    with pytest.raises(PolicyInputError, match="one group size"):
        concatenate([rollouts(group_size=2), rollouts(group_size=3)])
    with pytest.raises(PolicyInputError, match="0 rollouts"):
        concatenate([])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokens_BT": torch.zeros(6, 4)}, "tokens_BT"),
        ({"logprobs_BT": torch.zeros(6, 3)}, "logprobs_BT"),
        ({"ended_B": torch.zeros(5, dtype=torch.bool)}, "ended_B"),
        ({"prompts": (EncodedPrompt((1,)),) * 4}, "whole group"),
        ({"mask_BT": torch.zeros(6, 4, dtype=torch.bool)}, "one run"),
        ({"logprobs_BT": torch.full((6, 4), -1.0)}, "outside the mask"),
        ({"logprobs_BT": rollouts().logprobs_BT * -1}, "finite"),
        ({"logprobs_BT": rollouts().logprobs_BT * float("inf")}, "outside|finite"),
    ],
)
def test_what_is_not_a_rollout_is_refused(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(PolicyInputError, match=words):
        dataclasses.replace(rollouts(), **changes)


def test_a_hole_in_the_mask_is_refused() -> None:
    mask_BT = rollouts().mask_BT.clone()
    mask_BT[3, 1] = False
    with pytest.raises(PolicyInputError, match="one run"):
        dataclasses.replace(
            rollouts(),
            mask_BT=mask_BT,
            logprobs_BT=torch.zeros(6, 4),
            ended_B=rollouts().ended_B,
        )
