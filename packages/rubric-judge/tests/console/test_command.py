from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from rubric_core import ConfigError, SchemaError
from rubric_judge.console.command import Terminated, command_app, run_command

if TYPE_CHECKING:
    from collections.abc import Callable


def _end(call: Callable[[], object], *words: str) -> int | str | None:
    app = command_app("rubric-x", summary="A command.")

    @app.command
    def work(*, count: int = 1, part: float | None = None) -> object:  # pyright: ignore[reportUnusedFunction]
        del count, part
        return call()

    with pytest.raises(SystemExit) as ended:
        run_command(
            app,
            words or ["work"],
            stopped=lambda words: f"stopped in {words[0]}",
            broken_off=(ConfigError,),
        )
    return ended.value.code


def _raise(error: BaseException) -> Callable[[], object]:
    def call() -> object:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (SchemaError("no [weight]"), 2, "rubric-x: no [weight]\n"),
        (ConfigError("broke off"), 1, "rubric-x: broke off\n"),
        (FileNotFoundError(2, "No such file or directory", "a.yaml"), 2, "a.yaml"),
        (KeyboardInterrupt(), 130, "stopped in work\n"),
        (Terminated(), 128 + signal.SIGTERM, "stopped in work\n"),
    ],
)
def test_an_error_ends_with_its_status_and_one_message(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _end(_raise(error)) == status
    assert message in capsys.readouterr().err


def test_the_notes_of_an_error_follow_it(capsys: pytest.CaptureFixture[str]) -> None:
    error = SchemaError("no weight")
    error.add_note("configuration: a.yaml")
    assert _end(_raise(error)) == 2
    assert capsys.readouterr().err == "rubric-x: no weight\nconfiguration: a.yaml\n"


@pytest.mark.parametrize("result", [None, 0, 1])
def test_what_a_command_returns_is_its_status(result: int | None) -> None:
    assert _end(lambda: result) == (result or 0)


@pytest.mark.parametrize(
    "words", [("--none",), ("work", "--count", "x"), ("work", "--count", "1.5")]
)
def test_a_bad_argument_is_bad_input(words: tuple[str, ...]) -> None:
    assert _end(lambda: None, *words) == 2
