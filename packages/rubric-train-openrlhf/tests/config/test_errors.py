import inspect
import pickle
from pathlib import Path

import pytest

from rubric_core import RubricError
from rubric_train_openrlhf import errors

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, errors.TrainError)
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_is_in_the_tree_and_can_be_pickled(cls: type[errors.TrainError]) -> None:
    error = cls("what, which, where")
    error.extra = 3  # pyright: ignore[reportAttributeAccessIssue]  # as a caller may

    copy = pickle.loads(pickle.dumps(error))

    assert isinstance(copy, RubricError)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
    assert cls is errors.TrainError or cls.__name__ in (errors.__doc__ or "")


def test_an_error_keeps_what_it_is_told_about() -> None:
    found = errors.ResumeError.told("holds_run", path=Path("runs/a"))
    assert str(found) == ("'runs/a' holds a run; continue it with --resume or choose another `out`")
    assert found.path == Path("runs/a")
    assert errors.TrainConfigError.told("no_gpu").location == "device"
    unfit = errors.NonFiniteUpdateError.told("update_not_finite", step=3, loss=1.0, grad_norm=2.0)
    assert pickle.loads(pickle.dumps(unfit)).step == 3
