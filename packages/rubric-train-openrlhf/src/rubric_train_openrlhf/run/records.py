"""Typed rows of the run folder's files."""

from operator import not_
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rubric_core import JudgeResult, Thought  # pydantic resolves them at runtime

Status = Literal["running", "finished", "failed", "interrupted", "diverged"]
AuditSource = Literal["heldout", "training"]
AlarmState = Literal["starting", "cannot_tell", "quiet", "alarm"]
"""State of an audit's test: the audits that it compares with are not complete yet (`starting`),
there are too few for an answer (`cannot_tell`), no drift is sure (`quiet`), or one is (`alarm`)."""


def _is_none(value: object) -> bool:
    return value is None


class _Row(BaseModel):
    """One JSON object on one line; texts stay out of validation errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ClusterStep(_Row):
    """Figures of a step on a cluster beside those of every step."""

    sampler_gap: float
    """Mean |log π_engine − log π_policy| of the tokens trained on, in nats, before the update.
    Small where only the arithmetic differs, large where the engines hold other weights."""
    dropped_frac: float | None = None
    """Share of tokens, or of responses, out of the bounds of the importance correction, which caps
    them or leaves them out; None without a correction."""
    updates: int
    """Optimiser updates made; those without a valid response are left out."""
    experience_s: float
    """Seconds for the log-probabilities of policy and reference, and for dividing the credit."""
    sync_s: float
    """Seconds to bring new weights from the policy to the engines."""
    engine_restarts: int
    """Engines that died in this step and were started again."""
    resent_responses: int
    """Responses that died with them and were asked for again."""
    judge_restarts: int
    """Processes of the judge that died since the step before and were replaced."""
    attribution: dict[str, float]
    """Mean |share of the advantage| of the criteria of each pool; empty under the decoupled
    estimator."""


class _StepRow(_Row):
    step: int
    """1 for the first, 0 before training."""


class JudgingFigures(_Row):
    """Figures of the judgements of a step."""

    zero_reward_by_reason: dict[str, float]
    """Shares of all responses with reward 0; "scored" are zeros that the judge gave, and
    "empty_answer" and "unclosed_thought" those of responses that it was not asked about."""
    criteria: dict[str, float]
    """Mean z by id of the criterion where ids repeat in the run's tasks, else by kind."""
    m_eff_mean: float
    """Mean M_eff of the groups' rubrics."""
    invalid_frac: float
    """Share of all judgements of the step. In it and the next three figures, the judgements that
    dynamic sampling dropped count too."""
    unavailable_frac: float
    degenerate_group_frac: float
    by_fallback: dict[str, int] = Field(default_factory=dict, exclude_if=not_)
    """How many judgements each fallback of a `litellm_config` gave; left out of a row where none
    did."""
    withheld_weight_frac: float | None = Field(default=None, exclude_if=_is_none)
    """Mean share of the rubrics' weight that a calibration keeps from the reward; `m_eff_mean` and
    `criteria` are of what it admits. Left out of a row without a calibration."""
    moved_weight_frac: float | None = Field(default=None, exclude_if=_is_none)
    """Mean share of a rubric's weight that `rubric_weights` moved to other criteria for the
    advantage; left out of a row without it."""


class UpdateMetrics(_Row):
    """Means over the optimiser updates of one step, each of them a mean over its tokens."""

    loss: float
    kl: float
    clip_frac: float
    ratio_mean: float
    dual_clip_frac: float | None = None
    """Share of tokens whose loss `objective.dual_clip` bounds. None, as the next two, in rows of an
    earlier version."""
    is_weight_mean: float | None = None
    """Weight of `objective.importance`; 1 without a correction."""
    is_weight_bounded_frac: float | None = None
    """Share of tokens whose weight its bounds change."""
    entropy: float | None
    """None on a cluster: OpenRLHF computes it only for an entropy bonus, and there is none here."""
    grad_norm: float
    """Before clipping."""
    lr: float


class Timing(_Row):
    """Seconds of the parts of a pass over prompts."""

    generate_s: float
    judge_s: float
    """Sum over judgements that run side by side, and beside generation too."""
    judge_wait_s: float
    """Seconds from the end of the last response to the last judgement: training stood still."""


