from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rubric_core import Answer
from rubric_train_openrlhf.cluster.sampling.samples import (
    Group,
    JudgementId,
    Prompt,
    Sample,
)
from rubric_train_openrlhf.cluster.training.trained import (
    Shares,
    TrainedSample,
    check_trained,
    in_row_order,
    trained_samples,
    update_order,
)
from rubric_train_openrlhf.errors import ClusterError
from rubric_train_openrlhf.policy.completion import Completion

SHARES = Shares(updates=2, ranks=2)
PROMPT_TOKENS = 3
LENGTHS = (4, 1, 6, 2, 3, 5, 7, 2)
ADVANTAGES_PG = np.array([[0.25, -1.75, 1.5, 0.0], [0.5, -0.5, 0.0, 0.0]])
VALID_PG = np.array([[True, True, True, True], [True, True, True, False]])


def experience(tokens: torch.Tensor, *, advantage: float, valid: bool, pad: int) -> Any:
    """A response as the learner gets it: padded to the longest of its pass."""
    total = len(tokens)
    mask = torch.zeros(1, total - 1 + pad, dtype=torch.long)
    mask[:, PROMPT_TOKENS - 1 : total - 1] = int(valid)
    return SimpleNamespace(
        sequences=torch.nn.functional.pad(tokens, (0, pad))[None],
        attention_mask=torch.nn.functional.pad(
            torch.ones(total, dtype=torch.long), (0, pad)
        )[None],
        action_mask=mask,
        advantages=torch.tensor(advantage, dtype=torch.float32) * mask,
    )


class Step:
    """Two groups of four on two ranks, in two updates."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.tokens = [
            torch.randint(5, 300, (PROMPT_TOKENS + length,), generator=generator)
            for length in LENGTHS
        ]
        samples = [
            Sample(
                experience(tokens, advantage=0.0, valid=True, pad=0),
                JudgementId("t", key=str(row)),
                Completion("", Answer("")),
                length,
                ended=True,
            )
            for row, (tokens, length) in enumerate(
                zip(self.tokens, LENGTHS, strict=True)
            )
        ]
        self.groups = [
            Group(Prompt("p", "t", "q"), tuple(samples[at : at + 4])) for at in (0, 4)
        ]
        self.credit: Any = SimpleNamespace(
            advantages_PG=ADVANTAGES_PG, valid_PG=VALID_PG
        )
        self.advantages = [float(advantage) for advantage in ADVANTAGES_PG.reshape(-1)]
        self.valid = [bool(valid) for valid in VALID_PG.reshape(-1)]

    def trained(self) -> list[TrainedSample]:
        """What the ranks report, by row."""
        reports: list[list[TrainedSample]] = [[], []]
        for place, row in enumerate(update_order(len(LENGTHS), SHARES)):
            there = experience(
                self.tokens[row],
                advantage=self.advantages[row],
                valid=self.valid[row],
                pad=row,
            )
            reports[place // 4] += trained_samples(there)
        return in_row_order(reports, shares=SHARES, step=3)

    def check(self) -> None:
        check_trained(self.trained(), self.groups, self.credit, step=3)


def test_what_was_trained_on_is_told_by_row_whatever_the_ranks_had() -> None:
    step = Step()
    trained = step.trained()
    assert [one.advantage for one in trained] == step.advantages
    assert [one.tokens for one in trained] == [*LENGTHS[:-1], 0]
    step.check()


def test_an_advantage_of_another_response_stops_the_run() -> None:
    step = Step()
    step.advantages[1], step.advantages[2] = step.advantages[2], step.advantages[1]
    with pytest.raises(
        ClusterError, match=r"step 3, response 1 of 8: .* 1\.5 instead of -1\.75"
    ):
        step.check()


def test_tokens_of_another_response_stop_the_run() -> None:
    step = Step()
    step.tokens[1], step.tokens[3] = step.tokens[3], step.tokens[1]
    with pytest.raises(
        ClusterError, match="response 1 of 8: the policy was trained on another"
    ):
        step.check()


def test_a_masked_response_that_counts_stops_the_run() -> None:
    step = Step()
    step.valid[-1] = True
    with pytest.raises(
        ClusterError, match=r"response 7 of 8: .* 2 tokens instead of 0"
    ):
        step.check()


def test_an_advantage_that_is_no_number_stops_the_run() -> None:
    step = Step()
    step.advantages[0] = float("nan")
    with pytest.raises(ClusterError, match=r"response 0 of 8: .* nan instead of 0\.25"):
        step.check()


def test_responses_that_did_not_reach_the_loss_stop_the_run() -> None:
    step = Step()
    trained = step.trained()
    with pytest.raises(ClusterError, match="trained on 6 of 8 responses"):
        check_trained(trained[:6], step.groups, step.credit, step=3)
    with pytest.raises(ClusterError, match=r"2 ranks trained on \[4, 3\] responses"):
        in_row_order([trained[:4], trained[4:7]], shares=SHARES, step=3)
