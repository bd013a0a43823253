from collections.abc import Callable

import pytest

from rubric_core import Grounding, JudgeResult, JudgeView, Outcome
from rubric_judge import LexicalConfig, ListwiseConfig
from rubric_judge.config import judge_spec
from rubric_judge.pool.ray_actors import (
    PIECE_BYTES,
    JudgeActor,
    SharedLimiter,
    joined,
    pieces_of,
)
from rubric_judge.pool.ray_pool import shared_limits

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
async def test_an_actor_says_how_many_responses_its_judge_takes_together() -> None:
    spec = ListwiseConfig(model="m", api_base="http://127.0.0.1:9/v1", max_group=5)
    together = await JudgeActor(spec, SharedLimiter(None)).describe()
    alone = await JudgeActor(LexicalConfig(), SharedLimiter(None)).describe()
    assert (together.max_group, alone.max_group) == (5, None)


@pytest.mark.parametrize("kind", ["llm", "listwise"])
def test_actors_keep_the_limits_of_every_judge_that_asks_a_model(kind: str) -> None:
    limits = {"rpm": 30, "max_in_flight": 3}
    spec = judge_spec({"type": kind, "model": "m", "limits": limits})
    shared = shared_limits(spec)
    assert (shared.rpm, shared.max_in_flight) == (30, 3)


@pytest.mark.anyio
@pytest.mark.parametrize("length", [0, 300_000])
async def test_an_actor_judges_what_came_in_pieces_unless_nobody_waits_for_it(
    make_view: ViewFactory, length: int
) -> None:
    actor = JudgeActor(LexicalConfig(), SharedLimiter(None))

    async def judged(number: int, *, abandoned: str = "") -> JudgeResult | None:
        *begun, last = pieces_of((make_view(grounding=Grounding("é" * length)),))
        if abandoned == "first":
            await actor.abandon(number)
        for place, piece in enumerate(begun):
            await actor.take(number, place, piece)
        if abandoned == "in between":
            await actor.abandon(number)
        first, left = await actor.judge(number, last)
        rest = [await actor.give(number, place) for place in range(left)]
        if not first:
            return None
        (result,) = joined([first, *rest])
        return result

    for number in (1, 4):
        result = await judged(number)
        assert result is not None
        assert result.outcome is Outcome.SCORED
        assert await judged(number + 1, abandoned="first") is None
        assert await judged(number + 2, abandoned="in between") is None
    assert actor._pieces == actor._running == {}
    assert actor._unwanted == set()
