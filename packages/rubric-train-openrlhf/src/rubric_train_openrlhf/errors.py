"""Errors in the training of a policy.

RubricError
└── TrainError
    ├── TrainConfigError (ConfigError, ValueError)   a configuration that cannot be run
    ├── PolicyLoadError (FileNotFoundError)          no usable model at the path
    ├── PolicyInputError (ValueError)                prompts or settings a policy cannot take
    ├── ObjectiveShapeError (ValueError)             tensors of the loss that do not fit together
    ├── JudgeAbortError (RuntimeError)               too many answers without a score
    ├── NoInformativePromptError (RuntimeError)      every group had equal rewards
    ├── NonFiniteUpdateError (ArithmeticError)       a loss or a gradient that is not a number
    ├── PolicyMismatchError (ArithmeticError)        the policy of the update is not the sampler's
    ├── NonFiniteLogitsError (ArithmeticError)       a policy that cannot be sampled from
    ├── ResumeError (RuntimeError)                   a run folder that cannot be continued
    ├── ClusterError (RuntimeError)                  the OpenRLHF run could not start or go on
    └── DiskWriteError (OSError)                     the run folder could not be written

Messages hold numbers, ids and paths, never a passage, a criterion or an answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Self

from rubric_core import ConfigError, RubricError
from rubric_core.errors import AtPathError


class TrainError(RubricError):
    """Base of all errors of this package."""

    def __reduce__(
        self,
    ) -> tuple[Callable[..., RubricError], tuple[object, ...], dict[str, object]]:
        """Rebuild through `__init__`: an OSError keeps no message that it was not given there."""
        return type(self), self.args, self.__dict__


class TrainConfigError(TrainError, ConfigError):
    """A training configuration that cannot be run."""


class PolicyLoadError(AtPathError, TrainError, FileNotFoundError):
    """No usable model at the path."""


class PolicyInputError(TrainError, ValueError):
    """Prompts, tokens or settings that a policy cannot take."""


class ObjectiveShapeError(TrainError, ValueError):
    """Tensors of the loss that do not fit together."""


@dataclass(eq=False, repr=False)
class JudgeAbortError(TrainError, RuntimeError):
    """A step where too many answers came back without a score."""

    message: str
    _: KW_ONLY
    step: int = 0
    invalid_frac: float = 0.0
    unavailable_frac: float = 0.0
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of answers by reason."""


@dataclass(eq=False, repr=False)
class NoInformativePromptError(TrainError, RuntimeError):
    """Dynamic sampling reached its cap before it had enough prompts with a spread of rewards."""

    message: str
    _: KW_ONLY
    step: int = 0
    wanted: int = 0
    found: int = 0


class NonFiniteUpdateError(TrainError, ArithmeticError):
    """A loss or a gradient norm that is not a finite number."""

    def __init__(self, message: str, *, step: int = 0) -> None:
        """Keep the step."""
        super().__init__(message)
        self.step = step


class NonFiniteLogitsError(TrainError, ArithmeticError):
    """A policy whose next-token scores are not finite numbers."""


class PolicyMismatchError(TrainError, ArithmeticError):
    """At unchanged weights, tokens have other probabilities in the update than they had before."""


class ResumeError(AtPathError, TrainError, RuntimeError):
    """A run folder that cannot be continued, or that would be overwritten."""

    @classmethod
    def lost(cls, what: str, *, path: Path) -> Self:
        """Say what is missing or damaged that nothing can be continued without."""
        return cls(
            f"{what}; bring it back from a copy, or start again in another `out`",
            path=path,
        )


class ClusterError(TrainError, RuntimeError):
    """A run through OpenRLHF that could not start or go on."""


class DiskWriteError(AtPathError, TrainError, OSError):
    """A file of the run folder could not be written."""


RUN_ERRORS = (
    JudgeAbortError,
    NoInformativePromptError,
    NonFiniteUpdateError,
    PolicyMismatchError,
    NonFiniteLogitsError,
    ClusterError,
    DiskWriteError,
)
"""Errors of a run that broke off after it began: the command ends with status 1."""
