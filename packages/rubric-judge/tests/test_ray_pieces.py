from __future__ import annotations

from collections.abc import Callable

import pytest

from rubric_core import Grounding, JudgeView
from rubric_judge.pool.ray_actors import PIECE_BYTES, joined, pieces_of

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
