"""The configuration of a run, whole: what its parts require of each other, read and written.

A configuration is a YAML file with dotted overrides over it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from math import isfinite
from operator import not_
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, Union, cast, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, model_validator

from rubric_core import ConfigError
from rubric_core.configuration import Keys, Source, validated
from rubric_core.reward.estimators import AdvantageConfig, GroupAdvantages
from rubric_judge.config import CascadeConfig, JudgeSpec, ListwiseConfig
from rubric_judge.ui.yaml_files import read_yaml, yaml_place, yaml_value
from rubric_train_openrlhf.config import sections
from rubric_train_openrlhf.config.cluster import ClusterConfig
from rubric_train_openrlhf.config.method import Grpo, Method, is_grpo
from rubric_train_openrlhf.config.trackers import TrackerConfig, tracker_misfits
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.objective import ObjectiveConfig
from rubric_train_openrlhf.policy_config import Section, SftConfig


class PolicySettings(Section):
    """Settings that the policy's side of a run may know: no task file, no judge."""

    steps: sections.Count
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
    on_mismatch: Literal["stop", "warn"] = "stop"
    """Reaction where the first update, at unchanged weights, gives tokens other probabilities than
    they were drawn with, or than the reference that it starts from gives them."""
    validation: sections.ValidationConfig = Field(
        default_factory=sections.ValidationConfig
    )
    """Held-out passes, if data.validation is given."""
    checkpoint: sections.CheckpointConfig = Field(
        default_factory=sections.CheckpointConfig
    )
    """Checkpoints."""
    cluster: ClusterConfig = Field(default_factory=ClusterConfig)
    """Machines and processes of `backend: openrlhf`; the local backend has no use for it."""


def _is_none(value: object) -> bool:
    return value is None


