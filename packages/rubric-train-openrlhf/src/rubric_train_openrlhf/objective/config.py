"""Settings of the objective and of the optimizer; the defaults are the paper's main run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rubric_train_openrlhf.objective.variants import (
    K3,
    AnyDivergence,
    AnySurrogate,
    Clipped,
    Importance,
    NoImportance,
)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ObjectiveConfig(_Frozen):
    """Which loss is minimised."""

    surrogate: AnySurrogate = Clipped()
    """What the policy gradient is taken of; any installed kind."""
    clip_low: float = Field(default=0.2, ge=0, le=1)
    """ε below 1: the ratio stops counting at 1 − clip_low."""
    clip_high: float = Field(default=0.2, ge=0)
    """ε above 1: the ratio stops counting at 1 + clip_high. DAPO's clip-higher is 0.28."""
    dual_clip: float | None = Field(default=None, gt=1)
    """c: bound on the loss, in |A|, where the advantage is negative; typically 3."""
    kl_coef: float = Field(default=0.01, ge=0)
    """β: weight of the divergence from the reference policy; 0 needs no reference."""
    kl: AnyDivergence = K3()
    """How the divergence of a token is estimated; any installed kind."""
    kl_input_clamp: float = Field(default=20.0, gt=0)
    """Bound on |log π_ref − log π_θ|, nats."""
    kl_output_clamp: float | None = Field(default=None, gt=0)
    """Upper bound on the divergence of a token; none in the paper, 10 in NeMo-RL and verl."""
    ratio: Literal["token", "sequence"] = "token"
    """Ratio per token, or GSPO's geometric mean per response (with clips near 3e-4)."""
    importance: Importance = NoImportance()
    """Correction for a sampler whose log-probabilities differ from the trainer's; any installed
    kind."""
    aggregation: Literal["token", "sequence"] = "token"
    """Mean over all tokens of the update, or over responses of their token means (GSPO)."""


class OptimizerConfig(_Frozen):
    """AdamW, gradient clipping and warm-up."""

    learning_rate: float = Field(default=3e-7, gt=0, allow_inf_nan=False)
    """η after the warm-up."""
    weight_decay: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    """Decoupled weight decay."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (
        0.9,
        0.999,
    )
    """Decay of the first and second moment."""
    eps: float = Field(default=1e-8, gt=0, allow_inf_nan=False)
    """Added to the root of the second moment."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """γ: gradients with a larger norm are scaled down to it; infinity never clips."""
    warmup_steps: int = Field(default=13, ge=0)
    """GRPO steps (not optimizer updates) until the learning rate is reached."""
    warmup_start_frac: float = Field(default=0.1, gt=0, le=1)
    """Share of the learning rate used in the first step."""
