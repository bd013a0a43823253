from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from ray.exceptions import ActorDiedError, RayTaskError

from rubric_core import RubricError
from rubric_train_openrlhf.cluster.failure import (
    first_cause,
    read_failure,
    shown,
    write_failure,
)
from rubric_train_openrlhf.errors import ClusterError, JudgeAbortError

if TYPE_CHECKING:
    from pathlib import Path


class RemoteError(Exception):
    """As Ray wraps the error of a task: the cause is an attribute."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("a traceback with the text of a passage")
        self.cause = cause
        self.traceback_str = ""


def raised_from(cause: Exception) -> Exception:
    later = RuntimeError("later")
    later.__cause__ = cause
    return later


@pytest.mark.parametrize(
    "wrap", [RemoteError, raised_from, lambda e: raised_from(RemoteError(e))]
)
def test_the_first_cause_is_found_under_what_it_is_wrapped_in(
    wrap: type[RemoteError],
) -> None:
    cause = JudgeAbortError("too many answers without a score", step=3)
    assert first_cause(wrap(cause)) is cause


def test_the_first_cause_is_not_the_class_that_ray_makes_of_it(tmp_path: Path) -> None:
    cause = JudgeAbortError("too many", step=3)
    remote = RayTaskError("fit", "a traceback", cause).as_instanceof_cause()
    assert isinstance(remote, JudgeAbortError)
    assert first_cause(remote) is cause
    write_failure(tmp_path / "f", remote)
    assert isinstance(read_failure(tmp_path / "f"), JudgeAbortError)


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert first_cause(first) is second


def test_errors_that_may_quote_a_text_are_named_and_not_quoted() -> None:
    assert shown(ValueError("the passage says")) == "ValueError"
    assert shown(RemoteError(ValueError("the passage says"))) == "ValueError"
    assert shown(OSError(28, "No space left on device")).startswith(
        "OSError: [Errno 28]"
    )
    assert shown(ClusterError("no engine")) == "ClusterError: no engine"


def test_an_actor_that_failed_as_it_started_is_shown_with_its_own_error() -> None:
    error = ActorDiedError(None)
    error.error_msg = (
        "The actor died because\n" + "  File\n" * 99 + "ValueError: no memory left\n"
    )
    error._actor_init_failed = True
    assert shown(error).endswith(": ValueError: no memory left")


def test_an_error_is_shown_with_the_place_where_it_was_raised() -> None:
    with pytest.raises(KeyError) as caught:
        {}["a text"]
    assert re.fullmatch(r"KeyError at test_failure\.py:\d+", shown(caught.value))
    remote = RemoteError(KeyError("a text"))
    remote.traceback_str = (
        'File "/x/a.py", line 3, in f\n  File "/x/fleet.py", line 7, in g\n'
    )
    assert shown(remote) == "KeyError at fleet.py:7"


def test_a_failure_crosses_to_the_command_with_its_type_and_its_numbers(
    tmp_path: Path,
) -> None:
    write_failure(tmp_path / "f", RemoteError(JudgeAbortError("too many", step=3)))
    error = read_failure(tmp_path / "f")
    assert isinstance(error, JudgeAbortError)
    assert (str(error), error.step) == ("too many", 3)


def test_a_foreign_failure_crosses_as_ours(tmp_path: Path) -> None:
    write_failure(tmp_path / "f", RuntimeError("CUDA out of memory"))
    error = read_failure(tmp_path / "f")
    assert isinstance(error, ClusterError)
    assert str(error) == "RuntimeError: CUDA out of memory"


@pytest.mark.parametrize("content", [None, b"", b"half a pickle"])
def test_no_failure_is_read_where_none_was_written(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "f").write_bytes(content)
    assert read_failure(tmp_path / "f") is None


def test_all_errors_that_cross_are_ours(tmp_path: Path) -> None:
    write_failure(tmp_path / "f", KeyError("x"))
    assert isinstance(read_failure(tmp_path / "f"), RubricError)
