"""Errors between a document and a dataset.

RubricError
└── SynthError
    ├── SourceError (LookupError)          a source that is missing or unknown
    ├── CollectedFolderError (ValueError)  a collected folder that cannot be read back
    ├── DatasetFolderError (ValueError)    a dataset folder that does not check
    ├── OutputError (OSError)              a file that could not be written
    ├── WorkFolderError (ValueError)       a work folder in use, damaged or of another version
    ├── UnfinishedError (RuntimeError)     a run that stopped before all documents were done
    ├── CallsStoppedError (RuntimeError)   a call that the run may not make any more
    └── EngineError (RuntimeError)         a cluster that is not there, or whose workers all died

One bad document is never an error: it becomes a `Rejection` with a counted reason.
Messages hold names, paths, numbers and hashes, never text of a document.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Literal

from rubric_core.errors import AtPathError, RubricError


class SynthError(RubricError):
    """Base of all errors of this package."""


class SourceError(SynthError, LookupError):
    """A source that is missing, unknown or holds nothing to read."""

    def __init__(self, message: str, *, source: str = "") -> None:
        """Keep the source as it was given."""
        super().__init__(message)
        self.source = source


class CollectedFolderError(AtPathError, SynthError, ValueError):
    """A folder of collected documents that cannot be read back."""

    def __init__(
        self,
        message: str,
        *,
        path: Path | str | None = None,
        line: int | None = None,
    ) -> None:
        """Keep the file and, where there is one, the line."""
        super().__init__(message, path=path)
        self.line = line


class DatasetFolderError(AtPathError, SynthError, ValueError):
    """A dataset folder that does not check."""


class OutputError(AtPathError, SynthError, OSError):
    """A file that could not be written."""

    def __reduce__(
        self,
    ) -> tuple[type[OutputError], tuple[object, ...], dict[str, object]]:
        """Rebuild through `__init__`: an OSError takes its arguments nowhere else."""
        return type(self), self.args, self.__dict__


class WorkFolderError(AtPathError, SynthError, ValueError):
    """A work folder that is in use, damaged or of another version."""


UnfinishedCause = Literal["cost", "unpriced", "unavailable", "interrupted"]


@dataclass(eq=False, repr=False)
class UnfinishedError(SynthError, RuntimeError):
    """A run that stopped before all documents were done; what is done is written."""

    message: str
    _: KW_ONLY
    cause: UnfinishedCause = "interrupted"
    pending: int = 0
    """Documents that are to be done yet."""
    signal: int | None = None
    """Signal by which the run was stopped."""


class CallsStoppedError(SynthError, RuntimeError):
    """A call that the run may not make any more; the document stays pending."""


class EngineError(SynthError, RuntimeError):
    """A cluster that is not there, or whose workers all died; what was answered is kept."""
