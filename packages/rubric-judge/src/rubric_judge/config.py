"""Configuration of judges: frozen models, one per kind, chosen by `type` and read from YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rubric_core import ConfigError, Usage
from rubric_core.configuration import UNSHOWN, config_error, may_be_key, nearest_key
from rubric_judge.address import wrong_with
from rubric_judge.parameters import wrong_with_parameters
from rubric_judge.yaml_files import read_yaml

__all__ = [
    "EvidenceUse",
    "HybridConfig",
    "JudgeConfig",
    "JudgeSpec",
    "LexicalConfig",
    "LimitsConfig",
    "PluginConfig",
    "Prices",
    "PromptLayout",
    "SandboxConfig",
    "judge_spec",
    "read_judge_spec",
]

_MILLION = 1e6

_SETTINGS = ConfigDict(
    frozen=True,
    extra="forbid",
    allow_inf_nan=False,
    hide_input_in_errors=True,  # a key may stand anywhere by mistake
)
PromptLayout = Literal["paper", "shared_prefix"]
EvidenceUse = Literal["off", "report", "require"]


class LexicalConfig(BaseModel):
    """The lexical judge: a program, no model."""

    model_config = _SETTINGS

    type: Literal["lexical"] = "lexical"

    regex_timeout_s: float = Field(default=0.25, gt=0, le=60)
    """Longest time for one `regex:` search; past it the criterion scores 0."""


class LimitsConfig(BaseModel):
    """How much an endpoint is asked for, over all that call it through one limiter."""

    model_config = _SETTINGS

    max_in_flight: int | None = Field(default=None, ge=1)
    """Most attempts in flight; left out, only the pool's workers bound them."""

    rpm: int | None = Field(default=None, ge=1)
    """Most attempts a minute."""

    tpm: int | None = Field(default=None, ge=1)
    """Most tokens a minute, prompt and reply."""

    adaptive: bool = True
    """Halve the attempts in flight when the endpoint answers 429, and raise them again slowly."""


class Prices(BaseModel):
    """What a model's tokens cost, in US dollars for a million of them."""

    model_config = _SETTINGS

    prompt_usd_per_mtok: float = Field(ge=0)
    """Tokens read."""

    completion_usd_per_mtok: float = Field(ge=0)
    """Tokens written."""

    cached_usd_per_mtok: float | None = Field(default=None, ge=0)
    """Tokens read from the server's prefix cache; left out, the same as those read."""

    def cost_usd(self, usage: Usage) -> float:
        """Return what the tokens of a call cost; cached ones that are not reported are none."""
        cached = min(usage.cached_tokens or 0, usage.prompt_tokens)  # servers report nonsense
        cached_price = self.cached_usd_per_mtok
        if cached_price is None:
            cached_price = self.prompt_usd_per_mtok
        read = (usage.prompt_tokens - cached) * self.prompt_usd_per_mtok + cached * cached_price
        return (read + usage.completion_tokens * self.completion_usd_per_mtok) / _MILLION


