import pickle

import pytest

from rubric_core import RubricError
from rubric_synth import (
    CollectedFolderError,
    DatasetFolderError,
    OutputError,
    RejectionReason,
    SourceError,
    StageRefusal,
    SynthError,
)
from rubric_synth.errors import CallsStoppedError, UnfinishedError, WorkFolderError
from rubric_synth.sources.raw_text import NotTextError

_ERRORS = [
    SynthError("a"),
    SourceError("a", source="s"),
    CollectedFolderError("a", path="p", line=3),
    DatasetFolderError("a", path="p"),
    OutputError("a", path="p"),
    StageRefusal(RejectionReason.LEAK, "2 runs"),
    NotTextError(RejectionReason.BINARY, "4 bytes"),
    WorkFolderError("a", path="p"),
    UnfinishedError("a", cause="cost", pending=3),
    CallsStoppedError("a"),
]


@pytest.mark.parametrize("error", _ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_survives_pickling_with_its_attributes(error: RubricError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.args == error.args
    assert vars(again) == vars(error)
    assert str(again) == str(error)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [(1, LookupError), (2, ValueError), (3, ValueError), (4, OSError), (5, ValueError)],
)
def test_errors_are_also_the_matching_builtin(
    error: int, builtin: type[Exception]
) -> None:
    assert isinstance(_ERRORS[error], builtin)