class TrainConfig(PolicySettings):
    """One training run."""

    backend: Literal["local", "openrlhf"] = "local"
    """Who runs it: `local` is one process on a CPU or one GPU, `openrlhf` is Ray, DeepSpeed and
    vLLM on the machines of `cluster`."""
    model: sections.ModelConfig
    """The policy before training, which is the reference model too."""
    method: Method = Field(default_factory=Grpo, exclude_if=is_grpo)
    """How it learns: from rewards, or from itself shown passage and rubric."""
    sft: SftConfig | None = None
    """Warm start on the reference answers of the training tasks, before step 1."""
    data: sections.DataConfig
    """Tasks."""
    judge: sections.JudgingConfig = Field(default_factory=sections.JudgingConfig)
    """Judging."""
    audit: sections.AuditConfig | None = Field(default=None, exclude_if=_is_none)
    """A second judge, and the alarm that the policy learns the first; off unless given."""
    monitors: bool | None = Field(default=None, exclude_if=_is_none)
    """Figures of every step's responses by program, never in the reward, as `monitor` of
    metrics.jsonl; left out, they are on where `audit` is."""
    advantage: AdvantageConfig = Field(default_factory=GroupAdvantages)
    """Advantages: any installed estimator."""
    rubric_weights: sections.RubricWeightsConfig | None = Field(
        default=None, exclude_if=_is_none
    )
    """Weights of criteria that change from group to group; the rubric's own unless given."""
    shaping: sections.ShapingConfig = Field(default_factory=sections.ShapingConfig)
    """Penalties."""
    threads: sections.Count | None = None
    """CPU threads; a resumed run repeats the killed one bit by bit only with as many."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes a GPU if there is one."""
    out: sections.UserPath
    """Run folder."""
    trackers: tuple[TrackerConfig, ...] = Field(default=(), exclude_if=not_)
    """Where else the figures of TensorBoard are shown, and those of criteria and judge."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if problems := self.problems():
            raise ValueError("\n".join(problems))
        return self

    @property
    def batch_size(self) -> int:
        """Responses per step (B = P·G)."""
        return self.rollout.prompts * self.rollout.group_size

    @property
    def is_monitored(self) -> bool:
        """Whether programs look at every step's responses."""
        return self.audit is not None if self.monitors is None else self.monitors

    def problems(self) -> tuple[str, ...]:
        """Return the conflicts between sections that are each right in themselves."""
        misfits = (
            *self._batch_misfits(),
            *self._reward_misfits(),
            *self._judge_misfits(),
            *self._audit_misfits(),
            *self._sampling_misfits(),
            *self._value_misfits(),
            *tracker_misfits(self.trackers),
            *self.method.misfits(self._changed(), backend=self.backend),
            *self._backend_misfits(),
        )
        if self.backend != "openrlhf":
            return misfits
        return misfits + self.cluster.problems(self.rollout, self.optim)

    def traps(self) -> tuple[str, ...]:
        """Return settings that run on any backend but seldom do what was meant, each by its key."""
        warmup = self.optim.warmup_steps
        if self.steps > warmup:
            return ()
        trap = (
            f"optim.warmup_steps={warmup} and steps={self.steps}: the run ends before the learning "
            "rate is reached"
        )
        return (trap,)

    def _batch_misfits(self) -> Iterator[str]:
        size = self.rollout.group_size
        if size < self.method.fewest_responses:
            yield (
                f"rollout.group_size={size}: the baseline of a response is the mean of its group's "
                "others; use at least 2"
            )
        updates = self.optim.updates_per_rollout
        if self.batch_size % updates > 0:
            yield (
                f"rollout.prompts·rollout.group_size={self.batch_size} is not divisible by "
                f"optim.updates_per_rollout={updates}; every update takes an equal share of the "
                "responses"
            )
        penalty = self.shaping.length_penalty
        longest = self.rollout.max_new_tokens
        if penalty is not None and penalty.buffer_tokens >= longest:
            yield (
                f"shaping.length_penalty.buffer_tokens={penalty.buffer_tokens} must be less than "
                f"rollout.max_new_tokens={longest}"
            )

    def _reward_misfits(self) -> Iterator[str]:
        estimator = self.advantage.estimator
        reads_rewards = self.advantage.reads_rewards
        if self.shaping.enabled and not reads_rewards:
            yield (
                f"advantage.estimator={estimator!r} does not read the reward, so penalties on it "
                "have no effect; switch shaping off or use estimator='group'"
            )
        if self.rubric_weights is not None:
            yield from self.rubric_weights.misfits(self.advantage)
        correction = self.judge.correction
        if correction == "none":
            return
        if self.judge.calibration is None:
            yield (
                f"judge.correction={correction!r} takes its rates from a calibration; give "
                "judge.calibration"
            )
        if not reads_rewards:
            yield (
                f"judge.correction={correction!r} has no effect under "
                f"advantage.estimator={estimator!r}, which normalises each criterion by itself; "
                "set it to none"
            )
        if self.shaping.alpha_stop is not None:
            yield (
                "judge.correction makes rewards that may be negative, which shaping.alpha_stop "
                "would raise; use shaping.length_penalty"
            )

    def _judge_misfits(self) -> Iterator[str]:
        """Yield what a verdict by probability is trained with: a calibration that admits it."""
        model = self.judge.language_model
        if model is None or not model.is_by_probability:
            return
        if self.judge.calibration is None:
            yield (
                "judge.spec: `verdict: probability` needs judge.calibration: what a model's "
                "probability of a verdict is worth differs by judge and by criterion; label "
                "answers, write a calibration of this judge with `rubric-judge calibrate`, or use "
                "`verdict: sampled`"
            )
        elif self.judge.uncalibrated == "admit":
            yield (
                "judge.uncalibrated='admit' and `verdict: probability`: a criterion that was not "
                "calibrated would enter the reward by an untried probability; use 'mask' or "
                "'refuse'"
            )

    def _audit_misfits(self) -> Iterator[str]:
        audit = self.audit
        is_followed = self.checkpoint.best_by == "audit"
        if audit is None:
            if is_followed:
                yield "checkpoint.best_by='audit' needs an audit judge; give audit.spec"
            return
        if audit.spec == self.judge.spec:
            yield (
                "audit.spec is judge.spec: a judge that audits itself sees no drift; give another "
                "model, prompt or granularity"
            )
        if isinstance(audit.spec, ListwiseConfig):
            yield (
                "audit.spec.type='listwise' scores the responses of a group beside each other, "
                "and only a share of them is audited; use type: llm"
            )
        looks_at_heldout = self.data.validation is not None and audit.heldout_frac > 0
        if not looks_at_heldout and not audit.training_frac:
            yield (
                "audit has nothing to score: give data.validation, or audit.training_frac "
                "above 0"
            )
        if is_followed and not looks_at_heldout:
            yield (
                "checkpoint.best_by='audit' compares held-out passes; give data.validation and "
                "audit.heldout_frac above 0"
            )

    def _sampling_misfits(self) -> Iterator[str]:
        spec = self.judge.spec
        largest = max(self.rollout.group_size, self.validation.samples)
        if isinstance(spec, ListwiseConfig) and largest > spec.max_group:
            yield (
                f"{largest} responses to a prompt (rollout.group_size, validation.samples) are "
                f"over judge.spec.max_group={spec.max_group}: a listwise judge scores them in one "
                "call; raise max_group as far as the context of its model goes"
            )
        temperature = self.validation.temperature
        lowest = sections.LOWEST_TEMPERATURE
        if 0 < temperature < lowest:
            yield (
                f"validation.temperature={temperature} must be 0, which is greedy, or at least "
                f"{lowest}"
            )
        samples = self.validation.samples
        if samples > 1 and temperature == 0:
            yield (
                f"validation.samples={samples} at validation.temperature=0 would be the same "
                "response each time; set a temperature"
            )

    def _value_misfits(self) -> Iterator[str]:
        is_untold = (
            self.sft is not None and "learning_rate" not in self.sft.model_fields_set
        )
        if is_untold and not isinstance(self.model, sections.TinyModel):
            yield (
                f"sft.learning_rate is not set, and its default, {SftConfig().learning_rate:g}, is "
                "for a tiny policy; set one for the model: 8 billion weights take about 5e-6, and "
                "adapters (cluster.warm_start.lora) about ten times that"
            )
        if not isfinite(self.objective.kl_coef):
            yield f"objective.kl_coef={self.objective.kl_coef} must be a finite number"
        out = str(self.out)
        if "\0" in out:
            yield f"out={out!r} holds a null character; give a path"
        train = str(self.data.train)
        if "\0" in train:
            yield f"data.train={train!r} holds a null character; give a path"

    def _changed(self) -> list[str]:
        """Return the names of the sections that differ from what they are when left out."""
        fields = type(self).model_fields.items()
        return [
            name
            for name, field in fields
            if not field.is_required()
            and getattr(self, name) != field.get_default(call_default_factory=True)
        ]

    def _backend_misfits(self) -> Iterator[str]:
        if self.backend != "openrlhf":
            return
        if self.device not in {"auto", self.cluster.device}:
            yield (
                f"device={self.device!r} and cluster.device={self.cluster.device!r} disagree; "
                "leave device at 'auto'"
            )
        if whole := _of_groups(self.judge.spec):
            yield (
                f"{whole} needs all responses of a group at once, and the engines of a cluster "
                "hand them over one by one; use type: llm, or backend: local"
            )
        if not self.optim.share_prompts:
            yield (
                "optim.share_prompts=false is of backend: local; OpenRLHF reads a prompt once per "
                "response in any case, so leave it out"
            )
        if "flash" in self.cluster.attention and self.precision == "float32":
            yield (
                "precision='float32': flash attention computes in 16 bits; use "
                "precision='bfloat16', or cluster.deepspeed.attention='sdpa'"
            )


