"""A command that is stopped: SIGTERM as an exception, and the line that goes on."""

from __future__ import annotations

import contextlib
import shlex
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from types import FrameType


class Terminated(SystemExit):
    """SIGTERM came; left alone, it ends the process with the status that a shell gives to that."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


@contextlib.contextmanager
def sigterm_raised() -> Generator[None]:
    """Let SIGTERM end the work by way of every `finally`, as Ctrl-C does, where that can be set.

    An event loop is stopped as Ctrl-C stops it, by cancelling its main task: an exception that is
    raised in the middle of a callback could leave it waiting for ever.

    Raises:
        Terminated: in the main thread, when the signal comes.
    """
    came = False

    def stop(signum: int, frame: FrameType | None) -> None:
        nonlocal came
        del signum
        came = True
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt) and interrupt is not signal.default_int_handler:
            interrupt(signal.SIGINT, frame)
        else:
            raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread, which alone may ask for it
        yield
        return
    try:
        yield
    except KeyboardInterrupt:
        if came:
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def typed_command(program: str, words: Sequence[str], *more: str) -> str:
    """Return a command line as one types it into a shell.

    Args:
        program: the command's name.
        words: its arguments.
        more: options that are added if they are not there.
    """
    return shlex.join([program, *words, *(one for one in more if one not in words)])
