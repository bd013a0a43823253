"""Settings of the objective and the optimizer, and the parts that packages may add kinds of.

Each kind is its settings and one method; the formulas are pure functions in `surrogate` and
`ratio`, which load torch when they are first used. The defaults are the paper's main run.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

import rubric_train_openrlhf.objective as formulas  # whose names load torch when they are used
from rubric_core.plugins.variants import Variant, chosen

if TYPE_CHECKING:
    from torch import Tensor

    from rubric_train_openrlhf.objective.surrogate import Clips, Surrogate


class Divergence(Variant):
    """How far the policy is from the reference at one token: `objective.kl`."""

    group: ClassVar[str] = "rubric.divergences"
    type: str
    """Which one: the name of an entry point `rubric.divergences`."""

    @abstractmethod
    def of_log_ratio(self, log_ratio: Tensor) -> Tensor:
        """Return KL_t from u = log π_ref − log π_θ, already bounded; any shape, nats, the same."""


class K3(Divergence):
    """e^u − 1 − u: never negative, and on average the divergence.

    Source: paper, §3.2; Schulman, Approximating KL divergence (2020).
    """

    type: str = "k3"

    def of_log_ratio(self, log_ratio: Tensor) -> Tensor:
        """Return `k3_of`."""
        from rubric_train_openrlhf.objective.surrogate import k3_of  # loads torch

        return k3_of(log_ratio)


class K2(Divergence):
    """u²/2: never negative; on average off by third order, its gradient that of the divergence.

    Source: Schulman, Approximating KL divergence (2020).
    """

    type: str = "k2"

    def of_log_ratio(self, log_ratio: Tensor) -> Tensor:
        """Return u²/2."""
        return log_ratio.square() / 2


class SurrogateLoss(Variant):
    """The loss of a token, from its ratio and the advantage: `objective.surrogate`."""

    group: ClassVar[str] = "rubric.surrogates"
    type: str
    """Which one: the name of an entry point `rubric.surrogates`."""

    @abstractmethod
    def of_ratio(
        self, ratio_BT: Tensor, advantages_B: Tensor, *, clips: Clips
    ) -> Surrogate:
        """Return the loss of every token, and where a bound keeps it from having a gradient.

        Args:
            ratio_BT: r_t with its gradient, shape [B, T], positive; 1 on padding.
            advantages_B: shape [B].
            clips: `clip_low`, `clip_high` and `dual_clip` of the objective; a kind that does not
                read them says so in its docstring.
        """


class Clipped(SurrogateLoss):
    """−min(r A, clip(r, 1 − ε_low, 1 + ε_high) A), bounded by −c A where A < 0 if c is given.

    Source: paper, §3.2.
    """

    type: str = "clipped"

    def of_ratio(
        self, ratio_BT: Tensor, advantages_B: Tensor, *, clips: Clips
    ) -> Surrogate:
        """Return `clipped_surrogate`."""
        return formulas.clipped_surrogate(
            ratio_BT,
            advantages_B,
            clip_low=clips.low,
            clip_high=clips.high,
            dual_clip=clips.dual,
        )


class ImportanceCorrection(Variant):
    """Correction for a sampler whose probabilities are not the trainer's: `importance`."""

    group: ClassVar[str] = "rubric.importance"
    reads_old_logprobs: ClassVar[bool] = True
    """Whether the trainer computes log π_old before an update. The surrogate's ratio is then
    π_θ / π_old, and tokens are weighted; if not, it is π_θ / π_gen, without weights."""
    type: str
    """Which one: the name of an entry point `rubric.importance`."""

    @abstractmethod
    def weights(
        self, old_logprobs_BT: Tensor, gen_logprobs_BT: Tensor, *, mask_BT: Tensor
    ) -> Tensor:
        """Return the detached weight of every token, [B, T], ≥ 0; 0 on padding.

        Args:
            old_logprobs_BT: log π_old recomputed by the trainer, nats.
            gen_logprobs_BT: log π_gen recorded while sampling, nats.
            mask_BT: True on response tokens.
        """

    def unbounded(
        self, old_logprobs_BT: Tensor, gen_logprobs_BT: Tensor, *, mask_BT: Tensor
    ) -> Tensor:
        """Return the weights without their bounds: where the two differ is a figure of the run."""
        return formulas.importance_ratio(
            old_logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT
        )