def _of_groups(spec: JudgeSpec) -> str:
    """Return the setting by which a judge scores whole groups; "" for any other judge."""
    if isinstance(spec, ListwiseConfig):
        return "judge.spec.type='listwise'"
    if isinstance(spec, CascadeConfig) and spec.decide == "group":
        return "judge.spec.decide='group'"
    return ""


_TEXT_TYPES = frozenset[object]({str, Path, NoneType})
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


def load_config(path: Path, *, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a YAML file and put `--section.key value` pairs over it.

    Raises:
        TrainConfigError: the file, an override or a value is wrong; names the nearest right key.
    """
    values = read_values(path, overrides=overrides)
    return parse_config(values, source=written_at(path, overrides=overrides))


def written_at(path: Path, *, overrides: Sequence[str] = ()) -> Callable[[Keys], str]:
    """Return a function that finds a key: at a line of the file, or on the command line."""
    overridden = [keys for keys, _, _ in _split_overrides(overrides)]

    def place(keys: Keys) -> str:
        for prefix in overridden:
            if [str(key) for key in keys[: len(prefix)]] == prefix:
                return "the command line"
        return yaml_place(path, keys)

    return place


def read_values(path: Path, *, overrides: Sequence[str] = ()) -> dict[str, object]:
    """Read a YAML file and put overrides over it, unchecked: what a backend of any kind takes.

    Raises:
        TrainConfigError: the file is no mapping or says a key twice, or an override is no
            `--key value` pair.
    """
    try:
        document = read_yaml(path)
    except ConfigError as error:
        raise TrainConfigError(str(error), location=error.location) from None
    if not isinstance(document, dict):
        problem = f"{str(path)!r} holds no mapping of keys to values"
        raise TrainConfigError(problem, location=str(path))
    return _with_overrides(cast("dict[str, Any]", document), overrides)


def parse_config(
    values: Mapping[str, object], *, source: Source = "configuration"
) -> TrainConfig:
    """Check a mapping.

    Raises:
        TrainConfigError: a key or a value is wrong; names the nearest right key.
    """
    try:
        return validated(TrainConfig, values, source=source)
    except ConfigError as error:
        raise TrainConfigError(str(error), location=error.location) from None


def dump_config(config: TrainConfig) -> str:
    """Write the resolved configuration as YAML that load_config reads back."""
    # Machines that nobody spoke of would be noise in a run of one process.
    unused = config.backend == "local" and config.cluster == ClusterConfig()
    values = config.model_dump(mode="json", exclude={"cluster"} if unused else None)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _with_overrides(
    document: dict[str, Any], overrides: Sequence[str]
) -> dict[str, Any]:
    """Apply `--a.b value` and `--a.b=value`; values are read as YAML, where no text is wanted."""
    merged = deepcopy(document)
    for keys, name, value in _split_overrides(overrides):
        _put(merged, keys, _parsed(name, value, is_text=_takes_text(keys)))
    return merged


def _split_overrides(overrides: Sequence[str]) -> Iterator[tuple[list[str], str, str]]:
    """Yield the keys of each override, its name and its text."""
    tokens = iter(overrides)
    for token in tokens:
        name, equals, text = token.removeprefix("--").partition("=")
        if not token.startswith("--") or not name:
            raise TrainConfigError(
                f"{token!r} is not an override; write --section.key value",
                location=token,
            )
        value = text if equals else next(tokens, None)
        if value is None:
            raise TrainConfigError(f"--{name} needs a value", location=name)
        yield name.replace("-", "_").split("."), name, value


def _takes_text(keys: Sequence[str]) -> bool:
    """Whether a key takes a path or a text and nothing else, which YAML would cut or convert."""
    models = [TrainConfig]
    kinds = list[object]()
    for key in keys:
        fields = [
            model.model_fields[key] for model in models if key in model.model_fields
        ]
        kinds = [kind for field in fields for kind in _kinds(field.annotation)]
        models = [
            kind
            for kind in kinds
            if isinstance(kind, type) and issubclass(kind, BaseModel)
        ]
    return bool(kinds) and all(kind in _TEXT_TYPES for kind in kinds)


def _kinds(annotation: object) -> Iterator[object]:
    """Yield the kinds that a choice is made of."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in {Union, UnionType}:
        for choice in get_args(annotation):
            yield from _kinds(choice)
    else:
        yield annotation


def _parsed(name: str, value: str, *, is_text: bool) -> object:
    if not value.isprintable() and any("\udc80" <= char <= "\udcff" for char in value):
        raise TrainConfigError(
            f"--{name} is not UTF-8; give a text that is", location=name
        )
    # A quoted text is meant as YAML, and so is a null.
    if is_text and value not in _NULLS and value[0] not in "\"'":
        return value
    try:
        return yaml_value(value, source=f"--{name}")
    except ConfigError as error:
        raise TrainConfigError(str(error), location=name) from None


def _put(document: dict[str, Any], keys: Sequence[str], value: object) -> None:
    *parents, last = keys
    for key in parents:
        if not isinstance(document.get(key), dict):
            document[key] = {}
        document = document[key]
    document[last] = value
