"""What a reliability study found, as it is written to `reliability.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Unit = Literal["document", "task", "response"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(_Frozen):
    """A number and its bootstrap interval; None where the data cannot say."""

    value: float | None
    low: float | None = None
    high: float | None = None
    resampled: Unit | None = None
    """What was drawn with replacement; None without an interval."""


class CriterionNoise(_Frozen):
    """Test–retest noise of one criterion under one judge."""

    judge: str
    criterion: str
    """Its id; tasks that share the id are pooled."""
    tasks: int
    responses: int
    """With at least two scored replicates."""
    share: float
    """Mean α_j over those responses."""
    tau2: Estimate
    """τ_j²: variance of z_j over replicates."""


class JudgeReliability(_Frozen):
    """One judge on its own."""

    judge: str
    judgements: int
    replicates: int
    """Most judgements of one response."""
    invalid_frac: float
    unavailable_frac: float
    reasons: dict[str, int]
    """Judgements without scores, by reason. None of them enters a statistic."""
    mean_reward: Estimate
    tau2: Estimate
    """τ²: variance of z over replicates, pooled over criteria."""
    predicted: Estimate
    """τ² / M_eff: the paper's prediction of the variance of the reward."""
    independent: Estimate
    """Σ α_j² τ_j²: the prediction with each criterion's own noise."""
    measured: Estimate
    """Variance of the reward over replicates, which is αᵀΣα."""
    inflation: Estimate
    """measured / independent: above 1 where criteria err together."""
    icc1: Estimate
    """ICC(1): one-way random effects, single judgement, over all responses."""
    icc1_within: Estimate
    """The same within the group of a task, where the advantage is formed."""
    flips: Estimate
    """Share of advantages whose sign two judgements of the same group give differently."""
    flipped_weight: Estimate
    """The share of |A| that these have."""
    groups: int
    """Tasks with at least two responses judged at least twice."""
    constant_frac: Estimate
    """Share of judged groups whose rewards are all equal: no advantage at all."""
    below_noise_frac: Estimate
    """Share of groups whose spread, noise taken off, is below the noise of one judgement."""
    replicates_needed: dict[str, int | None]
    """By target reliability within groups: judgements to average (Spearman–Brown)."""


class PairAgreement(_Frozen):
    """Two judges, one judgement each, on the responses that both scored."""

    a: str
    b: str
    responses: int
    bias: Estimate
    """Mean of reward(a) − reward(b)."""
    spearman: Estimate
    kendall: Estimate
    """τ-b over all responses."""
    kendall_within: Estimate
    """Mean over tasks of τ-b within the task's responses."""
    kappa: Estimate
    """Quadratically weighted κ of criterion scores in tenths, all criteria pooled."""
    kappa_by_criterion: dict[str, float | None]


class PanelAgreement(_Frozen):
    """All judges together, one judgement each."""

    judges: int
    responses: int
    """That every judge scored."""
    icc_a1: Estimate
    """ICC(A,1): two-way random effects, absolute agreement, single judgement, of rewards."""
    alpha: Estimate
    """Krippendorff's α of criterion scores in tenths, interval metric."""
    alpha_by_criterion: dict[str, float | None]
    effective_judges: Estimate
    """(Σλ)² / Σλ² over the eigenvalues of the correlation matrix of the judges' rewards."""


class ReliabilityReport(_Frozen):
    """A whole study."""

    documents: int
    tasks: int
    responses: int
    confidence: float
    resamples: int
    seed: int
    judges: tuple[JudgeReliability, ...]
    criteria: tuple[CriterionNoise, ...]
    """Noisiest first."""
    pairs: tuple[PairAgreement, ...]
    panel: PanelAgreement | None
    """None for one judge."""

    @property
    def marks(self) -> dict[str, str]:
        """A mark for each judge, in tables and figures that its name is too long for."""
        return {one.judge: f"J{number}" for number, one in enumerate(self.judges, 1)}
