"""Divergence from a teacher: the formula against slow references, and through whole models."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import EncodedPrompt, divergence, pack_responses
from rubric_train_openrlhf.policy.divergence import (
    Reading,
    generalized_jsd,
    response_divergence,
    score_slopes,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rubric_core.arrays import FloatArray

BETAS = (0.0, 0.1, 0.5, 0.9, 1.0)
RESPONSES = ((7, 8, 9, 10), (11, 12), (13, 2), (14, 15, 16))
STUDENT = (EncodedPrompt((1, 20, 21), banned_token_ids=(0, 1)),) * 2 + (
    EncodedPrompt((1, 22), banned_token_ids=(0, 1)),
) * 2
TEACHER = (EncodedPrompt((1, 30, 31, 32, 20, 21), banned_token_ids=(0, 1)),) * 2 + (
    EncodedPrompt((1, 33, 34, 22), banned_token_ids=(0, 1)),
) * 2


def slow_divergence(scores_V: FloatArray, other_V: FloatArray, beta: float) -> float:
    """The definition, token by token, of two softmaxes."""
    p = np.exp(scores_V) / sum(np.exp(scores_V))
    q = np.exp(other_V) / sum(np.exp(other_V))
    total = 0.0
    for student, teacher in zip(p.tolist(), q.tolist(), strict=True):
        if beta == 1:
            total += student * np.log(student / teacher)
        elif beta == 0:
            total += teacher * np.log(teacher / student)
        else:
            mixed = beta * teacher + (1 - beta) * student
            total += beta * teacher * np.log(teacher / mixed)
            total += (1 - beta) * student * np.log(student / mixed)
    return total


def drawn(seed: int, n: int = 6, v: int = 23) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, n, v, generator=generator, dtype=torch.float64) * 3
    return scores[0], scores[1]


@pytest.mark.parametrize("beta", BETAS)
def test_the_formula_is_the_definition(beta: float) -> None:
    scores, others = drawn(1)
    found = generalized_jsd(scores.log_softmax(-1), others.log_softmax(-1), beta=beta)
    wanted = [
        slow_divergence(one, other, beta)
        for one, other in zip(scores.numpy(), others.numpy(), strict=True)
    ]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10)
    assert (found > 0).all()


@pytest.mark.parametrize("beta", BETAS)
def test_equal_distributions_have_no_divergence_and_no_slope(beta: float) -> None:
    logp = drawn(2)[0].log_softmax(-1)
    assert generalized_jsd(logp, logp, beta=beta).abs().max() < 1e-12
    assert score_slopes(logp, logp, beta=beta).abs().max() < 1e-12


@pytest.mark.parametrize("beta", BETAS)
def test_slopes_are_finite_differences(beta: float) -> None:
    scores, others = drawn(3, n=2, v=7)
    logq = others.log_softmax(-1)
    slopes = score_slopes(scores.log_softmax(-1), logq, beta=beta)
    step = 1e-6
    for row, column in np.ndindex(*scores.shape):
        nudge = torch.zeros_like(scores)
        nudge[row, column] = step
        up, down = (
            generalized_jsd((scores + sign * nudge).log_softmax(-1), logq, beta=beta)
            for sign in (1, -1)
        )
        difference = float((up - down)[row] / (2 * step))
        assert float(slopes[row, column]) == pytest.approx(difference, abs=1e-8)


def slow_model_divergence(
    student: PreTrainedModel, teacher: PreTrainedModel, beta: float, temperature: float
) -> list[float]:
    """Whole logits of each row alone, and the definition over the tokens that are not banned."""
    found: list[float] = []
    for prompt, shown, response in zip(STUDENT, TEACHER, RESPONSES, strict=True):
        logits = [
            model(torch.tensor([[*read.token_ids, *response]])).logits[
                0, len(read.token_ids) - 1 : -1
            ]
            for model, read in ((student, prompt), (teacher, shown))
        ]
        rows = [
            np.delete(one.double().numpy(), prompt.banned_token_ids, axis=1)
            / temperature
            for one in logits
        ]
        mine, its = rows
        pairs = zip(mine, its, strict=True)
        found += [slow_divergence(one, other, beta) for one, other in pairs]
    return found


def read(student: PreTrainedModel, teacher: PreTrainedModel) -> tuple[Reading, Reading]:
    return (
        Reading(student, pack_responses(STUDENT, RESPONSES)),
        Reading(teacher, pack_responses(TEACHER, RESPONSES)),
    )


@pytest.fixture
def teacher(model: PreTrainedModel) -> PreTrainedModel:
    """The student's weights, somewhat moved."""
    generator = torch.Generator().manual_seed(5)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weights in other.parameters():
            weights.mul_(1 + 0.1 * torch.randn(weights.shape, generator=generator))
    return other


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_models_diverge_as_their_whole_logits_do(
    model: PreTrainedModel, teacher: PreTrainedModel, beta: float
) -> None:
    """Those of Gemma 2 are capped, and so are not of the head alone."""
    with torch.no_grad():
        wanted = slow_model_divergence(model, teacher, beta, 0.7)
    for shares in (True, False):
        found = response_divergence(
            *read(model, teacher), beta=beta, temperature=0.7, share_prompts=shares
        )
        mask = pack_responses(STUDENT, RESPONSES).response_mask_BT
        values = found.divergence_BT[mask].detach().numpy()
        np.testing.assert_allclose(values, wanted, atol=1e-6)
        assert found.divergence_BT[~mask].abs().sum() == 0


