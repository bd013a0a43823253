"""Divergence of a policy from its teacher at sampled responses, never holding all logits."""

from collections.abc import Sequence
from math import log, log1p
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch.autograd.function import once_differentiable
from transformers import PreTrainedModel

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import onednn
from rubric_train_openrlhf.policy.logprobs import Positions, has_plain_head
from rubric_train_openrlhf.policy.rollouts import TokenBatch
from rubric_train_openrlhf.policy.sharing import response_states

# Logits held at once, of each of the two: 16 MiB of float32 on a CPU, 256 MiB on a GPU.
_CPU_TILE_LOGITS = 2**22
_GPU_TILE_LOGITS = 2**26
_FEWEST_ROWS = 16


def generalized_jsd(
    logp_NV: torch.Tensor, logq_NV: torch.Tensor, *, beta: float
) -> torch.Tensor:
    """Divergence of a student p from its teacher q, over the whole vocabulary.

        D_β = β KL(q ‖ m) + (1 − β) KL(p ‖ m),   m = β q + (1 − β) p
        D_1 = KL(p ‖ q), the reverse KL,   D_0 = KL(q ‖ p), the forward KL

    Args:
        logp_NV: the student's log-probabilities, [N, V], nats.
        logq_NV: the teacher's.
        beta: β in [0, 1]. At its ends the divergence between tends to 0, and the two KLs stand
            in its place.

    Returns:
        [N], nats, at least 0 within rounding.

    Source: arXiv 2306.13649 (GKD), Eq. 1.
    """
    if beta == 1:
        return (logp_NV.exp() * (logp_NV - logq_NV)).sum(dim=-1)
    if beta == 0:
        return (logq_NV.exp() * (logq_NV - logp_NV)).sum(dim=-1)
    logm_NV = _mixture(logp_NV, logq_NV, beta)
    of_teacher_N = (logq_NV.exp() * (logq_NV - logm_NV)).sum(dim=-1)
    of_student_N = (logp_NV.exp() * (logp_NV - logm_NV)).sum(dim=-1)
    return beta * of_teacher_N + (1 - beta) * of_student_N


def score_slopes(
    logp_NV: torch.Tensor, logq_NV: torch.Tensor, *, beta: float
) -> torch.Tensor:
    """Gradient of `generalized_jsd` to the student's scores, whose softmax p is.

        ∂D_β/∂s_v = p_v (g_v − Σ_u p_u g_u),   g = (1 − β) log(p / m)
        g = log(p / q) at β = 1;   ∂D_0/∂s_v = p_v − q_v

    Args:
        logp_NV: the student's log-probabilities, [N, V], nats.
        logq_NV: the teacher's, through which no gradient goes.
        beta: β in [0, 1].

    Returns:
        [N, V]; each row sums to 0.
    """
    p_NV = logp_NV.exp()
    if beta == 0:
        return p_NV.sub_(logq_NV.exp())
    if beta == 1:
        g_NV = logp_NV - logq_NV
    else:
        logm_NV = _mixture(logp_NV, logq_NV, beta)
        g_NV = logm_NV.neg_().add_(logp_NV).mul_(1 - beta)
    mean_N1 = (p_NV[:, None] @ g_NV[:, :, None])[:, 0]
    return g_NV.sub_(mean_N1).mul_(p_NV)


def _mixture(logp_NV: torch.Tensor, logq_NV: torch.Tensor, beta: float) -> torch.Tensor:
    return torch.logaddexp(logp_NV + log1p(-beta), logq_NV + log(beta))


class ResponseDivergence(NamedTuple):
    """Figures of each response token; 0 outside the response mask."""

    divergence_BT: torch.Tensor
    """Divergence from the teacher, nats, float32, with gradient to the student."""
    logprobs_BT: torch.Tensor
    """The student's log π(token), without gradient."""
    entropy_BT: torch.Tensor
    """Entropy of the student's next-token distribution, nats, without gradient."""


