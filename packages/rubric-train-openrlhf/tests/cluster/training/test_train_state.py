from __future__ import annotations

from rubric_train_openrlhf.cluster.training.trainer_states import TrainPosition


def test_a_position_comes_back_from_what_deepspeed_keeps() -> None:
    position = TrainPosition(step=7, prompts_drawn=450, wall_s=12.5)
    assert TrainPosition.of_checkpoint(position.client_state()) == position


def test_a_run_without_a_checkpoint_is_at_its_start() -> None:
    assert TrainPosition.of_checkpoint({}) == TrainPosition(step=0, prompts_drawn=0, wall_s=0.0)