def gradients(model: PreTrainedModel, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()  # pyright: ignore[reportUnknownMemberType]  # torch's
    return {
        name: weights.grad.clone()
        for name, weights in model.named_parameters()
        if weights.grad is not None
    }


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_gradients_are_those_of_whole_logits_and_only_the_students(
    model: PreTrainedModel,
    teacher: PreTrainedModel,
    beta: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In parts of four positions, the last of them shorter."""
    monkeypatch.setattr(divergence, "_FEWEST_ROWS", 4)
    monkeypatch.setattr(divergence, "_CPU_TILE_LOGITS", 1)
    mine, its = read(model, teacher)
    divergence_BT = response_divergence(mine, its, beta=beta).divergence_BT
    found = gradients(model, divergence_BT.square().sum())
    assert all(weights.grad is None for weights in teacher.parameters())
    logp, logq = (
        reader(tokens.input_ids_BS)
        .logits[tokens.predicting_positions]
        .index_fill(-1, torch.tensor([0, 1]), -1e30)
        .log_softmax(-1)
        for reader, tokens in (mine, its)
    )
    whole_N = generalized_jsd(logp, logq.detach(), beta=beta)
    wanted = gradients(model, whole_N.square().sum())
    assert found.keys() == wanted.keys() == dict(model.named_parameters()).keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(
            found[name], gradient, rtol=1e-3, atol=1e-5, msg=name
        )


def test_a_policy_may_teach_itself_without_a_gradient_through_the_teacher(
    model: PreTrainedModel,
) -> None:
    """Given the same prompts it has nothing to learn; given others it has."""
    mine, its = read(model, model)
    same = response_divergence(mine, mine, beta=1.0)
    assert same.divergence_BT.abs().max() < 1e-6
    other = response_divergence(mine, its, beta=1.0)
    found = gradients(model, other.divergence_BT.sum())
    assert any(bool(gradient.any()) for gradient in found.values())


def test_other_responses_and_temperatures_are_refused(
    model: PreTrainedModel,
) -> None:
    mine, its = read(model, model)
    other = pack_responses(TEACHER, ((7, 8, 9, 11), *RESPONSES[1:]))
    with pytest.raises(PolicyInputError, match="read other responses"):
        response_divergence(mine, Reading(model, other), beta=1.0)
    with pytest.raises(PolicyInputError, match="temperature 0 must be above 0"):
        response_divergence(mine, its, beta=1.0, temperature=0)
