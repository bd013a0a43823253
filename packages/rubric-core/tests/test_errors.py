import copy
import inspect
import pickle
from pathlib import Path

import pytest

from rubric_core import errors
from rubric_core.errors import (
    AtPathError,
    ConfigError,
    FolderLockError,
    LeakError,
    MissingExtraError,
    NotJsonError,
    PluginError,
    RepeatedKeyError,
    ReplyError,
    ResponderError,
    RewardError,
    RewardShapeError,
    RubricError,
    RubricFileError,
    SchemaError,
    UnavailableRewardError,
)
from rubric_core.outcome import Reason

EXAMPLES = [
    RubricError("broken"),
    SchemaError("broken", field="criteria.0.weight"),
    RubricFileError("broken", path=Path("tasks.jsonl"), line=3, field="question"),
    NotJsonError("not JSON: Extra data at column 4"),
    RepeatedKeyError(key="total"),
    ReplyError("broken", reason=Reason.NOT_JSON),
    RewardError("broken"),
    RewardShapeError("broken"),
    UnavailableRewardError("broken"),
    LeakError("broken", task_ids=("a", "b")),
    PluginError("broken"),
    ResponderError("broken"),
    AtPathError("broken", path=Path("run")),
    FolderLockError("broken", path=Path("run")),
    MissingExtraError("broken"),
    ConfigError("broken", location="optim.lr"),
]


def test_every_error_class_has_an_example() -> None:
    classes = {
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, RubricError)
    }

    assert classes == {type(error) for error in EXAMPLES}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_cross_processes_with_their_attributes(error: RubricError) -> None:
    for protocol in (pickle.DEFAULT_PROTOCOL, pickle.HIGHEST_PROTOCOL):
        returned = pickle.loads(pickle.dumps(error, protocol))  # our own bytes

        assert type(returned) is type(error)
        assert str(returned) == str(error)
        assert returned.args == error.args
        assert vars(returned) == vars(error)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_can_be_copied(error: RubricError) -> None:
    assert vars(copy.copy(error)) == vars(error)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (SchemaError, ValueError),
        (RewardError, ValueError),
        (LeakError, ValueError),
        (ConfigError, ValueError),
        (PluginError, LookupError),
        (MissingExtraError, ImportError),
    ],
)
def test_errors_can_be_caught_as_the_builtin_that_they_are(
    error: type[RubricError], builtin: type[Exception]
) -> None:
    assert issubclass(error, builtin)


def test_notes_survive_pickling() -> None:
    error = SchemaError("broken", field="question")
    error.add_note("in the second file")

    returned = pickle.loads(pickle.dumps(error))  # our own bytes

    assert returned.__notes__ == ["in the second file"]


def test_a_file_error_starts_with_its_place() -> None:
    error = RubricFileError(
        "field 'question': is missing: add it", path=Path("d/t.jsonl"), line=7
    )

    assert str(error) == "d/t.jsonl:7: field 'question': is missing: add it"
    assert (
        str(RubricFileError("unreadable", path=Path("t.parquet")))
        == "t.parquet: unreadable"
    )


def test_the_tree_in_the_docstring_names_every_class() -> None:
    drawn = errors.__doc__ or ""

    assert all(type(error).__name__ in drawn for error in EXAMPLES)
