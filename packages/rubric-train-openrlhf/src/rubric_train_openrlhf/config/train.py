"""The configuration of a run, whole, and what its parts require of each other."""

from __future__ import annotations

from math import inf, isfinite
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rubric_core.reward.estimators import AdvantageConfig, GroupAdvantages
from rubric_judge.config import ListwiseConfig
from rubric_train_openrlhf.config import sections
from rubric_train_openrlhf.config.cluster import ClusterConfig
from rubric_train_openrlhf.objective import ObjectiveConfig
from rubric_train_openrlhf.policy_config import SftConfig


class PolicySettings(sections.Section):
    """What the policy's side of a run may know of its configuration: no task file, no judge."""

    steps: Annotated[int, Field(ge=1)]
    """Rollout batches to train on."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """All randomness of the run follows from it."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 computes in it under autocast; the trained weights stay float32."""
    rollout: sections.RolloutConfig = Field(default_factory=sections.RolloutConfig)
    """Sampling."""
    dynamic_sampling: sections.DynamicSamplingConfig | None = None
    """Off unless given."""
    objective: ObjectiveConfig = Field(default_factory=ObjectiveConfig)
    """Loss."""
    optim: sections.OptimConfig = Field(default_factory=sections.OptimConfig)
    """Optimiser."""
    validation: sections.ValidationConfig = Field(default_factory=sections.ValidationConfig)
    """Held-out passes, if data.validation is given."""
    checkpoint: sections.CheckpointConfig = Field(default_factory=sections.CheckpointConfig)
    """Checkpoints."""
    cluster: ClusterConfig = Field(default_factory=ClusterConfig)
    """Machines and processes of `backend: openrlhf`; the local backend has no use for it."""


class TrainConfig(PolicySettings):
    """One training run."""

    backend: Literal["local", "openrlhf"] = "local"
    """Who runs it: `local` is one process on a CPU or one GPU, `openrlhf` is Ray, DeepSpeed and
    vLLM on the machines of `cluster`."""
    model: sections.ModelConfig
    """The policy before training, which is the reference model too."""
    sft: SftConfig | None = None
    """Warm start on the reference answers of the training tasks, before step 1."""
    data: sections.DataConfig
    """Tasks."""
    judge: sections.JudgingConfig = Field(default_factory=sections.JudgingConfig)
    """Judging."""
    advantage: AdvantageConfig = Field(default_factory=GroupAdvantages)
    """Advantages: any installed estimator."""
    shaping: sections.ShapingConfig = Field(default_factory=sections.ShapingConfig)
    """Penalties."""
    threads: Annotated[int, Field(ge=1)] | None = None
    """CPU threads; a resumed run repeats the killed one bit by bit only with as many."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes a GPU if there is one."""
    out: sections.UserPath
    """Run folder."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if problems := self.problems():
            raise ValueError("; ".join(problems))
        return self

    @property
    def batch_size(self) -> int:
        """Responses per step (B = P·G)."""
        return self.rollout.prompts * self.rollout.group_size

    def problems(self) -> list[str]:
        """What the sections, each right in itself, do not let each other do."""
        table = self._misfits()
        if self.backend == "openrlhf":
            table |= self.cluster.problems(self.rollout, self.optim) | self._cluster_misfits()
        return [said for said, is_so in table.items() if is_so]

    def _misfits(self) -> dict[str, bool]:
        """What to say of the sections of every backend, and whether it is so."""
        rollout, penalty = self.rollout, self.shaping.length_penalty
        buffer, heldout = penalty.buffer_tokens if penalty else 0, self.validation
        temperature = heldout.temperature
        is_untold = self.sft is not None and "learning_rate" not in self.sft.model_fields_set
        spec, largest = self.judge.spec, max(rollout.group_size, heldout.samples)
        most = spec.max_group if isinstance(spec, ListwiseConfig) else inf
        paths = {"out": self.out, "data.train": self.data.train}
        is_corrected = self.judge.correction != "none"
        return {
            f"rollout.group_size={rollout.group_size}: the baseline of a response is the mean of "
            "its group's others; use at least 2": rollout.group_size < 2,  # noqa: PLR2004  # a group is two
            f"rollout.prompts·rollout.group_size={self.batch_size} is not divisible by "
            f"optim.updates_per_rollout={self.optim.updates_per_rollout}; every update takes an "
            "equal share of the responses": self.batch_size % self.optim.updates_per_rollout > 0,
            f"shaping.length_penalty.buffer_tokens={buffer} must be less than "
            f"rollout.max_new_tokens={rollout.max_new_tokens}": buffer >= rollout.max_new_tokens,
            f"advantage.estimator={self.advantage.estimator!r} does not read the reward, so "
            "penalties on it have no effect; switch shaping off or use "
            "estimator='group'": self.shaping.enabled and not self.advantage.reads_rewards,
            f"judge.correction={self.judge.correction!r} takes its rates from a calibration; give "
            "judge.calibration": is_corrected and self.judge.calibration is None,
            f"judge.correction={self.judge.correction!r} has no effect under advantage.estimator="
            f"{self.advantage.estimator!r}, which normalises each criterion by itself; set it to "
            "none": is_corrected and not self.advantage.reads_rewards,
            "judge.correction makes rewards that may be negative, which shaping.alpha_stop would "
            "raise; use shaping.length_penalty": is_corrected
            and self.shaping.alpha_stop is not None,
            f"validation.temperature={temperature} must be 0, which is greedy, or at least "
            f"{sections.LOWEST_TEMPERATURE}": 0 < temperature < sections.LOWEST_TEMPERATURE,
            f"validation.samples={heldout.samples} at validation.temperature=0 would be the same "
            "response each time; set a temperature": heldout.samples > 1 and temperature == 0,
            f"sft.learning_rate is not set, and its default, {SftConfig().learning_rate:g}, is for "
            "a tiny policy; set one for the model: 8 billion weights take about 5e-6, and adapters "
            "(cluster.warm_start.lora) about ten times that": is_untold
            and not isinstance(self.model, sections.TinyModel),
            f"{largest} responses to a prompt (rollout.group_size, validation.samples) are over "
            f"judge.spec.max_group={most}: a listwise judge scores them in one call; raise "
            "max_group as far as the context of its model goes": largest > most,
            f"objective.kl_coef={self.objective.kl_coef} must be a finite number": not isfinite(
                self.objective.kl_coef
            ),
            **{
                f"{name}={str(path)!r} holds a null character; give a path": "\0" in str(path)
                for name, path in paths.items()
            },
        }

    def _cluster_misfits(self) -> dict[str, bool]:
        """What to say of the machines beside the other sections, and whether it is so."""
        is_flash = "flash" in self.cluster.attention
        return {
            f"device={self.device!r} and cluster.device={self.cluster.device!r} disagree; leave "
            "device at 'auto'": self.device not in {"auto", self.cluster.device},
            "judge.spec.type='listwise' needs all responses of a group at once, and the engines of "
            "a cluster hand them over one by one; use type: llm, or "
            "backend: local": isinstance(self.judge.spec, ListwiseConfig),
            "precision='float32': flash attention computes in 16 bits; use precision='bfloat16', "
            "or cluster.deepspeed.attention='sdpa'": self.precision == "float32" and is_flash,
        }
