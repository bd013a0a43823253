"""Settings of the objective and of the optimizer; the defaults are the paper's main run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class NoImportance(_Frozen):
    """No correction: the surrogate's ratio is π_θ / π_gen, as in the main run."""

    type: Literal["none"] = "none"


class Truncated(_Frozen):
    """TIS: weights π_old / π_gen capped from above."""

    type: Literal["tis"] = "tis"
    cap: float = Field(default=2.0, gt=0)
    """C, the largest weight; infinity is plain importance sampling."""
    level: Literal["token", "sequence"] = "token"
    """One weight per token, or the product over the response."""


class IcePop(_Frozen):
    """ICEPOP: weights π_old / π_gen outside a band become 0."""

    type: Literal["icepop"] = "icepop"
    low: float = Field(default=0.5, ge=0)
    """Smallest weight that is kept."""
    high: float = Field(default=5.0, gt=0)
    """Largest weight that is kept."""
    level: Literal["token", "sequence"] = "token"
    """One weight per token, or the product over the response."""

    @model_validator(mode="after")
    def _check_band(self) -> IcePop:
        _require_band(self.low, self.high)
        return self


class SeqMaskTruncated(_Frozen):
    """Seq-Mask-TIS: responses whose geometric mean ratio is outside a band weigh 0."""

    type: Literal["seq_mask_tis"] = "seq_mask_tis"
    low: float = Field(default=0.999, ge=0)
    """Smallest geometric mean of π_old / π_gen that is kept."""
    high: float = Field(default=1.002, gt=0)
    """Largest geometric mean of π_old / π_gen that is kept."""

    @model_validator(mode="after")
    def _check_band(self) -> SeqMaskTruncated:
        _require_band(self.low, self.high)
        return self


Importance = Annotated[
    NoImportance | Truncated | IcePop | SeqMaskTruncated, Field(discriminator="type")
]


class ObjectiveConfig(_Frozen):
    """Which loss is minimised."""

    clip_low: float = Field(default=0.2, ge=0, le=1)
    """ε below 1: the ratio stops counting at 1 − clip_low."""
    clip_high: float = Field(default=0.2, ge=0)
    """ε above 1: the ratio stops counting at 1 + clip_high. DAPO's clip-higher is 0.28."""
    dual_clip: float | None = Field(default=None, gt=1)
    """c: bound on the loss, in |A|, where the advantage is negative; typically 3."""
    kl_coef: float = Field(default=0.01, ge=0)
    """β: weight of the divergence from the reference policy; 0 needs no reference."""
    kl_input_clamp: float = Field(default=20.0, gt=0)
    """Bound on |log π_ref − log π_θ|, nats."""
    kl_output_clamp: float | None = Field(default=None, gt=0)
    """Upper bound on the divergence of a token; none in the paper, 10 in NeMo-RL and verl."""
    ratio: Literal["token", "sequence"] = "token"
    """Ratio per token, or GSPO's geometric mean per response (with clips near 3e-4)."""
    importance: Importance = NoImportance()
    """Correction for a sampler whose log-probabilities differ from the trainer's."""
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


def _require_band(low: float, high: float) -> None:
    if low >= high:
        raise ValueError(f"low must be below high, got low={low!r}, high={high!r}")
