"""The settings that the adapters share: the types of the arguments, and their check."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, Literal, Required, TypedDict, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator

from rubric_core import Judge, OnUnavailable, Thoughts
from rubric_judge.adapters.rows import Tasks
from rubric_judge.config import JudgeSpec
from rubric_judge.models.model_config import Positive, Share


class ScorerOptions(TypedDict, total=False):
    """The settings that the adapters share: see `RubricScorer`."""

    judge: Required[Judge | JudgeSpec | Path | str]
    """A judge, its configuration, or the YAML file with it."""
    tasks: Tasks
    """The tasks that ids name, their file or files; see `Tasks`."""
    workers: int
    """Judge workers of this process, 32 unless set; each holds up to four responses."""
    ledger: Path | str | None
    """File that keeps every judgement, for `rubric-judge rejudge` and the books; what is in it is
    not asked for again."""
    max_invalid_frac: float
    """Largest share of invalid judgements, 0.5 unless set, of the last 512; above it the training
    ends with a `JudgeContractError`."""
    thoughts: Thoughts
    """Way to tell a policy's thoughts from its answers, which alone are judged: "cut", which is
    set unless another is, by the tags that are known; "opened", where the chat template opens each
    thought; "kept", where the whole completion is to be judged; or the tags of another family."""
    log_judgements: bool
    """Whether the stack's own log gets `rubric/judgement` for each response: scores, shares and
    tokens by criterion, without any text, which `rubric-judge criteria` reads. TRL (a column of
    `log_completions`), verl, verifiers, NeMo-Gym and SkyRL have a place for it; others refuse."""


class MaskingOptions(ScorerOptions, total=False):
    """The settings for a stack that accepts a policy for missing judgements."""

    on_unavailable: OnUnavailable
    """"mask", which is set unless another is, gives no reward; "zero" gives 0; "raise" ends the
    training."""
    name: str | None
    """Prefix of the metrics' names, `rubric` unless set; also the name of TRL's reward."""


class Options(BaseModel):
    """The options, checked; `MaskingOptions` is the type of the arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    judge: Any = Field(examples=['judge="judge.yaml"'])
    tasks: Any = None
    workers: Positive = 32
    on_unavailable: OnUnavailable = "mask"
    ledger: str | Path | None = None
    max_invalid_frac: Share = 0.5
    name: str | None = Field(default=None, pattern=r"^[A-Za-z]")
    thoughts: Thoughts = "cut"
    log_judgements: bool = False

    @field_validator("thoughts", mode="before")
    @classmethod
    def _plain(cls, thoughts: object) -> object:
        """Take the tags out of whatever mapping a stack's configuration consists of."""
        is_mapping = isinstance(thoughts, Mapping)
        return dict(cast("Mapping[str, object]", thoughts)) if is_mapping else thoughts


class Unmasked(Options):
    """The options for a stack that cannot leave a response out."""

    on_unavailable: Literal["zero", "raise"] = "zero"  # pyright: ignore[reportIncompatibleVariableOverride]


class Shared(Options):
    """The options that a stack's configuration can hold; code may give a judge."""

    judge: str | Path | Judge
    tasks: str | Path | tuple[str | Path, ...] | None = None


class SharedUnmasked(Shared):
    """Those of a stack that cannot leave a response out."""

    on_unavailable: Literal["zero", "raise"] = "zero"  # pyright: ignore[reportIncompatibleVariableOverride]


_Function = TypeVar("_Function", bound=Callable[..., object])


def shows_options(function: _Function) -> _Function:
    """Let `help` show each option of a function that takes `MaskingOptions`, and its own."""
    named = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.is_required() else field.default,
        )
        for name, field in Options.model_fields.items()
    ]
    own = signature(function).parameters.values()
    named += [
        parameter for parameter in own if parameter.kind is Parameter.KEYWORD_ONLY
    ]
    vars(function)["__signature__"] = Signature(named)
    return function
