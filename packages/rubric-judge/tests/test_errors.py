import pickle

import pytest

from rubric_core import Reason, RubricError
from rubric_judge import (
    EventLoopError,
    JudgeSetupError,
    JudgeTransportError,
    VerificationError,
)

ERRORS = (
    VerificationError("needs a word", criterion_id="c1"),
    JudgeSetupError("no key in 'X'"),
    JudgeTransportError(Reason.RATE_LIMITED, "HTTP 429", retry_after_s=2.5, attempts=3),
    EventLoopError("this pool is in use on another event loop"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling_with_their_attributes(error: RubricError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_errors_are_also_the_builtin_kind() -> None:
    assert [isinstance(error, RubricError) for error in ERRORS] == [True] * 4
    assert [type(error).__mro__[2] for error in ERRORS] == [
        ValueError,
        ValueError,
        RuntimeError,
        RuntimeError,
    ]


def test_messages_name_the_place_and_the_remedy() -> None:
    assert str(ERRORS[0]) == "criterion 'c1': verification_method: needs a word"
    assert str(ERRORS[2]) == "rate_limited after 3 attempt(s): HTTP 429"