class AnswerShares(_Row):
    """Shares of the responses of a step or of a pass that hold more or less than an answer.

    None in rows of an earlier version. A response without an answer has reward 0, and no judge is
    asked about it.
    """

    thought_frac: float | None = None
    """Share of responses with a thought, whether it ends or not."""
    unclosed_thought_frac: float | None = None
    """Share whose thought does not end, which have no answer and count as truncated."""
    empty_answer_frac: float | None = None
    """Share with nothing but white space where the answer should be, after a thought or not."""


class AuditCounts(_Row):
    """Audits of a step or of a held-out pass."""

    chosen: int
    """Responses that were to be audited."""
    used: int
    """Those of them that both judges scored: the others are no numbers."""
    invalid: int
    """Audits out of contract."""
    unavailable: int
    """Audits that did not happen."""
    unjudged: int
    """Responses that the training judge has not scored; none of them is counted above."""
    training_mean: float | None
    """Mean reward by the training judge of what was used; None where nothing was."""
    audit_mean: float | None
    """The same by the audit judge."""
    gap: float | None
    """Mean over the questions of training less audit reward."""


class AuditFigures(AuditCounts):
    """Audits of a step or of a held-out pass, and where the test stands after them."""

    drift: float | None
    """The gap less that of the start; None while the start is not complete."""
    drift_low: float | None
    """Least rise that the gap surely had at some look so far; None where none above 0 is sure."""
    log_evidence: float
    """Natural log of the evidence of all audits so far; log(1/alpha) is an alarm."""
    cannot_tell: int
    """1 where there are too few audits for an answer, at the start or because they fail."""
    alarm: int
    """1 from the alarm on."""
    alarm_step: int | None
    """Step of the first alarm."""
    onset: int | None
    """Steps done by the first policy that seems to drift; None where nothing points to one."""


class Watched(_Row):
    """Figures of a step beside its credit: audits, and what programs see in the responses."""

    audit: AuditFigures | None = None
    """None where no training response is audited."""
    monitor: dict[str, float] = Field(default_factory=dict)
    """Figures by name; none without monitors."""


class AuditRow(AuditFigures, _StepRow):
    """A line of audit.jsonl: what the test is computed from, and what it said."""

    source: AuditSource
    state: AlarmState
    gaps: tuple[float, ...]
    """Training less audit reward of each question, the mean over its responses that were used."""

    @property
    def figures(self) -> AuditFigures:
        """Part of it that stands beside the other figures of the step or pass."""
        return AuditFigures(**self.model_dump(include=set(AuditFigures.model_fields)))


class MetricsRow(AnswerShares, Timing, UpdateMetrics, JudgingFigures, _StepRow):
    """One training step: a line of metrics.jsonl.

    Reward figures are over the responses that were trained on.
    """

    reward_mean: float
    reward_std: float
    zero_reward_frac: float
    """Sum of zero_reward_by_reason."""
    advantage_abs_mean: float
    response_tokens_mean: float
    response_tokens_max: int
    truncated_frac: float
    """Share that came to no end token, or to no end of the thought."""
    generated_tokens: int
    tokens_per_s: float
    update_s: float
    step_s: float
    resampled_prompts: int
    cluster: ClusterStep | None = Field(default=None, exclude_if=_is_none)
    """Left out of the row where the backend is not a cluster."""
    audit: AuditFigures | None = Field(default=None, exclude_if=_is_none)
    """Left out of the row where no training response is audited."""
    monitor: dict[str, float] = Field(default_factory=dict, exclude_if=not_)
    """Figures of the responses by program, by name; left out of a row without monitors."""


class DistillationRow(AnswerShares, _StepRow):
    """One step of self-distillation: a line of distillation.jsonl. No response has a reward."""

    divergence: float
    """Mean divergence of a token from the teacher, nats, before each update: the loss."""
    entropy: float
    """Mean entropy of the student's next-token distribution, nats."""
    grad_norm: float
    """Before clipping."""
    lr: float
    response_tokens_mean: float
    response_tokens_max: int
    truncated_frac: float
    """Share that came to no end token, or to no end of the thought."""
    generated_tokens: int
    tokens_per_s: float
    generate_s: float
    update_s: float
    step_s: float
    monitor: dict[str, float] = Field(default_factory=dict, exclude_if=not_)
    """Figures of the responses by program, by name; left out of a row without monitors."""


class HeldoutReward(_Row):
    """Rewards of the judge in one pass over N held-out questions, without penalties."""

    reward_mean: float
    """Mean over questions of the mean over their samples."""
    reward_std: float
    """Standard deviation between questions."""
    zero_reward_frac: float
    n: int
    """Questions with at least one usable judgement."""
    criteria: dict[str, float]
    """Mean z by id of the criterion where ids repeat in the run's tasks, else by kind."""
    audit: AuditFigures | None = Field(default=None, exclude_if=_is_none)
    """Left out where no held-out response is audited."""


