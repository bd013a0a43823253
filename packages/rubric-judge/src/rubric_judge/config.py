"""Configuration of judges: frozen models, one per kind, chosen by `type` and read from YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from rubric_core import ConfigError
from rubric_core.configuration import config_error

__all__ = [
    "JudgeConfig",
    "JudgeSpec",
    "LexicalConfig",
    "PluginConfig",
    "PromptLayout",
    "judge_spec",
    "read_judge_spec",
]

PromptLayout = Literal["paper", "shared_prefix"]


class LexicalConfig(BaseModel):
    """The lexical judge: a program, no model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["lexical"] = "lexical"

    regex_timeout_s: float = Field(default=0.25, gt=0, le=60)
    """Longest time for one `regex:` search; past it the criterion scores 0."""


class JudgeConfig(BaseModel):
    """A language model as judge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["llm"] = "llm"

    model: str = Field(min_length=1)
    """Any litellm model name, such as `openai/gpt-4.1-mini` or `hosted_vllm/openai/gpt-oss-20b`."""

    api_base: str | None = None
    """Address of an OpenAI-compatible server; left out, the provider's own."""

    api_key_env: str | None = None
    """Environment variable with the key. Left out: the provider's usual variable, and no key at all
    for an `api_base`, so that a hosted provider's key never goes to another server."""

    prompt: PromptLayout = "shared_prefix"
    """`paper`: the paper's order. `shared_prefix`: what a group shares first, the response last."""

    temperature: float = Field(default=0.1, ge=0, le=2)
    """Sampling temperature of the judge."""

    max_tokens: int = Field(default=16_000, ge=1)
    """Longest reply, in tokens."""

    passage_chars: int = Field(default=50_000, ge=1)
    """Characters of the passage that the judge reads; a longer one is cut and marked as cut."""

    timeout_s: float = Field(default=120, gt=0)
    """Longest time for one attempt."""

    deadline_s: float = Field(default=600, gt=0)
    """Longest time for one judgement: attempts and the waits between them."""

    max_transport_attempts: int = Field(default=5, ge=1, le=50)
    """Most attempts when a call fails on its way; an answer is never asked for again."""

    backoff_s: float = Field(default=0.5, gt=0)
    """First wait between attempts; it doubles, with jitter, unless the server asks for longer."""

    @model_validator(mode="after")
    def _one_attempt_fits(self) -> JudgeConfig:
        if self.deadline_s < self.timeout_s:
            raise ValueError(
                f"deadline_s={self.deadline_s!r} is below timeout_s={self.timeout_s!r}: "
                "one attempt would not fit; raise deadline_s or lower timeout_s"
            )
        return self


class PluginConfig(BaseModel):
    """A judge that an installed package registers under the entry point `rubric.judges`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["plugin"] = "plugin"

    name: str = Field(min_length=1)
    """Name of the entry point."""

    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Passed to the plugin as they are."""


JudgeSpec = Annotated[LexicalConfig | JudgeConfig | PluginConfig, Field(discriminator="type")]

_KINDS: dict[str, type[LexicalConfig | JudgeConfig | PluginConfig]] = {
    "lexical": LexicalConfig,
    "llm": JudgeConfig,
    "plugin": PluginConfig,
}


def judge_spec(
    options: Mapping[str, object], *, source: str = "judge"
) -> LexicalConfig | JudgeConfig | PluginConfig:
    """Build the configuration that `type` names.

    Args:
        options: a mapping with `type` and that kind's fields.
        source: what to call it in an error, for example a file name.

    Returns:
        The configuration.

    Raises:
        ConfigError: no such type, an unknown key (with the nearest right one) or a wrong value.
    """
    kind = options.get("type")
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise ConfigError(
            f"{source}: type {kind!r} is no kind of judge; use one of {', '.join(_KINDS)}",
            location=source,
        )
    try:
        return model.model_validate(options)
    except ValidationError as error:
        raise config_error(error, model=model, source=source) from None


def read_judge_spec(path: Path) -> LexicalConfig | JudgeConfig | PluginConfig:
    """Read one judge's configuration from a YAML file.

    Args:
        path: the file.

    Returns:
        The configuration.

    Raises:
        ConfigError: the file cannot be read, is no YAML mapping, or names what does not exist.
    """
    try:
        options = cast("object", yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})", location=str(path)) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not YAML ({error})", location=str(path)) from None
    except (RecursionError, ValueError) as error:  # too deep, or a date that is none
        raise ConfigError(
            f"{path}: is not usable YAML ({type(error).__name__})", location=str(path)
        ) from None
    if not isinstance(options, dict):
        raise ConfigError(f"{path}: needs `type: lexical | llm | plugin`", location=str(path))
    return judge_spec(cast("dict[str, object]", options), source=str(path))
