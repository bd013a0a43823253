"""The k best tokens, and the fewest that hold probability p."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from rubric_train_openrlhf.policy.distribution import BANNED_SCORE, by_uniform, narrowed

_SCORES = st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=12)


@given(scores=_SCORES, top_k=st.integers(1, 12), top_p=st.floats(0.01, 1.0))
def test_what_is_kept_is_the_top_and_no_more(
    scores: list[float], top_k: int, top_p: float
) -> None:
    kept = (
        narrowed(torch.tensor([scores]), top_p=top_p, top_k=top_k)[0] > BANNED_SCORE / 2
    )
    values = torch.tensor(scores)
    assert bool(kept[values.argmax()])
    # Nothing that was dropped is better than what was kept.
    if not bool(kept.all()):
        assert values[~kept].max() <= values[kept].min()
    ties = int((values == values[kept].min()).sum())
    assert int(kept.sum()) <= max(top_k + ties - 1, 1)
    best = values.double().topk(min(top_k, len(scores))).values
    shares = torch.softmax(best, dim=0)
    if top_p < 1 and len(set(scores)) == len(scores):
        held = float(shares[: int(kept.sum())].sum())
        assert held >= top_p - 1e-9
        assert (
            int(kept.sum()) == 1
            or float(shares[: int(kept.sum()) - 1].sum()) < top_p + 1e-9
        )


@given(scores=_SCORES, uniform=st.floats(0, 1, exclude_max=True, width=32))
def test_a_banned_token_is_never_drawn(scores: list[float], uniform: float) -> None:
    banned = torch.tensor([[*scores, BANNED_SCORE]]).roll(1, dims=1)
    token = int(by_uniform(banned, torch.tensor([uniform]))[0])
    assert 1 <= token <= len(scores)


def test_draws_have_the_probabilities_of_the_softmax() -> None:
    shares = torch.tensor([0.5, 0.3, 0.2])
    draws = 20_000
    uniform = torch.rand(draws, generator=torch.Generator().manual_seed(0))
    tokens = by_uniform(shares.log().repeat(draws, 1), uniform)
    found = torch.bincount(tokens, minlength=3) / draws
    assert all(
        abs(float(one - share)) < 5 * math.sqrt(float(share) / draws)
        for one, share in zip(found, shares, strict=True)
    )
