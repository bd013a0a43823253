import pytest
import torch
from pydantic import ValidationError

from rubric_train_openrlhf.objective import OptimizerConfig, adamw, warmup

PAPER = OptimizerConfig()


def _parameter() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.ones(1, dtype=torch.float64))


def _step(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> None:
    parameter.grad = torch.full_like(parameter, 0.5)
    optimizer.step()


def _rates(
    config: OptimizerConfig, *, steps: int, updates_per_step: int = 1
) -> list[float]:
    parameter = _parameter()
    optimizer = adamw([parameter], config=config)
    schedule = warmup(optimizer, config=config)
    rates = []
    for _ in range(steps):
        for _ in range(updates_per_step):
            rates.append(schedule.get_last_lr()[0])
            _step(optimizer, parameter)
        schedule.step()
    return rates


def test_optimizer_has_the_values_of_the_main_run() -> None:
    group = adamw([_parameter()], config=PAPER).param_groups[0]
    chosen = {
        name: group[name] for name in ("lr", "betas", "eps", "weight_decay", "amsgrad")
    }
    assert chosen == {
        "lr": 3e-7,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.01,
        "amsgrad": False,
    }
    assert PAPER.max_grad_norm == 1.0


def test_first_update_of_the_optimizer_by_hand() -> None:
    parameter = _parameter()
    _step(adamw([parameter], config=PAPER), parameter)
    # After one step m̂ = 0.5 and √v̂ = 0.5.
    assert parameter.item() == pytest.approx(
        1 - 3e-7 * 0.01 - 3e-7 * 0.5 / (0.5 + 1e-8), abs=1e-15
    )


def test_warmup_begins_at_a_tenth_and_is_over_after_thirteen_steps() -> None:
    rates = _rates(PAPER, steps=16)
    expected = [3e-7 * (0.1 + 0.9 * min(k, 13) / 13) for k in range(16)]
    assert rates == pytest.approx(expected, rel=1e-12)
    assert rates[0] == pytest.approx(3e-8)
    assert rates[13:] == pytest.approx([3e-7] * 3, rel=1e-12)


def test_warmup_counts_training_steps_not_optimizer_updates() -> None:
    rates = _rates(PAPER, steps=3, updates_per_step=4)
    assert rates == [rate for rate in _rates(PAPER, steps=3) for _ in range(4)]


def test_no_warmup_starts_at_the_full_rate() -> None:
    assert _rates(OptimizerConfig(warmup_steps=0), steps=3) == [3e-7] * 3


def test_schedule_resumes_from_its_state() -> None:
    parameter = _parameter()
    optimizer = adamw([parameter], config=PAPER)
    schedule = warmup(optimizer, config=PAPER)
    for _ in range(5):
        _step(optimizer, parameter)
        schedule.step()
    resumed_optimizer = adamw([_parameter()], config=PAPER)
    resumed = warmup(resumed_optimizer, config=PAPER)
    resumed_optimizer.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(schedule.state_dict())
    for each, its_optimizer in ((schedule, optimizer), (resumed, resumed_optimizer)):
        its_optimizer.step()
        each.step()
    assert resumed.get_last_lr() == schedule.get_last_lr()
    assert resumed_optimizer.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": 0.0},
        {"learning_rate": float("inf")},
        {"betas": (0.9, 1.0)},
        {"eps": 0.0},
        {"max_grad_norm": 0.0},
        {"warmup_steps": -1},
        {"warmup_start_frac": 0.0},
        {"lr": 1e-6},
    ],
)
def test_setting_outside_its_range_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        OptimizerConfig.model_validate(wrong)