class Reading(NamedTuple):
    """A model, and B responses after the prompts that it is given."""

    model: PreTrainedModel
    tokens: TokenBatch


def response_divergence(
    student: Reading,
    teacher: Reading,
    *,
    beta: float,
    temperature: float = 1.0,
    share_prompts: bool = True,
) -> ResponseDivergence:
    """Compare a policy with its teacher at every token of sampled responses, over all tokens.

    Both read the same responses, each after its own prompt. The tokens that the student's prompt
    bans are left out of both distributions, and both are taken at the same temperature.

    Args:
        student: any Hugging Face causal language model; its mode and gradients are the caller's.
        teacher: one of the same vocabulary, which may be the student; it gets no gradient. Its
            responses are the student's, in the same order.
        beta: of `generalized_jsd`; 1 is the reverse KL.
        temperature: τ > 0, the one the responses were drawn with.
        share_prompts: read the prompt of several rows once where the architecture allows.

    Returns:
        Divergences, log-probabilities and entropies, each [B, T].

    Raises:
        PolicyInputError: a temperature that is not positive, or two batches of other responses.
    """
    if not temperature > 0:
        raise PolicyInputError(
            f"temperature {temperature!r} must be above 0 to compare distributions"
        )
    batch = student.tokens
    if not torch.equal(batch.response_tokens_BT, teacher.tokens.response_tokens_BT):
        raise PolicyInputError(
            "student and teacher read other responses; pack the same rows for both"
        )
    mask_BT = batch.response_mask_BT
    rows_N, steps_N = mask_BT.nonzero(as_tuple=True)
    positions = Positions(
        batch.response_tokens_BT[rows_N, steps_N],
        batch.prompt_index_B[rows_N],
        batch.prompts.banned_PV(len(_head(student.model).weight)),
        temperature,
    )
    if has_plain_head(student.model):
        with torch.no_grad():
            teacher_NH = _states(teacher, share_prompts=share_prompts)
        states_NH = _states(student, share_prompts=share_prompts)
        figures = _from_states(
            (states_NH, _head(student.model)),
            (teacher_NH, _head(teacher.model)),
            positions,
            beta,
        )
    else:
        with torch.no_grad():
            logq_NV = _from_logits(teacher, positions)
        figures = _figures(_from_logits(student, positions), logq_NV, positions, beta)
    blank_BT = torch.zeros(mask_BT.shape, device=mask_BT.device)
    return ResponseDivergence(
        *(blank_BT.index_put((rows_N, steps_N), figure_N) for figure_N in figures)
    )


def _head(model: PreTrainedModel) -> torch.nn.Linear:
    return cast("torch.nn.Linear", model.get_output_embeddings())


def _states(read: Reading, *, share_prompts: bool) -> torch.Tensor:
    with onednn.by_onednn(_head(read.model).weight):
        return response_states(read.model, read.tokens, share_prompts=share_prompts)


def _from_logits(read: Reading, positions: Positions) -> torch.Tensor:
    logits_BSV = read.model(input_ids=read.tokens.input_ids_BS, use_cache=False).logits
    logits_NV = logits_BSV[read.tokens.predicting_positions]
    return positions.scores(logits_NV).log_softmax(dim=-1)


