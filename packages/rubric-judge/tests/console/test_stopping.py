import asyncio
import os
import signal
import threading

import pytest

from rubric_judge.ui.console.command import Terminated, sigterm_raised, typed_command


def test_sigterm_ends_the_work_by_way_of_every_finally() -> None:
    before = signal.getsignal(signal.SIGTERM)
    is_left = False
    with pytest.raises(Terminated) as caught, sigterm_raised():  # noqa: PT012  # what it leaves
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            is_left = True
    assert is_left
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigterm_stops_an_event_loop_as_ctrl_c_does() -> None:
    was_cancelled = False

    async def work() -> None:
        nonlocal was_cancelled
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled = True
            raise

    with pytest.raises(Terminated) as caught, sigterm_raised():
        asyncio.run(work())
    assert was_cancelled
    assert isinstance(caught.value.__context__, KeyboardInterrupt)


def test_a_thread_that_may_not_ask_for_the_signal_works_without() -> None:
    done: list[int] = []

    def work() -> None:
        with sigterm_raised():
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=600)
    assert done == [1]


def test_a_command_is_given_as_it_is_typed() -> None:
    words = ["run", "my file.yaml", "--steps", "3"]
    typed = "rubric-x run 'my file.yaml' --steps 3 --resume"
    assert typed_command("rubric-x", words, "--resume") == typed
    assert typed_command("rubric-x", [*words, "--resume"], "--resume") == typed
