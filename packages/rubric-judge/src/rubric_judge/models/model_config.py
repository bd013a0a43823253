"""Configuration of language models: which one, where, within which limits and at what price."""

from __future__ import annotations

import ipaddress
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, cast
from urllib.parse import urlsplit

import pydantic
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from rubric_core import Usage
from rubric_core.configuration import UNSHOWN, may_be_key
from rubric_core.files import toml_beside
from rubric_core.schema.sealed import Many

_PARAMETERS = toml_beside(__file__, "parameters.toml")
_OWN_ROUTES = ("openai/", "hosted_vllm/")
"""Prefixes by which litellm names servers that speak OpenAI's protocol."""
_OF_LITELLM = (
    "allowed_openai_params",
    "custom_llm_provider",
    "drop_params",
    "extra_body",
)
"""Parameters that tell litellm what to send; no server knows them."""
_LABEL = re.compile(
    r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII | re.IGNORECASE
)
_LONGEST_HOST = 253


def wrong_with(address: str) -> str:
    """Describe what keeps a client from calling an address.

    Args:
        address: an `api_base`.

    Returns:
        A description without any part of the address, which may hold a key; "" if it is fine.
    """
    if any(character <= " " or not character.isprintable() for character in address):
        return "it has white space in it"
    try:
        parts = urlsplit(address)
    except ValueError:
        return "its host name is not valid"
    if parts.scheme not in {"http", "https"}:
        return "it starts with neither http:// nor https://"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "leave out users, passwords and queries, and name the key's variable in api_key_env"
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        return "its port is not a number from 1 to 65535"
    problem = "its host name is not valid (international ones: xn--…)"
    return "" if _is_host(parts.hostname or "") else problem


def _is_host(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    if ":" in host or labels[-1].isdigit():
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True
    try:
        host.encode("ascii").decode("idna")
    except UnicodeError:
        return False
    if len(host) > _LONGEST_HOST:
        return False
    return all(_LABEL.fullmatch(label) for label in labels)


def _refusal(problem: str) -> PydanticCustomError:
    """Return the error of a value that must not be shown, since it may be a key."""
    return PydanticCustomError(UNSHOWN, "{problem}", {"problem": problem})


_MILLION = 1e6
_NUMBER = re.compile(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])")


class Settings(BaseModel):
    """A base class for parts of a settings file."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,  # anyone may put a key anywhere by mistake
    )


Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
"""A share that is neither nothing nor all."""
Seconds = Annotated[float, Field(gt=0, le=10**7)]
"""A time that something may take."""


class LimitsConfig(Settings):
    """How much an endpoint is asked for, over all that call it through one limiter."""

    max_in_flight: Positive | None = None
    """Most attempts in flight; left out, only the pool's workers bound them."""

    rpm: Positive | None = None
    """Most attempts a minute."""

    tpm: Positive | None = None
    """Most tokens a minute, prompt and reply."""

    adaptive: bool = True
    """Halve the attempts in flight when the endpoint answers 429, and raise them again slowly."""


class Prices(Settings):
    """Prices of a model's tokens, in US dollars for a million of them."""

    prompt_usd_per_mtok: float = Field(ge=0)
    """Tokens read."""

    completion_usd_per_mtok: float = Field(ge=0)
    """Tokens written."""

    cached_usd_per_mtok: float | None = Field(default=None, ge=0)
    """Tokens read from the server's prefix cache; left out, the same as those read."""

    def cost_usd(self, usage: Usage) -> float:
        """Return the cost of a call's tokens; without a count, none of them is cached."""
        # Servers report nonsense, such as more cached tokens than there are.
        cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
        cached_price = self.cached_usd_per_mtok
        if cached_price is None:
            cached_price = self.prompt_usd_per_mtok
        uncached_cost = (usage.prompt_tokens - cached) * self.prompt_usd_per_mtok
        read_cost = uncached_cost + cached * cached_price
        written_cost = usage.completion_tokens * self.completion_usd_per_mtok
        return (read_cost + written_cost) / _MILLION