class HeldoutRow(AnswerShares, HeldoutReward, _StepRow):
    """One pass over the held-out questions: a line of heldout.jsonl."""

    response_tokens_mean: float
    eval_s: float
    best: bool
    """Better than every row before it."""


class _ResponseRow(_Row):
    id: str
    step: int
    task_id: str


class RolloutRow(_ResponseRow):
    """Prompt and response of the policy: the side that anything may read."""

    prompt: str
    response: str
    """All that the policy wrote, its thought with its marks included."""
    answer: str | None = Field(default=None, exclude_if=_is_none)
    """The part that was judged; left out of a row where it is the whole response."""
    thought: Thought | None = Field(default=None, exclude_if=_is_none)
    """Kind of thought before the answer; left out of a row without a thought."""
    reward: float | None
    """Reward of the judge; None where the sample was masked."""
    advantage: float
    """Advantage in training; on a cluster, as the policy's own processes report it."""
    tokens: int
    """Tokens of the whole response, its thought and end token included."""
    ended: bool
    """Whether the response came to its end token."""
    outcome: str

    @property
    def judged(self) -> str:
        """The part of the response that was judged."""
        return self.response if self.answer is None else self.answer


class JudgementRow(_ResponseRow):
    """Judgement of one response, and its effect on the advantage."""

    result: JudgeResult
    z: dict[str, float]
    shares: dict[str, float]
    attribution: dict[str, float]
    """Sums to the row's advantage; "shaping" is what the penalties added."""
    weights: dict[str, float] = Field(default_factory=dict, exclude_if=not_)
    """Shares by which the advantage was computed, which `rubric_weights` makes of `shares`; left
    out of a row without it."""


class AdmissionFile(_Row):
    """Criteria that a calibration admits to the reward: content of admission.json."""

    factors: dict[str, float]
    """Factors of weights other than 1, by id or kind as calibrated; 0 masks."""
    rates: dict[str, tuple[float, float]]
    """TPR and FPR that scores are corrected for, by id or kind."""


class RunSummary(_Row):
    """State of a run: content of summary.json."""

    status: Status
    """"running" is what a killed run leaves too: then no process holds its folder."""
    steps: int
    """Number of finished steps."""
    total_steps: int | None = None
    """Number of steps that are asked for."""
    phase: str | None = None
    """Current phase, or the phase in which the run failed or was stopped."""
    phase_done: int = 0
    """Finished items of the phase; 0 where nothing is counted."""
    phase_total: int | None = None
    rate: float | None = None
    """Increase of `phase_done` in a second."""
    eta_s: float | None = None
    """Seconds that are left of the phase."""
    note: str | None = None
    """Figures of the moment, and the current step within the phase."""
    updated_at: str | None = None
    """Date and time of this file, UTC; a run that goes on is never more than seconds behind."""
    pid: int | None = None
    """Process that writes this file."""
    host: str | None = None
    """Its machine."""
    best_step: int | None = None
    best_heldout_reward: float | None = None
    first_heldout_reward: float | None = None
    last_heldout_reward: float | None = None
    wall_s: float = 0.0
    """Seconds over all restarts, without loading and without the work that a kill threw away."""
    by_fallback: dict[str, int] = Field(default_factory=dict)
    """How many judgements of the steps each fallback of a `litellm_config` gave."""
    unclosed_thought_frac: float | None = None
    """Share of the responses of the last step whose thought does not end."""
    empty_answer_frac: float | None = None
    """Share of the responses of the last step with an empty answer."""
    admission: dict[str, float] = Field(default_factory=dict)
    """Factor of each criterion's weight that a calibration does not leave at 1; 0 where it
    masks the criterion from the reward."""
    alarm_step: int | None = Field(default=None, exclude_if=_is_none)
    """Step of the first alarm of an audit; left out where there was none."""
    onset: int | None = Field(default=None, exclude_if=_is_none)
    """Step of the first policy that seems to drift, once there was an alarm."""
    error: str | None = None
    warning: str | None = None
    """Reason why a run that ended well is worth a look."""


def row_id(*, step: int, prompt: int, response: int) -> str:
    """Name one response of a step, as in s000001-p003-g07."""
    return f"s{step:06d}-p{prompt:03d}-g{response:02d}"
