"""Where and how OpenRLHF runs: machines, engines, DeepSpeed, Ray. Read by `backend: openrlhf`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self, cast

from pydantic import Field, field_validator, model_validator

from rubric_core.schema.sealed import Many
from rubric_train_openrlhf.config.sections import (
    Count,
    OptimConfig,
    ProperFraction,
    RolloutConfig,
    leaves,
)
from rubric_train_openrlhf.policy_config import Section

FlagValue = bool | int | float | str | tuple[int | float | str, ...]
"""Value of a flag of OpenRLHF: true is the bare flag, a list becomes several words."""

_MOST_NAMED = 6
"""Values that an error message proposes."""


class LoraConfig(Section):
    """Low-rank adapters, merged into the weights when the warm start is over."""

    rank: Count = 64
    """Rank of an adapter."""
    alpha: Count = 128
    """Scale of an adapter, divided by the rank."""
    dropout: ProperFraction = 0.0
    """Share of an adapter's inputs that is dropped in training."""
    targets: Many[str] = ("all-linear",)
    """Names of the layers that get one; `all-linear` is every linear layer but the output's."""


class WarmStartConfig(Section):
    """How OpenRLHF runs the warm start of `sft:`."""

    lora: LoraConfig | None = None
    """Train adapters; without them all weights are trained."""
    micro_batch: Count = 1
    """Examples per forward and backward pass on one GPU."""


class EngineConfig(Section):
    """The vLLM engines that sample responses."""

    count: Count | None = None
    """Engines; by default as many as the GPUs for them hold."""
    tensor_parallel: Count = 1
    """GPUs of one engine."""
    memory_frac: Annotated[float, Field(gt=0.0, le=1.0)] = 0.6
    """Share of a GPU's memory for an engine's weights and its cache of keys and values."""
    sleep: bool | None = None
    """Give the memory back while the policy trains; by default where they share GPUs."""
    enforce_eager: bool = False
    """No CUDA graphs: slower, starts sooner, less memory."""
    prefix_caching: bool = True
    """Compute the prompt of a group once."""
    max_sequences: Count = 256
    """Responses that an engine samples at once, if its cache holds them."""
    seeded: bool = True
    """Give every response a seed of its own, which costs a little time: a resumed run samples what
    the killed one would have sampled."""
    restarts: Annotated[int, Field(ge=0)] = 3
    """An engine whose process dies is started again so many times before the run stops."""


class DeepspeedConfig(Section):
    """How the policy and the reference are laid out over the GPUs that train."""

    zero_stage: Literal[1, 2, 3] = 2
    """State that is split over GPUs: 1 the optimiser's state, 2 gradients too, 3 weights too."""
    offload_optimizer: bool = False
    """Keep the optimiser's state in the machine's memory and step on its CPUs."""
    offload_reference: bool = False
    """Keep the reference's weights in the machine's memory."""
    sleep: bool | None = None
    """Move the policy's state aside while engines sample; by default where they share GPUs."""
    attention: str = "flash_attention_2"
    """Attention of the policy and the reference, as transformers names it; `eager` on a CPU."""
    packing: bool = False
    """Put the responses of a pass in one row instead of padding them; needs flash attention."""
    grad_accumulation: Literal["float32", "bfloat16"] = "float32"
    """Number format in which gradients of several passes are added up."""
    forward_micro_batch: Count = 8
    """Responses per pass on one GPU where log-probabilities are taken without gradients."""

    @field_validator("zero_stage", mode="before")
    @classmethod
    def _zero(cls, stage: object) -> object:
        if stage == 0 and not isinstance(stage, bool):
            raise ValueError(
                "without ZeRO DeepSpeed keeps no float32 weights beside those in bfloat16, names "
                "no gradient norm in float32 and cannot move its state aside; use 2 or 3"
            )
        return stage


class RayConfig(Section):
    """The Ray cluster."""

    address: str | None = None
    """`host:port` of a running cluster, or `auto` on one of its nodes; by default the run starts
    a cluster on this machine and ends it."""
    dashboard: str | None = None
    """`http://host:8265`: hand the run in there with `ray job submit` and follow it."""
    cpus: Count | None = None
    """CPUs of a cluster that the run starts; by default those of the machine, and at least as many
    as its processes ask for."""

    @property
    def is_own(self) -> bool:
        """Whether the run starts a cluster on this machine."""
        return self.address is None and self.dashboard is None

    @model_validator(mode="after")
    def _one_cluster(self) -> Self:
        if self.address is not None and self.dashboard is not None:
            raise ValueError(
                f"address={self.address!r} and dashboard={self.dashboard!r}: a run is started on a "
                "node of the cluster (address) or handed in from outside (dashboard); give one"
            )
        if self.dashboard is not None and not self.dashboard.startswith(
            ("http://", "https://")
        ):
            raise ValueError(
                f"dashboard={self.dashboard!r} must begin with http:// or https://"
            )
        return self