def _no_key(value: str) -> str:
    # Dates and versions, which many model names have, are numbers that stand alone.
    if may_be_key(_NUMBER.sub("", value)):
        raise _refusal(
            "this looks like a key: name the model here, and in api_key_env the environment "
            "variable that holds the key"
        )
    return value


def _addresses(value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
    addresses = (value,) if isinstance(value, str) else value
    for address in addresses or ():
        wrong = wrong_with(address)
        if wrong:
            form = "http://HOST:PORT/v1 or https://…, with no key in it"
            raise _refusal(f"an address is {form}: {wrong}")
    if addresses is not None:
        distinct = set(addresses)
        if not addresses or len(distinct) < len(addresses):
            raise ValueError("give one address, or several different ones")
    return value


def _variable(value: str | None) -> str | None:
    if value is not None and (not value.isidentifier() or may_be_key(value)):
        raise _refusal("give the name of an environment variable, never the key itself")
    return value


def _beside(value: Path | None, info: ValidationInfo) -> Path | None:
    folder = cast("Mapping[str, Path]", info.context or {}).get("folder")
    if value is None or folder is None:
        return value
    return folder / value


FileBeside = Annotated[Path | None, AfterValidator(_beside)]
"""A file, relative to the file of settings that names it."""


def _more(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    instead: dict[str, str] = _PARAMETERS["instead"]
    reserved = sorted(set(value) & {*instead, *_PARAMETERS["ours"]})
    if reserved:
        setting = instead.get(reserved[0], reserved[0])
        remedy = "the judge sets it itself, so leave it out"
        if setting in ModelConfig.model_fields:
            remedy = f"write `{setting}:` at the top level, beside `parameters:`"
        raise _refusal(f"{reserved[0]!r} is not allowed under `parameters`: {remedy}")
    return value


ReplyForm = Literal["json_schema", "json_object", "prompt"]

with warnings.catch_warnings():
    # Pydantic still has a method of this name from its first version; nothing here calls it.
    warnings.filterwarnings(
        "ignore", message="Field name .schema.", category=UserWarning
    )

    class _Replying(Settings):
        schema: ReplyForm = "json_schema"  # pyright: ignore[reportIncompatibleMethodOverride]
        """How the form of a reply is asked for. `json_schema`: the schema goes along, for the
        server to enforce. `json_object`: for servers that enforce JSON alone; the schema stands in
        the prompt. `prompt`: the schema stands in the prompt, and nothing goes along."""


class ModelConfig(_Replying):
    """A language model and how it is called, whatever it is asked."""

    model: Annotated[str, AfterValidator(_no_key)] = Field(
        min_length=1, examples=["openai/gpt-4.1-mini"]
    )
    """Any litellm model name, such as `openai/gpt-4.1-mini` or `hosted_vllm/openai/gpt-oss-20b`;
    with `litellm_config`, the `model_name` of a group in it; with `transport: direct` written out,
    the name that the server knows, with or without a prefix `hosted_vllm/`."""

    api_base: Annotated[str | Many[str] | None, AfterValidator(_addresses)] = None
    """Address of an OpenAI-compatible server; left out, the provider's own. Several are replicas of
    one model: all that share a prefix go to the same one."""

    api_key_env: Annotated[str | None, AfterValidator(_variable)] = None
    """Environment variable with the key. Left out: the provider's usual variable, and no key at all
    for an `api_base`, so that a hosted provider's key never goes to another server."""

    transport: Literal["litellm", "direct"] | None = None
    """`litellm`: any provider. `direct`: an OpenAI-compatible `api_base`, read more strictly and
    with far less work. Left out, `openai/NAME` and `hosted_vllm/NAME` with an `api_base` go direct,
    and the server is asked for NAME, as litellm would ask; every other model goes through litellm.
    With `direct` written out, the server is asked for the whole `model`, less `hosted_vllm/`."""

    litellm_config: FileBeside = None
    """A YAML file of litellm's with several deployments or fallbacks; relative to this file."""

    allow_fallback_models: bool = False
    """Whether another model may answer than that of the group that is asked: a fallback of the
    `litellm_config`, or a new version under the same name. Its answers are scored differently."""

    temperature: float | None = Field(
        default=0.1,
        ge=0,
        le=2,
    )
    """Sampling temperature; null for models that refuse the parameter."""

    max_tokens: Positive | None = 16_000
    """Longest reply, in tokens; null to leave it to the server. One that wants to be told so as
    `max_completion_tokens` is told so once it has said it."""

    parameters: Annotated[dict[str, JsonValue], AfterValidator(_more)] = Field(
        default_factory=dict
    )
    """Further fields of every request, such as `reasoning_effort: low` or `seed: 1`."""

    timeout_s: Seconds = 120
    """Longest time for one attempt."""

    deadline_s: Seconds = 600
    """Longest time for one question, from its first attempt: attempts and the waits between."""

    max_transport_attempts: int = Field(default=5, ge=1, le=50)
    """Most attempts when a call fails on its way; an answer is never asked for again."""

    backoff_s: Seconds = 0.5
    """First wait between attempts; it doubles, with jitter, unless the server asks for longer."""

    limits: LimitsConfig = LimitsConfig()
    """How much the endpoint is asked for at once and in a minute."""

    prices: Prices | None = None
    """Prices of calls for which litellm knows none; if set, litellm's prices are not used."""

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> ModelConfig:
        misfit = next(self._misfits(), None)
        if misfit is not None:
            raise ValueError(misfit)
        return self

    def _misfits(self) -> Iterator[str]:
        """Yield a message for each conflict between settings, with the remedy."""
        if self.deadline_s < self.timeout_s:
            yield (
                f"deadline_s={self.deadline_s!r} is below timeout_s={self.timeout_s!r}: one "
                "attempt would not fit; raise deadline_s or lower timeout_s"
            )
        is_direct = self.transport == "direct"
        if is_direct and self.api_base is None:
            yield "transport 'direct' needs the `api_base` of an OpenAI-compatible server"
        litellm_parameters: list[str] = []
        if self.is_direct:
            litellm_parameters = [
                name for name in _OF_LITELLM if name in self.parameters
            ]
        if litellm_parameters and self.transport is None:
            yield (
                f"{litellm_parameters[0]!r} in `parameters` is litellm's, and this model is called "
                "without it: write the fields that the server takes, or set `transport: litellm`"
            )
        sets_length = (
            "max_tokens" in self.model_fields_set and self.max_tokens is not None
        )
        if sets_length and "max_completion_tokens" in self.parameters:
            yield (
                "`max_tokens` and `max_completion_tokens` in `parameters` are one limit by two "
                "names: leave one out"
            )
        is_routed = self.litellm_config is not None
        if is_routed and is_direct:
            yield "`litellm_config` needs transport 'litellm'"
        if is_routed and (self.api_base, self.api_key_env) != (None, None):
            yield (
                "`litellm_config` holds addresses and keys (`api_key: os.environ/NAME`): leave out "
                "`api_base` and `api_key_env`"
            )

    @property
    def sent_fields(self) -> dict[str, object]:
        """Fields of every request, beside the model and the messages."""
        fields = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        if "max_completion_tokens" in self.parameters:
            del fields["max_tokens"]
        set_fields = {
            name: value for name, value in fields.items() if value is not None
        }
        return {**set_fields, **self.parameters}

    @property
    def is_direct(self) -> bool:
        """Whether calls go to the server without litellm; see `transport`."""
        if self.transport is None:
            return self.api_base is not None and self.model.startswith(_OWN_ROUTES)
        return self.transport == "direct"

    @property
    def served_name(self) -> str:
        """The name of the model in requests to the server at `api_base`."""
        if self.transport == "direct":
            return self.model.removeprefix("hosted_vllm/")
        if self.model.startswith(_OWN_ROUTES):
            return self.model.partition("/")[2]
        return self.model

    @property
    def addresses(self) -> tuple[str | None, ...]:
        """The replicas' addresses; one None where the provider's own is used."""
        if self.api_base is None or isinstance(self.api_base, str):
            return (self.api_base,)
        return tuple(self.api_base)