class JudgeConfig(BaseModel):
    """A language model as judge."""

    model_config = _SETTINGS

    type: Literal["llm"] = "llm"

    model: str = Field(min_length=1)
    """Any litellm model name, such as `openai/gpt-4.1-mini` or `hosted_vllm/openai/gpt-oss-20b`;
    with `litellm_config`, the `model_name` of a group in it; with `transport: direct`, the name
    that the server knows, with or without a prefix `openai/` or `hosted_vllm/`."""

    api_base: str | tuple[str, ...] | None = None
    """Address of an OpenAI-compatible server; left out, the provider's own. Several are replicas of
    one model: all responses to a task go to the same one."""

    api_key_env: str | None = None
    """Environment variable with the key. Left out: the provider's usual variable, and no key at all
    for an `api_base`, so that a hosted provider's key never goes to another server."""

    transport: Literal["litellm", "direct"] = "litellm"
    """`litellm`: any provider. `direct`: an OpenAI-compatible `api_base`, with far less work."""

    litellm_config: Path | None = None
    """A YAML file of litellm's with several deployments or fallbacks; relative to this file."""

    prompt: PromptLayout = "shared_prefix"
    """`paper`: the paper's order. `shared_prefix`: what a group shares first, the response last."""

    evidence: EvidenceUse = "off"
    """`report`: ask for a quote for each criterion and say whether it is found. `require`: a score
    above 0 whose quote is not found makes the judgement invalid."""

    temperature: float | None = Field(default=0.1, ge=0, le=2)
    """Sampling temperature of the judge; null for models that refuse the parameter."""

    max_tokens: int = Field(default=16_000, ge=1)
    """Longest reply, in tokens."""

    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of every request, such as `reasoning_effort: low` or `seed: 1`."""

    passage_chars: int = Field(default=50_000, ge=1)
    """Characters of the passage that the judge reads; a longer one is cut and marked as cut."""

    timeout_s: float = Field(default=120, gt=0)
    """Longest time for one attempt."""

    deadline_s: float = Field(default=600, gt=0)
    """Longest time for one judgement, from its first attempt: attempts and the waits between."""

    max_transport_attempts: int = Field(default=5, ge=1, le=50)
    """Most attempts when a call fails on its way; an answer is never asked for again."""

    backoff_s: float = Field(default=0.5, gt=0)
    """First wait between attempts; it doubles, with jitter, unless the server asks for longer."""

    limits: LimitsConfig = LimitsConfig()
    """How much the endpoint is asked for at once and in a minute."""

    prices: Prices | None = None
    """What calls cost where litellm knows no price; with it, litellm's is not used."""

    warm_call: bool = False
    """Judge a group's first response alone: for servers that share a prefix only once a call that
    has it is done. vLLM shares it at once."""

    @field_validator("api_base")
    @classmethod
    def _addresses(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        addresses = (value,) if isinstance(value, str) else value
        for address in addresses or ():
            if wrong := wrong_with(address):
                raise PydanticCustomError(
                    UNSHOWN,
                    "an address is http://HOST:PORT/v1 or https://…, with no key in it: {wrong}",
                    {"wrong": wrong},
                )
        if addresses is not None and (not addresses or len(set(addresses)) < len(addresses)):
            raise ValueError("give one address, or several different ones")
        return value

    @field_validator("api_key_env")
    @classmethod
    def _a_name(cls, value: str | None) -> str | None:
        if value is not None and (not value.isidentifier() or may_be_key(value)):
            raise PydanticCustomError(
                UNSHOWN, "give the name of an environment variable, never the key itself"
            )
        return value

    @field_validator("evidence", mode="before")
    @classmethod
    def _yamls_off(cls, value: object) -> object:
        return "off" if value is False else value

    @field_validator("litellm_config")
    @classmethod
    def _beside_the_file(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        folder = cast("Mapping[str, Path]", info.context or {}).get("folder")
        return folder / value if value is not None and folder is not None else value

    @field_validator("parameters")
    @classmethod
    def _further(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if wrong := wrong_with_parameters(value, settings=cls.model_fields):
            raise PydanticCustomError(UNSHOWN, "{wrong}", {"wrong": wrong})
        return value

    @model_validator(mode="after")
    def _one_attempt_fits(self) -> JudgeConfig:
        if self.deadline_s < self.timeout_s:
            raise ValueError(
                f"deadline_s={self.deadline_s!r} is below timeout_s={self.timeout_s!r}: "
                "one attempt would not fit; raise deadline_s or lower timeout_s"
            )
        return self

    @model_validator(mode="after")
    def _one_way_to_the_model(self) -> JudgeConfig:
        if self.transport == "direct" and self.api_base is None:
            raise ValueError(
                "transport 'direct' needs the `api_base` of an OpenAI-compatible server"
            )
        if self.litellm_config is None:
            return self
        if self.transport == "direct":
            raise ValueError("`litellm_config` needs transport 'litellm'")
        if self.api_base is not None or self.api_key_env is not None:
            raise ValueError(
                "`litellm_config` holds addresses and keys (`api_key: os.environ/NAME`): "
                "leave out `api_base` and `api_key_env`"
            )
        return self

    @property
    def addresses(self) -> tuple[str | None, ...]:
        """The replicas' addresses; one None where the provider's own is used."""
        return self.api_base if isinstance(self.api_base, tuple) else (self.api_base,)


class PluginConfig(BaseModel):
    """A judge that an installed package registers under the entry point `rubric.judges`."""

    model_config = _SETTINGS

    type: Literal["plugin"] = "plugin"

    name: str = Field(min_length=1)
    """Name of the entry point."""

    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Passed to the plugin as they are."""


class SandboxConfig(BaseModel):
    """What code of a response may use while its tests run."""

    model_config = _SETTINGS

    isolation: Literal["full", "files_readable", "none"] = "full"
    """`full`: no network, no process, no file but Python's own. `files_readable`: the same, but
    what this user can read can be read. `none`: limits only, on a machine you can do without."""

    timeout_s: float = Field(default=10, gt=0, le=600)
    """Longest time for the tests of one criterion; past it the criterion scores 0."""

    cpu_s: int = Field(default=5, ge=1, le=600)
    """Processor time of the code, and of its tests."""

    memory_mb: int = Field(default=512, ge=64)
    """Address space of the code, and of its tests."""

    at_once: int = Field(default=2, ge=1)
    """Most criteria tested at the same time; each takes two processes."""


class HybridConfig(BaseModel):
    """Programs for the criteria that a program can check, another judge for the rest."""

    model_config = _SETTINGS

    type: Literal["hybrid"] = "hybrid"

    judge: Annotated[LexicalConfig | JudgeConfig | PluginConfig, Field(discriminator="type")]
    """The judge for the other criteria."""

    regex_timeout_s: float = Field(default=0.25, gt=0, le=60)
    """Longest time for one `regex:` search; past it the criterion scores 0."""

    python_tests: bool = False
    """Whether to run `python_tests:`. Left off, such a criterion goes to the other judge."""

    sandbox: SandboxConfig = SandboxConfig()
    """Where and within which limits they run."""


JudgeSpec = Annotated[
    LexicalConfig | JudgeConfig | PluginConfig | HybridConfig, Field(discriminator="type")
]

_KINDS: dict[str, type[LexicalConfig | JudgeConfig | PluginConfig | HybridConfig]] = {
    "lexical": LexicalConfig,
    "llm": JudgeConfig,
    "plugin": PluginConfig,
    "hybrid": HybridConfig,
}


def judge_spec(
    options: Mapping[str, object], *, source: str = "judge", folder: Path | None = None
) -> LexicalConfig | JudgeConfig | PluginConfig | HybridConfig:
    """Build the configuration that `type` names.

    Args:
        options: a mapping with `type` and that kind's fields.
        source: what to call it in an error, for example a file name.
        folder: where relative paths start; left out, the working directory.

    Returns:
        The configuration.

    Raises:
        ConfigError: no such type, an unknown key (with the nearest right one) or a wrong value.
    """
    kind = options.get("type")
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        close = nearest_key(kind, _KINDS) if isinstance(kind, str) else None
        remedy = f"did you mean {close!r}?" if close else f"use one of {', '.join(_KINDS)}"
        wrong = "is missing" if kind is None else "is no kind of judge"
        raise ConfigError(f"{source}: type {wrong}: {remedy}", location=source)
    try:
        return model.model_validate(options, context={"folder": folder} if folder else None)
    except ValidationError as error:
        raise config_error(error, model=model, source=source) from None


def read_judge_spec(path: Path) -> LexicalConfig | JudgeConfig | PluginConfig | HybridConfig:
    """Read one judge's configuration from a YAML file.

    Args:
        path: the file.

    Returns:
        The configuration.

    Raises:
        ConfigError: the file cannot be read, is no YAML mapping, says a key twice, or names what
            does not exist.
    """
    options = read_yaml(path)
    if not isinstance(options, dict):
        raise ConfigError(
            f"{path}: needs `type: lexical | llm | hybrid | plugin`", location=str(path)
        )
    return judge_spec(cast("dict[str, object]", options), source=str(path), folder=path.parent)
