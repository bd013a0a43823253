from rubric_train_openrlhf.cluster.training.trainer_states import TrainPosition


def test_a_position_comes_back_from_what_deepspeed_keeps() -> None:
    position = TrainPosition(step=7, prompts_drawn=450, wall_s=12.5)
    kept = {"ds_version": "0.18", "global_steps": 28, **position.model_dump()}
    assert TrainPosition.model_validate(kept) == position


def test_a_run_without_a_checkpoint_is_at_its_start() -> None:
    of_openrlhf = {"episode": 0, "global_step": 0, "data_loader_state_dict": {}}
    assert TrainPosition.model_validate(of_openrlhf) == TrainPosition(
        step=0, prompts_drawn=0
    )
