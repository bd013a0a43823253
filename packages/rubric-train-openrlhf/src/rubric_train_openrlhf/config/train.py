"""The configuration of a run, whole, and what its parts require of each other."""

from __future__ import annotations

from math import inf, isfinite
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from rubric_core.configuration import said_where
from rubric_core.files import toml_beside
from rubric_core.reward.estimators import AdvantageConfig, GroupAdvantages
from rubric_judge.config import ListwiseConfig
from rubric_train_openrlhf.config import sections
from rubric_train_openrlhf.config.cluster import ClusterConfig
from rubric_train_openrlhf.objective import ObjectiveConfig
from rubric_train_openrlhf.policy_config import Section, SftConfig

_TEXTS: Final[dict[str, str]] = toml_beside(__file__, "problems.toml")["run"]


class PolicySettings(Section):
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
            raise ValueError("\n".join(problems))
        return self

    @property
    def batch_size(self) -> int:
        """Responses per step (B = P·G)."""
        return self.rollout.prompts * self.rollout.group_size

    def problems(self) -> tuple[str, ...]:
        """What the sections, each right in itself, do not let each other do."""
        holds, of_cluster = self._misfits(), tuple[str, ...]()
        if self.backend == "openrlhf":
            of_cluster = self.cluster.problems(self.rollout, self.optim)
        values = {"out": str(self.out), "train": str(self.data.train)}
        rate, lowest = SftConfig().learning_rate, sections.LOWEST_TEMPERATURE
        values |= {"largest": str(self._largest_group)}
        said = said_where(holds, _TEXTS, run=self, rate=rate, lowest=lowest, **values)
        return said + of_cluster

    @property
    def _largest_group(self) -> int:
        return max(self.rollout.group_size, self.validation.samples)

    def _misfits(self) -> dict[str, bool]:
        """Of each text about the sections, whether it is so."""
        penalty, heldout = self.shaping.length_penalty, self.validation
        buffer = penalty.buffer_tokens if penalty else 0
        is_tiny, on_cluster = isinstance(self.model, sections.TinyModel), self.backend == "openrlhf"
        is_untold = self.sft is not None and "learning_rate" not in self.sft.model_fields_set
        is_flash = on_cluster and "flash" in self.cluster.attention
        spec, is_corrected = self.judge.spec, self.judge.correction != "none"
        most = spec.max_group if isinstance(spec, ListwiseConfig) else inf
        return {
            "small_group": self.rollout.group_size < 2,  # noqa: PLR2004  # a group is two
            "unequal_updates": self.batch_size % self.optim.updates_per_rollout > 0,
            "large_buffer": buffer >= self.rollout.max_new_tokens,
            "unread_reward": self.shaping.enabled and not self.advantage.reads_rewards,
            "bare_correction": is_corrected and self.judge.calibration is None,
            "idle_correction": is_corrected and not self.advantage.reads_rewards,
            "stopped_correction": is_corrected and self.shaping.alpha_stop is not None,
            "large_group": self._largest_group > most,
            "low_temperature": 0 < heldout.temperature < sections.LOWEST_TEMPERATURE,
            "same_samples": heldout.samples > 1 and heldout.temperature == 0,
            "untold_rate": is_untold and not is_tiny,
            "infinite_kl": not isfinite(self.objective.kl_coef),
            "null_in_out": "\0" in str(self.out),
            "null_in_train": "\0" in str(self.data.train),
            "other_device": on_cluster and self.device not in {"auto", self.cluster.device},
            "listwise_on_cluster": on_cluster and isinstance(spec, ListwiseConfig),
            "flash_in_float32": is_flash and self.precision == "float32",
        }
