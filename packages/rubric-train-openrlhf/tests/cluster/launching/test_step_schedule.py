import pytest
import torch

from rubric_train_openrlhf.objective import OptimizerConfig, warmup
from rubric_train_openrlhf.objective.schedule import StepSchedule


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)


def scheduled(config: OptimizerConfig, *, steps: int = 0) -> StepSchedule:
    """A schedule after so many GRPO steps of one update each."""
    updated = optimizer()
    schedule = StepSchedule(updated, config=config)
    for _ in range(steps):
        updated.step()
        schedule.end_step()
    return schedule


@pytest.mark.parametrize("updates", [1, 4])
@pytest.mark.parametrize("warmup_steps", [0, 3])
def test_the_warm_up_counts_steps_whatever_their_updates(
    updates: int, warmup_steps: int
) -> None:
    config = OptimizerConfig(learning_rate=1.0, warmup_steps=warmup_steps)
    theirs, ours = optimizer(), optimizer()
    schedule, local = StepSchedule(theirs, config=config), warmup(ours, config=config)
    for _ in range(6):
        assert schedule.get_last_lr() == local.get_last_lr()
        for _ in range(updates):
            theirs.step()
            schedule.step(increment=1)  # as DeepSpeed calls it after each update
        schedule.end_step()
        ours.step()
        local.step()


def test_a_resumed_schedule_goes_on_where_it_was() -> None:
    config = OptimizerConfig(learning_rate=1.0, warmup_steps=4)
    before, after = scheduled(config, steps=2), scheduled(config)
    after.load_state_dict(before.state_dict())
    assert (
        after.get_last_lr()
        == before.get_last_lr()
        == scheduled(config, steps=2).get_last_lr()
    )
    assert after.get_last_lr() != scheduled(config, steps=1).get_last_lr()