class NoImportance(ImportanceCorrection):
    """No correction: the surrogate's ratio is π_θ / π_gen, as in the main run.

    Source: paper, §3.2.
    """

    reads_old_logprobs: ClassVar[bool] = False
    type: str = "none"

    def weights(
        self, old_logprobs_BT: Tensor, gen_logprobs_BT: Tensor, *, mask_BT: Tensor
    ) -> Tensor:
        """Return 1 on every token."""
        del old_logprobs_BT
        return mask_BT.to(gen_logprobs_BT.dtype)


class _Leveled(ImportanceCorrection):
    """A correction of tokens, or of responses."""

    level: Literal["token", "sequence"] = "token"
    """One weight per token, or the product over the response."""

    def unbounded(
        self, old_logprobs_BT: Tensor, gen_logprobs_BT: Tensor, *, mask_BT: Tensor
    ) -> Tensor:
        """Return `importance_ratio` at the level."""
        return formulas.importance_ratio(
            old_logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT, level=self.level
        )

    def weights(
        self, old_logprobs_BT: Tensor, gen_logprobs_BT: Tensor, *, mask_BT: Tensor
    ) -> Tensor:
        """Return the ratios within the bounds."""
        return self.bounded(
            self.unbounded(old_logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT)
        )

    @abstractmethod
    def bounded(self, ratio_BT: Tensor) -> Tensor:
        """Return what is left of the ratios, [B, T], ≥ 0."""


class Truncated(_Leveled):
    """TIS: weights π_old / π_gen capped from above.

    Source: paper, §C; https://fengyao.notion.site/off-policy-rl.
    """

    type: str = "tis"
    cap: float = Field(default=2.0, gt=0)
    """C, the largest weight; infinity is plain importance sampling."""

    def bounded(self, ratio_BT: Tensor) -> Tensor:
        """Return `truncated_weights`."""
        return formulas.truncated_weights(ratio_BT, cap=self.cap)


class _Banded(ImportanceCorrection):
    """A correction that keeps what is between two bounds."""

    low: float
    high: float

    @model_validator(mode="after")
    def _check_band(self) -> Self:
        if self.low >= self.high:
            raise ValueError(
                f"low must be below high, got low={self.low!r}, high={self.high!r}"
            )
        return self


class IcePop(_Banded, _Leveled):
    """ICEPOP: weights π_old / π_gen outside a band become 0.

    Source: paper, §C; Ring-1T, ICEPOP.
    """

    type: str = "icepop"
    low: float = Field(default=0.5, ge=0)
    """Smallest weight that is kept."""
    high: float = Field(default=5.0, gt=0)
    """Largest weight that is kept."""

    def bounded(self, ratio_BT: Tensor) -> Tensor:
        """Return `icepop_weights`."""
        return formulas.icepop_weights(ratio_BT, low=self.low, high=self.high)


class SeqMaskTruncated(_Banded):
    """Seq-Mask-TIS: responses whose geometric mean ratio is outside a band weigh 0.

    Source: paper, §C.
    """

    type: str = "seq_mask_tis"
    low: float = Field(default=0.999, ge=0)
    """Smallest geometric mean of π_old / π_gen that is kept."""
    high: float = Field(default=1.002, gt=0)
    """Largest geometric mean of π_old / π_gen that is kept."""

    def weights(
        self, old_logprobs_BT: Tensor, gen_logprobs_BT: Tensor, *, mask_BT: Tensor
    ) -> Tensor:
        """Return `sequence_masked_weights`."""
        return formulas.sequence_masked_weights(
            old_logprobs_BT,
            gen_logprobs_BT,
            mask_BT=mask_BT,
            low=self.low,
            high=self.high,
        )


AnyDivergence: TypeAlias = Annotated[SerializeAsAny[Divergence], chosen(Divergence)]
AnySurrogate: TypeAlias = Annotated[
    SerializeAsAny[SurrogateLoss], chosen(SurrogateLoss)
]
Importance: TypeAlias = Annotated[
    SerializeAsAny[ImportanceCorrection], chosen(ImportanceCorrection)
]


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True
    )


class ObjectiveConfig(_Frozen):
    """The loss that is minimised."""

    surrogate: AnySurrogate = Clipped()
    """Loss term that the policy gradient is taken of; any installed kind."""
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
    betas: tuple[
        Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]
    ] = (
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
