import inspect
import pickle

import pytest

from rubric_core import RubricError
from rubric_train_openrlhf import errors

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, errors.TrainError)
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_is_in_the_tree_and_can_be_pickled(
    cls: type[errors.TrainError],
) -> None:
    error = cls("what, which, where")
    error.extra = 3  # pyright: ignore[reportAttributeAccessIssue]  # as a caller may

    copy = pickle.loads(pickle.dumps(error))

    assert isinstance(copy, RubricError)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
    assert cls is errors.TrainError or cls.__name__ in (errors.__doc__ or "")


def test_an_error_keeps_what_it_is_about() -> None:
    error = errors.NonFiniteUpdateError("step 3: the loss is no finite number", step=3)

    assert pickle.loads(pickle.dumps(error)).step == 3
