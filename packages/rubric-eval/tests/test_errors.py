import pickle

import pytest

from rubric_core import RubricError
from rubric_eval import (
    ComparisonError,
    EvalError,
    EvalFolderError,
    EvalShapeError,
    HeldoutAbortError,
    SelectionLeakError,
)

ERRORS = [
    EvalError("message"),
    EvalShapeError("message"),
    EvalFolderError("message"),
    ComparisonError("message"),
    SelectionLeakError("message", task_ids=("a", "b")),
    HeldoutAbortError("message", unavailable_frac=0.25, reasons={"timeout": 1}),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling_with_what_they_hold(error: EvalError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == "message"
    assert vars(copy) == vars(error)
    assert isinstance(copy, RubricError)


def test_errors_are_the_matching_builtins() -> None:
    assert issubclass(EvalShapeError, ValueError)
    assert issubclass(ComparisonError, ValueError)
    assert issubclass(SelectionLeakError, ValueError)
    assert issubclass(HeldoutAbortError, RuntimeError)
