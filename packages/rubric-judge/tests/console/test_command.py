from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rubric_core import ConfigError, SchemaError
from rubric_judge.ui.console.command import Terminated, command_app, run_command

if TYPE_CHECKING:
    from collections.abc import Callable


def _end(call: Callable[[], object], *words: str) -> int | str | None:
    app = command_app("rubric-x", summary="A command.")

    @app.command
    def work(*, count: int = 1, part: float | None = None) -> object:  # pyright: ignore[reportUnusedFunction]
        del count, part
        return call()

    @app.command
    def open(tasks: str, *, judge: str) -> None:  # noqa: A001  # pyright: ignore[reportUnusedFunction]
        """Open.

        Args:
            tasks: What is judged.
            judge: Who judges.
        """

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
        (
            OSError(28, "No space left", "b"),
            2,
            "rubric-x: b: No space left; free some, or write",
        ),
        (
            OSError(98, "Address in use"),
            2,
            "rubric-x: Address in use; choose another port",
        ),
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
    ("words", "message"),
    [
        (("--none",), 'Unknown command "--none"'),
        (("work", "--count", "x"), 'unable to convert "x"'),
        (("work", "--count", "1.5"), "is no whole number"),
        (("work", "--count", "1" * 5000), "11111… into int."),
        (("work", "--count"), "rubric-x: --count needs a value\n"),
        (("open",), "rubric-x: TASKS is required: What is judged.\n"),
        (("open", "a"), "rubric-x: --judge is required: Who judges.\n"),
        (("open", "a", "--jugde", "x"), "Did you mean --judge instead of --jugde?"),
    ],
)
def test_a_bad_argument_is_bad_input_and_is_said(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _end(lambda: None, *words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said) < 300


def test_a_closed_pipe_ends_quietly() -> None:
    code = (
        "from rubric_judge.ui.console.command import *\n"
        "app = command_app('x', summary='')\n"
        "app.command(lambda: [console().print('row') for _ in range(20000)], name='work')\n"
        "run_command(app, ['work'])"
    )
    run = [sys.executable, "-c", code]
    with subprocess.Popen(
        run, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as writer:
        assert writer.stdout
        assert writer.stderr
        writer.stdout.close()
        assert (writer.wait(600), writer.stderr.read()) == (141, b"")