class ClusterConfig(Section):
    """Layout of a run of OpenRLHF; the default is one node of 8 GPUs that all models share."""

    nodes: Count = 1
    """Machines."""
    gpus_per_node: Count = 8
    """GPUs of each machine; on a CPU, processes that take their part."""
    judge_gpus_per_node: Annotated[int, Field(ge=0)] = 0
    """GPUs of each machine that the run leaves to servers of the judge that you start there."""
    device: Literal["cuda", "cpu"] = "cuda"
    """`cpu` runs the same trainer and engines on a CPU, for rehearsals and tests."""
    colocation: Literal["all", "models"] = "all"
    """`all`: policy, reference and engines share every GPU and take turns. `models`: policy and
    reference share theirs, and the engines have GPUs of their own."""
    engines: EngineConfig = Field(default_factory=EngineConfig)
    """Sampling."""
    deepspeed: DeepspeedConfig = Field(default_factory=DeepspeedConfig)
    """Training."""
    warm_start: WarmStartConfig = Field(default_factory=WarmStartConfig)
    """The supervised start, if `sft:` asks for one."""
    max_len: Annotated[int, Field(ge=2)] = 4096
    """Longest prompt and response together, in tokens."""
    ray: RayConfig = Field(default_factory=RayConfig)
    """Ray."""
    extra_flags: dict[str, FlagValue] = Field(default_factory=dict[str, FlagValue])
    """Further flags of OpenRLHF by their names without dashes, for what no other key says; a nested
    name is one with dots."""

    @field_validator("extra_flags", mode="before")
    @classmethod
    def _flat(cls, flags: object) -> object:
        """Join nested names with dots: `--cluster.extra_flags.ds.overlap_comm true` nests them."""
        if not isinstance(flags, dict):
            return flags
        flat = dict(leaves(cast("Mapping[object, object]", flags)))
        for name, value in flat.items():
            if not _is_flag_value(value):
                raise ValueError(
                    f"{name!r} must be true, false, a number, a text, or a list of those, not "
                    f"{type(value).__name__}"
                )
        return flat

    @property
    def run_gpus(self) -> int:
        """GPUs that the run uses."""
        return self.nodes * (self.gpus_per_node - self.judge_gpus_per_node)

    @property
    def engine_count(self) -> int:
        """Engines: as given, or over all GPUs, or over half where they have their own."""
        if self.engines.count is not None:
            return self.engines.count
        gpus = self.run_gpus if self.colocation == "all" else self.run_gpus // 2
        return max(1, gpus // self.engines.tensor_parallel)

    @property
    def engine_gpus(self) -> int:
        """GPUs that hold an engine."""
        return self.engine_count * self.engines.tensor_parallel

    @property
    def policy_gpus(self) -> int:
        """GPUs that train: the data-parallel size, each of which takes its part of an update."""
        return (
            self.run_gpus
            if self.colocation == "all"
            else self.run_gpus - self.engine_gpus
        )

    @property
    def shares_gpus(self) -> bool:
        """Whether engines and the policy take turns on GPUs, so that each may step aside."""
        return self.colocation == "all" and self.device == "cuda"

    @property
    def engines_sleep(self) -> bool:
        """Whether engines give their memory back while the policy trains."""
        return self.shares_gpus if self.engines.sleep is None else self.engines.sleep

    @property
    def policy_sleeps(self) -> bool:
        """Whether the policy's state is moved aside while engines sample."""
        return (
            self.shares_gpus if self.deepspeed.sleep is None else self.deepspeed.sleep
        )

    @property
    def sync_backend(self) -> Literal["nccl", "gloo"]:
        """Backend that brings new weights to an engine.

        NCCL knows GPUs only, and vLLM's engines know NCCL only.
        """
        return "nccl" if self.device == "cuda" else "gloo"

    @property
    def attention(self) -> str:
        """Attention of the policy: flash attention runs on GPUs only."""
        on_cpu = (
            self.device == "cpu" and self.deepspeed.attention == "flash_attention_2"
        )
        return "eager" if on_cpu else self.deepspeed.attention

    def problems(self, rollout: RolloutConfig, optim: OptimConfig) -> tuple[str, ...]:
        """Return the faults of this layout, by itself and with sampling and updates."""
        return (
            *self._gpu_problems(),
            *self._deepspeed_problems(),
            *self._batch_problems(rollout, optim),
            *self._flag_problems(),
        )

    def _gpu_problems(self) -> Iterator[str]:
        gpus = self.run_gpus
        if gpus < 1:
            yield (
                f"cluster.judge_gpus_per_node={self.judge_gpus_per_node} leaves the run none of "
                f"cluster.gpus_per_node={self.gpus_per_node}; keep at least one for it"
            )
            return
        engines = self.engine_count
        tensor_parallel = self.engines.tensor_parallel
        if self.colocation == "all" and self.engine_gpus != gpus:
            yield (
                f"cluster.engines: {engines} engines × tensor_parallel={tensor_parallel} = "
                f"{self.engine_gpus} GPUs, but with cluster.colocation='all' they must be on all "
                f"{gpus} GPUs of the run; change count or tensor_parallel, or use "
                "colocation='models'"
            )
        if self.policy_gpus < 1:
            yield (
                f"cluster.engines: {engines} engines × tensor_parallel={tensor_parallel} = "
                f"{self.engine_gpus} GPUs leave the policy none of the {gpus} GPUs of the run; "
                "lower count or tensor_parallel"
            )

    def _deepspeed_problems(self) -> Iterator[str]:
        if self.engines.sleep and not self.shares_gpus:
            yield (
                "cluster.engines.sleep=true: nothing to make room for with "
                f"cluster.colocation={self.colocation!r} and cluster.device={self.device!r}"
            )
        if self.deepspeed.sleep and not self.shares_gpus:
            yield (
                "cluster.deepspeed.sleep=true: nothing to make room for with "
                f"cluster.colocation={self.colocation!r} and cluster.device={self.device!r}"
            )
        if self.deepspeed.packing and "flash" not in self.attention:
            yield (
                "cluster.deepspeed.packing needs flash attention, and attention is "
                f"{self.attention!r}; responses in one row would read each other"
            )
        if self.deepspeed.offload_reference and self.deepspeed.zero_stage != 3:  # noqa: PLR2004
            yield (
                "cluster.deepspeed.offload_reference needs zero_stage 3: DeepSpeed keeps weights "
                "that it does not split where they are"
            )

    def _batch_problems(
        self, rollout: RolloutConfig, optim: OptimConfig
    ) -> Iterator[str]:
        if rollout.max_new_tokens >= self.max_len:
            yield (
                f"rollout.max_new_tokens={rollout.max_new_tokens} leaves no room for a prompt in "
                f"cluster.max_len={self.max_len}"
            )
        batch = rollout.prompts * rollout.group_size
        gpus = max(1, self.policy_gpus)
        share, left = divmod(batch, optim.updates_per_rollout)
        at_once = optim.micro_batch * gpus
        if not left and share % at_once > 0:
            yield (
                f"an update takes {share} responses (rollout.prompts·rollout.group_size / "
                "optim.updates_per_rollout), which is not divisible by optim.micro_batch × GPUs "
                f"that train = {optim.micro_batch} × {gpus} = {at_once}; "
                f"{_fitting('optim.micro_batch', share, gpus)}"
            )
        forward_size = self.deepspeed.forward_micro_batch
        forward = forward_size * gpus
        if batch % forward > 0:
            yield (
                f"rollout.prompts·rollout.group_size={batch} is not divisible by "
                "cluster.deepspeed.forward_micro_batch × GPUs that train = "
                f"{forward_size} × {gpus} = {forward}; "
                f"{_fitting('cluster.deepspeed.forward_micro_batch', batch, gpus)}"
            )

    def _flag_problems(self) -> Iterator[str]:
        for name in self.extra_flags:
            if not name or name[0] == "-" or set("= ") & {*name}:
                yield f"cluster.extra_flags: {name!r} must be the flag's name without dashes"


def _is_flag_value(value: object) -> bool:
    items = (
        cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
    )
    return all(isinstance(item, int | float | str) for item in items)


def _fitting(key: str, responses: int, gpus: int) -> str:
    """Say which micro-batches divide responses over GPUs, or that none can."""
    each, left = divmod(responses, gpus)
    if left:
        return f"no {key} divides {responses} responses over {gpus} GPUs: change one of those"
    fitting = [size for size in range(1, min(each, 2**16) + 1) if each % size == 0]
    named = ", ".join(map(str, fitting[:_MOST_NAMED]))
    return f"{key} can be {named}" + (
        " and so on" if len(fitting) > _MOST_NAMED else ""
    )
