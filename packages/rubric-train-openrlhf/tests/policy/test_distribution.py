import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rubric_train_openrlhf.errors import NonFiniteLogitsError
from rubric_train_openrlhf.policy import distribution

LOGITS = torch.tensor([2.0, 0.5, -1.0, 7.0, 0.0, -3.0])
BANNED = torch.tensor([False, False, False, True, False, False])


def test_scores_hold_the_tempered_and_banned_distribution() -> None:
    scores = distribution.scores(LOGITS[None], BANNED[None], temperature=2.0)
    wanted = torch.softmax(LOGITS.masked_fill(BANNED, -torch.inf) / 2.0, 0)
    assert torch.allclose(scores.softmax(-1)[0], wanted)
    assert float(scores.softmax(-1)[0, 3]) == 0.0


@pytest.mark.parametrize("way", ["inverse", "race"])
def test_both_ways_of_drawing_follow_the_distribution(way: str) -> None:
    n_draws = 20_000
    generator = torch.Generator().manual_seed(0)
    scores = distribution.scores(LOGITS.expand(n_draws, -1), BANNED, temperature=1.0)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    if way == "race":
        tokens, totals = distribution._by_race(weights, generator)
    else:
        uniform = torch.rand(n_draws, 1, generator=generator)
        tokens, totals = distribution._by_inverse(weights, uniform)
    wanted = scores[0].softmax(-1)
    seen = torch.bincount(tokens[:, 0], minlength=6) / n_draws
    assert torch.allclose(seen, wanted, atol=4 * 0.5 / n_draws**0.5)
    assert seen[3] == 0
    assert torch.allclose(totals[0, 0], weights[0].double().sum())


@given(
    uniform=st.floats(0, 1, exclude_max=True, width=32),
    weights=st.lists(
        st.sampled_from([0.0, 1e-30, 1e-7, 0.3, 1.0]), min_size=1, max_size=8
    ),
)
def test_a_token_of_weight_zero_is_never_drawn(
    uniform: float, weights: list[float]
) -> None:
    if not any(weights):
        return
    uniform_N1 = torch.tensor([[min(uniform, 1 - 2**-24)]])
    tokens, _ = distribution._by_inverse(torch.tensor([weights]), uniform_N1)
    assert weights[int(tokens)] > 0


def test_a_row_draws_the_same_whichever_others_are_left() -> None:
    scores = torch.randn(5, 40, generator=torch.Generator().manual_seed(1))

    def drawn(rows: list[int]) -> list[int]:
        rows_N = torch.tensor(rows)
        generator = torch.Generator().manual_seed(2)
        draw = distribution.sample(
            scores[rows_N], rows_N=rows_N, total_rows=5, generator=generator
        )
        return draw.tokens_N.tolist()

    every = drawn([0, 1, 2, 3, 4])
    assert drawn([1, 4]) == [every[1], every[4]]


@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("way", ["sample", "greedy"])
def test_scores_that_are_not_finite_are_refused(broken: float, way: str) -> None:
    scores = torch.zeros(3, 4)
    scores[1] = broken

    def draw() -> None:
        if way == "greedy":
            distribution.most_likely(scores)
        generator, rows_N = torch.Generator(), torch.arange(3)
        distribution.sample(scores, rows_N=rows_N, total_rows=3, generator=generator)

    with pytest.raises(
        NonFiniteLogitsError,
        match="1 of 3 rows are not finite numbers \\(the first is row 1\\)",
    ):
        draw()
