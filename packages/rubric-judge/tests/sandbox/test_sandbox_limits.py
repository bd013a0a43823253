"""How much code may take, and that nothing of it stays."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from rubric_judge import HybridConfig, SandboxConfig
from rubric_judge.verification import Programs, parse_verification
from rubric_judge.verification.python_tests import PythonTests, read_python_tests
from rubric_judge.verification.sandbox.launch import Tally

Run = Callable[..., Tally]


@pytest.mark.parametrize(
    "code",
    [
        "import time\ndef f(x): time.sleep(60)",
        "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass",
    ],
)
def test_code_that_runs_too_long_is_ended_and_scores_nothing(code: str, run: Run) -> None:
    started_s = time.monotonic()

    tally = run(code, config=SandboxConfig(timeout_s=0.6))

    assert tally == Tally(0, "its code ran past 0.6 s")
    assert time.monotonic() - started_s < 2.5


@pytest.mark.slow
def test_code_past_its_processor_time_scores_nothing_for_what_passed_before(run: Run) -> None:
    code = "def f(x):\n  while x == 3: pass\n  return x * x"

    tally = run(code, config=SandboxConfig(cpu_s=1))

    assert tally == Tally(0, "the response's code ended its own process")


def test_output_without_end_is_lost_and_fills_nothing(run: Run) -> None:
    code = """
        import sys
        for _ in range(2000):
            print("x" * 10_000)
            print("x" * 10_000, file=sys.stderr)
        def f(x): return x * x
    """
    assert run(code).passed == 3


async def _verdict(programs: Programs, check: PythonTests, response: str) -> None:
    await programs.run(check, response)


@pytest.mark.anyio
async def test_the_event_loop_goes_on_and_runs_are_bounded(anyio_backend: str) -> None:
    del anyio_backend
    programs = Programs(HybridConfig.model_validate(
        {"judge": {"type": "lexical"}, "python_tests": True, "sandbox": {"at_once": 2}}
    ))  # fmt: skip
    check = parse_verification("python_tests:\nassert f() == 1")
    assert isinstance(check, PythonTests)
    response = "```python\nimport time\ntime.sleep(.2)\ndef f(): return 1\n```"
    ticks, started_s = 0, time.monotonic()

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(_verdict, programs, check, response)
        await anyio.sleep(0.3)
        while threading.active_count() > 1 and ticks < 20:
            ticks += 1
            await anyio.sleep(0.01)

    assert time.monotonic() - started_s >= 0.4  # two by two
    assert ticks > 0


@pytest.mark.anyio
async def test_a_cancelled_judgement_ends_its_processes_at_once(anyio_backend: str) -> None:
    del anyio_backend
    programs = Programs(
        HybridConfig.model_validate({"judge": {"type": "lexical"}, "python_tests": True})
    )
    check = read_python_tests("assert f() == 1")
    started_s = time.monotonic()

    with anyio.move_on_after(0.3):
        await programs.run(check, "```python\nwhile True: pass\n```")

    assert time.monotonic() - started_s < 1.5


@pytest.mark.slow
def test_a_killed_judge_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "judge.py"
    script.write_text(
        "from rubric_judge import SandboxConfig\n"
        "from rubric_judge.verification.sandbox.launch import run_tests\n"
        "run_tests('while True: pass', 'assert True', config=SandboxConfig(timeout_s=1.5),"
        " check=lambda: print('up', flush=True))\n"
    )
    judge = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert judge.stdout is not None
    judge.stdout.read(2)
    time.sleep(0.3)
    children = Path(f"/proc/{judge.pid}/task/{judge.pid}/children").read_text("utf-8").split()
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    judge.stdout.close()

    assert children
    deadline_s = time.monotonic() + 5
    while Path(f"/proc/{children[0]}").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not Path(f"/proc/{children[0]}").exists()
