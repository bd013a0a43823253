"""What a run does to Python's search for garbage, and that it undoes it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from rubric_synth.pipeline.recording import rare_garbage_collection

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    """Undo what the tests' conftest.py has frozen, and do it again."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


def test_garbage_is_looked_for_seldom_and_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with rare_garbage_collection():
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_a_run_that_fails_leaves_the_collector_as_it_was() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="stopped"), rare_garbage_collection():
        raise ValueError("stopped")
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_what_the_caller_has_frozen_stays_frozen_and_nothing_else_is() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with rare_garbage_collection():
        assert gc.get_freeze_count() <= frozen
    assert 0 < gc.get_freeze_count() <= frozen
