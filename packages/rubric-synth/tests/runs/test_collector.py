"""What a run does to Python's search for garbage, and that it undoes it."""

import gc

import pytest

from rubric_synth.run.engines.worker import rare_garbage_collection


def test_garbage_is_looked_for_seldom_and_as_before_afterwards() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with rare_garbage_collection():
        assert gc.get_threshold() > before
        assert gc.get_freeze_count() == frozen  # Python could only unfreeze everything
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, frozen)


def test_a_run_that_fails_leaves_the_collector_as_it_was() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="stopped"), rare_garbage_collection():
        raise ValueError("stopped")
    assert gc.get_threshold() == before