_Headed: TypeAlias = tuple[torch.Tensor, torch.nn.Linear]
"""Last hidden states [N, H], and what makes logits of them."""
_Figures: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Divergence, log-probability and entropy of N positions."""


def _from_states(
    student: _Headed, teacher: _Headed, positions: Positions, beta: float
) -> _Figures:
    states_NH, head = student
    device = states_NH.device.type
    dtype = head.weight.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    teacher_NH, other = teacher
    parameters: list[torch.Tensor | None] = [states_NH, head.weight, head.bias]
    parameters += [teacher_NH, other.weight, other.bias]
    inputs = [
        None if parameter is None else parameter.to(dtype) for parameter in parameters
    ]
    function: Any = _HeadDivergence
    with torch.autocast(device, enabled=False):
        return function.apply(positions, beta, *inputs)


class _HeadDivergence(torch.autograd.Function):
    """Takes features, weights and bias of the student, then those of the teacher."""

    @staticmethod
    def forward(
        ctx: Any, positions: Positions, beta: float, *heads: torch.Tensor | None
    ) -> _Figures:
        ctx.save_for_backward(*heads)
        ctx.positions = positions
        ctx.beta = beta
        parts: list[_Figures] = []
        for rows in _tiles(cast("Any", heads[0]), cast("Any", heads[1])):
            logp_NV = _logprobs(heads[:3], positions, rows)
            logq_NV = _logprobs(heads[3:], positions, rows)
            parts.append(_figures(logp_NV, logq_NV, positions, beta, rows))
        divergence_N, logprobs_N, entropy_N = map(torch.cat, zip(*parts, strict=True))
        ctx.mark_non_differentiable(logprobs_N, entropy_N)
        return divergence_N, logprobs_N, entropy_N

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- torch's own pattern
        ctx: Any, gradient_N: torch.Tensor, *_: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        heads = cast("tuple[Any, ...]", ctx.saved_tensors)
        features_NH, weight_VH, bias_V = heads[:3]
        positions: Positions = ctx.positions
        to_features = torch.empty_like(features_NH)
        to_weight = torch.zeros_like(weight_VH, dtype=torch.float32)
        to_bias = None if bias_V is None else torch.zeros_like(bias_V).float()
        # A caller may go backward inside autocast; forward was computed outside of it.
        with torch.autocast(features_NH.device.type, enabled=False):
            for rows in _tiles(features_NH, weight_VH):
                logp_NV = _logprobs(heads[:3], positions, rows)
                logq_NV = _logprobs(heads[3:], positions, rows)
                slope_N1 = gradient_N[rows, None] / positions.temperature
                by_logit = score_slopes(logp_NV, logq_NV, beta=ctx.beta)
                by_logit = by_logit.mul_(slope_N1).to(weight_VH.dtype)
                to_features[rows] = onednn.product(by_logit, weight_VH.T)
                to_weight += onednn.product(by_logit.T, features_NH[rows].T)
                if to_bias is not None:
                    to_bias += by_logit.sum(dim=0)
        if to_bias is not None:
            to_bias = to_bias.to(weight_VH.dtype)
        to_weight = to_weight.to(weight_VH.dtype)
        return (None, None, to_features, to_weight, to_bias, None, None, None)


def _logprobs(
    head: Sequence[torch.Tensor | None], positions: Positions, rows: slice
) -> torch.Tensor:
    features_NH, weight_VH, bias_V = head
    assert features_NH is not None  # noqa: S101  # only a bias may be missing
    assert weight_VH is not None  # noqa: S101
    logits_NV = onednn.product(features_NH[rows], weight_VH, bias_V)
    return positions.scores(logits_NV, rows).log_softmax(dim=-1)


def _figures(
    logp_NV: torch.Tensor,
    logq_NV: torch.Tensor,
    positions: Positions,
    beta: float,
    rows: slice = slice(None),
) -> _Figures:
    divergence_N = generalized_jsd(logp_NV, logq_NV, beta=beta)
    known_NV = logp_NV.detach()
    entropy_N = -(known_NV.exp() * known_NV).sum(dim=-1)
    logprobs_N = known_NV.gather(-1, positions.tokens_N[rows, None])[:, 0]
    return divergence_N, logprobs_N, entropy_N


def _tiles(features_NH: torch.Tensor, weight_VH: torch.Tensor) -> list[slice]:
    """Cut N rows into parts whose logits are held at once."""
    n = len(features_NH)
    most = _GPU_TILE_LOGITS if features_NH.is_cuda else _CPU_TILE_LOGITS
    height = max(_FEWEST_ROWS, most // len(weight_VH))
    return [slice(start, min(n, start + height)) for start in range(0, n, height)]
