from collections.abc import Callable

import pytest

from rubric_core import Grounding, JudgeResult, JudgeView, Outcome
from rubric_judge import JudgeSetupError, LexicalConfig, ListwiseConfig
from rubric_judge.pool.ray_actors import (
    PIECE_BYTES,
    JudgeActor,
    SharedLimiter,
    joined,
    pieces_of,
)

ViewFactory = Callable[..., JudgeView]


@pytest.mark.parametrize("length", [0, 50_000, 65_536, 300_000])
def test_views_come_back_from_pieces_that_ray_does_not_share(
    make_view: ViewFactory, length: int
) -> None:
    views = [make_view(grounding=Grounding("é" * length)) for _ in range(2)]
    pieces = pieces_of(views)
    assert all(0 < len(piece) <= PIECE_BYTES for piece in pieces)
    assert sum(map(len, pieces)) > 2 * length
    assert joined(pieces) == views


@pytest.mark.anyio
async def test_an_actor_refuses_a_judge_that_needs_whole_groups() -> None:
    spec = ListwiseConfig(model="m", api_base="http://127.0.0.1:9/v1")
    with pytest.raises(
        JudgeSetupError, match="beside each other, and Ray's actors get them one"
    ):
        await JudgeActor(spec, SharedLimiter(None)).describe()


@pytest.mark.anyio
@pytest.mark.parametrize("length", [0, 300_000])
async def test_an_actor_judges_what_came_in_pieces_unless_nobody_waits_for_it(
    make_view: ViewFactory, length: int
) -> None:
    actor = JudgeActor(LexicalConfig(), SharedLimiter(None))

    async def judged(number: int, *, abandoned: str = "") -> JudgeResult | None:
        *begun, last = pieces_of(make_view(grounding=Grounding("é" * length)))
        if abandoned == "first":
            await actor.abandon(number)
        for place, piece in enumerate(begun):
            await actor.take(number, place, piece)
        if abandoned == "in between":
            await actor.abandon(number)
        first, left = await actor.judge(number, last)
        rest = [await actor.give(number, place) for place in range(left)]
        return joined([first, *rest]) if first else None

    for number in (1, 4):
        result = await judged(number)
        assert result is not None
        assert result.outcome is Outcome.SCORED
        assert await judged(number + 1, abandoned="first") is None
        assert await judged(number + 2, abandoned="in between") is None
    assert actor._pieces == actor._running == {}
    assert actor._unwanted == set()
