from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from rubric_core import PolicyView, SftExample
from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import (
    Policy,
    PretrainConfig,
    SftConfig,
    SupervisedStep,
    TinyConfig,
    build_tiny_policy,
    pretrain,
    sample_groups,
    sft,
)
from rubric_train_openrlhf.policy.supervised import learning_rate

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = (
    "Explain `convolve` with `mode`. It convolves two arrays, as `mode` says.",
    "Explain `median` with `axis`. It returns the median along an axis of the array.",
)
EXAMPLES = [
    SftExample(
        task_id="a",
        question="Explain `convolve`.",
        answer="`convolve` joins two arrays.",
    ),
    SftExample(
        task_id="b",
        question="Explain `median`.",
        answer="`median` is the middle value.",
    ),
    SftExample(
        task_id="c", question="Explain `sum`.", answer="`sum` adds " + "and adds " * 80
    ),
]
PRETRAIN = PretrainConfig(steps=12, batch_size=4, window_tokens=16, warmup_steps=2)
SFT = SftConfig(steps=120, batch_size=8, learning_rate=1e-2, max_answer_tokens=60)


def fresh(config: TinyConfig) -> Policy:
    return build_tiny_policy(TEXTS, config, seed=0)


def weights(policy: Policy) -> torch.Tensor:
    return torch.cat(
        [parameter.detach().flatten() for parameter in policy.model.parameters()]
    )


def test_pretraining_lowers_the_loss_and_reports_each_step(
    tiny_config: TinyConfig,
) -> None:
    seen: list[SupervisedStep] = []
    policy = fresh(tiny_config)
    last = pretrain(policy, TEXTS, PRETRAIN, seed=0, progress=seen.append)
    assert [step.step for step in seen] == list(range(1, 13))
    assert seen[-1].loss == last < 0.9 * seen[0].loss
    assert seen[0].tokens == 64
    assert seen[0].learning_rate < seen[1].learning_rate > seen[-1].learning_rate > 0


def test_the_warm_start_learns_its_answers(tiny_config: TinyConfig) -> None:
    seen: list[SupervisedStep] = []
    policy = fresh(tiny_config)
    report = sft(policy, EXAMPLES, SFT, seed=0, on_step=seen.append)
    assert (report.examples, report.left_out) == (2, 1)
    assert report.loss == seen[-1].loss < 0.2 * seen[0].loss
    views = [
        PolicyView(task_id=one.task_id, question=one.question) for one in EXAMPLES[:2]
    ]
    rollouts = sample_groups(
        policy.model,
        [policy.codec.encode_prompt(view) for view in views],
        group_size=1,
        max_new_tokens=60,
        temperature=0.0,
        generator=torch.Generator(),
        eos_token_id=policy.codec.eos_token_id,
        pad_token_id=policy.codec.pad_token_id,
    )
    written = [
        policy.codec.decode(views[row], rollouts.response(row)) for row in range(2)
    ]
    assert written == [example.answer for example in EXAMPLES[:2]]


@pytest.mark.parametrize(
    "train",
    [
        lambda policy, seed: pretrain(policy, TEXTS, PRETRAIN, seed=seed),
        lambda policy, seed: sft(
            policy, EXAMPLES, SftConfig(steps=3, batch_size=1), seed=seed
        ),
    ],
    ids=["pretrain", "sft"],
)
def test_training_depends_on_the_seed_and_nothing_else(
    tiny_config: TinyConfig, train: Callable[[Policy, int], object]
) -> None:
    state = torch.get_rng_state()
    first, same, other = (fresh(tiny_config) for _ in range(3))
    train(first, 1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(5)
    train(same, 1)
    train(other, 2)
    assert torch.equal(weights(first), weights(same))
    assert not torch.equal(weights(first), weights(other))


def test_too_little_text_is_refused(tiny_config: TinyConfig) -> None:
    with pytest.raises(PolicyInputError, match="fewer than one window of 193"):
        pretrain(fresh(tiny_config), ["short"], PretrainConfig(), seed=0)


def test_examples_that_are_all_too_long_are_refused(tiny_config: TinyConfig) -> None:
    with pytest.raises(PolicyInputError, match="none of 3 examples"):
        sft(fresh(tiny_config), EXAMPLES, SftConfig(max_answer_tokens=3), seed=0)


def test_the_learning_rate_rises_and_falls_to_a_tenth() -> None:
    linear = SftConfig(steps=100, warmup_steps=10, learning_rate=1.0)
    fracs = [learning_rate(step, linear) for step in range(100)]
    assert fracs[0] == pytest.approx(0.1)
    assert max(fracs) == fracs[9]
    assert fracs[-1] == pytest.approx(0.109)
    cosine = PretrainConfig(steps=100, warmup_steps=0, learning_rate=1.0)
    assert learning_rate(50, cosine) == pytest.approx(0.55)


def test_a_larger_model_is_not_trained_at_the_rate_of_a_tiny_one(
    tiny_config: TinyConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = fresh(tiny_config)
    before = {name: one.clone() for name, one in policy.model.state_dict().items()}
    monkeypatch.setattr(
        "rubric_train_openrlhf.policy.supervised._TINY_PARAMETERS", 1000
    )

    with pytest.raises(
        PolicyInputError, match=r"0\.002, is for a tiny policy: .* parameters"
    ):
        sft(policy, EXAMPLES, SftConfig(steps=1), seed=0)

    assert all(
        torch.equal(one, before[name])
        for name, one in policy.model.state_dict().items()
    )
    sft(policy, EXAMPLES, SftConfig(steps=1, learning_rate=2e-3), seed=0)
