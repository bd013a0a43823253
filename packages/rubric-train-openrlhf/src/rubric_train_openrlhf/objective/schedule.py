"""The optimizer and its learning rate: torch's own classes with the paper's values."""

from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LinearLR

from rubric_train_openrlhf.objective.variants import OptimizerConfig


def adamw(parameters: Iterable[nn.Parameter], *, config: OptimizerConfig) -> AdamW:
    """AdamW over all parameters as one group.

        θ ← θ − η λ θ − η m̂ / (√v̂ + ε)

    Args:
        parameters: the parameters to train.
        config: η, λ (weight decay), betas and ε.

    Returns:
        The optimizer, at the full learning rate until a warm-up is attached.

    Source: paper, §4.3, hyperparameters; arXiv 1711.05101 (AdamW).
    """
    trained = list(parameters)
    return AdamW(
        trained,
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
        # torch's default needs room for another copy of all weights on a GPU, and takes
        # five times as long on a CPU.
        fused=all(parameter.device.type in {"cpu", "cuda"} for parameter in trained),
    )


def warmup(optimizer: Optimizer, *, config: OptimizerConfig) -> LinearLR:
    """Linear warm-up over the first GRPO steps, then a constant learning rate.

        η_k = η · (f + (1 − f) · min(k, K) / K),   k = 0, 1, … GRPO steps done

    Call `step()` once per GRPO step, after all of its optimizer updates: counted per update, a
    rollout with four updates would warm up four times too fast.

    Args:
        optimizer: optimizer whose learning rate is scheduled; it changes at once, to f η.
        config: K (warmup_steps; 0 means no warm-up) and f (warmup_start_frac).

    Returns:
        The scheduler; its state belongs in a checkpoint beside the optimizer's.

    Source: paper, §4.3, hyperparameters.
    """
    # LinearLR with no iterations would stay at the start factor for ever.
    start = config.warmup_start_frac if config.warmup_steps else 1.0
    return LinearLR(
        optimizer,
        start_factor=start,
        end_factor=1.0,
        total_iters=max(1, config.warmup_steps),
    )


class StepSchedule:
    """The schedule of `warmup`, moved by `end_step` alone."""

    def __init__(self, optimizer: Optimizer, *, config: OptimizerConfig) -> None:
        """Set the learning rate of the first step at once."""
        self._warmup = warmup(optimizer, config=config)

    def step(self, *_args: object, **_options: object) -> None:
        """Do nothing: DeepSpeed calls this after every optimizer update of a step."""

    def end_step(self) -> None:
        """Go on to the learning rate of the next GRPO step."""
        self._warmup.step()

    def get_last_lr(self) -> list[float]:
        """Learning rate of the running step, once per group of weights."""
        return [float(rate) for rate in self._warmup.get_last_lr()]

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint."""
        return self._warmup.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._warmup.load_state_dict(state)
