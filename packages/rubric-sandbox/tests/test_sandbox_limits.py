"""How much code may take, and that nothing of it stays."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from rubric_judge import HybridConfig, SandboxConfig, Tally
from rubric_judge.checks.directive import parse_verification
from rubric_judge.checks.execute import Programs
from rubric_judge.checks.python_tests import PythonTests, read_python_tests
from rubric_sandbox.seccomp import MAX_PROCESSES

Run = Callable[..., Tally]


@pytest.mark.parametrize(
    "code",
    [
        "import time\ndef f(x): time.sleep(60)",
        "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass",
    ],
)
def test_code_that_runs_too_long_is_ended_and_scores_nothing(
    code: str, run: Run
) -> None:
    started_s = time.monotonic()

    tally = run(code, config=SandboxConfig(timeout_s=0.6))

    assert tally == Tally(0, "its code ran past 0.6 s")
    assert (
        time.monotonic() - started_s < 30
    )  # on any machine, and half of what it sleeps


@pytest.mark.slow
def test_code_past_its_processor_time_scores_nothing_for_what_passed_before(
    run: Run,
) -> None:
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


RAW_THREADS = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    pause = ctypes.cast(libc.pause, ctypes.c_void_p)
    kept = []
    def f(most):  # threads that Python knows nothing of, with 4 kB of stack each
        for started in range(most):
            stack = ctypes.create_string_buffer(4096)
            kept.append(stack)
            top = ctypes.c_void_p((ctypes.addressof(stack) + 4000) & ~15)
            if libc.clone(pause, top, 0x50F00, None) < 0:
                return started
        return most
"""


def test_threads_are_no_way_to_take_every_number_of_a_process(run: Run) -> None:
    assert (
        run(
            RAW_THREADS, f"assert 900 < f({2 * MAX_PROCESSES}) <= {MAX_PROCESSES}"
        ).passed
        == 1
    )


def test_code_may_use_threads(run: Run) -> None:
    code = """
        from concurrent.futures import ThreadPoolExecutor
        def f(x):
            with ThreadPoolExecutor(8) as pool:
                return sum(pool.map(abs, [x] * x * 100)) // 100
    """
    assert (
        run(code, "assert [f(n) for n in range(9)] == [n * n for n in range(9)]").passed
        == 1
    )


HOSTILE = {
    "threads of Python's": "import threading, time\n"
    "threading.stack_size(32768)\n"
    "while True: threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
    "frames that nobody asked for": "import os\n"
    "for pipe in range(3, 64):\n"
    "    try:\n"
    "        while True: os.write(pipe, b'\\0\\0\\0\\2[]' * 1000)\n"
    "    except OSError: pass",
    "a message that nests": "import os, struct\n"
    "for pipe in range(3, 64):\n"
    "    try: os.write(pipe, struct.pack('>I', 9_000_000) + b'[' * 9_000_000)\n"
    "    except OSError: pass",
    "mapped memory": "import mmap\n"
    "kept = []\n"
    "while True:\n"
    "    kept.append(mmap.mmap(-1, 1 << 26))\n"
    "    kept[-1].write(bytes(1 << 26))",
    "pipes": "import os\nwhile True: os.pipe()",
    "a long text of an error": "raise ValueError(*['a' * 999] * 9_999)",
    "a crash": "import ctypes\nctypes.string_at(0)",
}


@pytest.mark.parametrize("deed", HOSTILE.values(), ids=HOSTILE)
def test_what_exhausts_itself_earns_nothing_and_is_said(deed: str, run: Run) -> None:
    tally = run(
        f"{deed}\ndef f(x): return x * x", config=SandboxConfig(timeout_s=2, cpu_s=1)
    )

    assert tally.passed == 0
    assert tally.note


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        "'a' * 15_000_000",
        "[0] * 5_000_000",
        "{n: [n] for n in range(300_000)}",
        "10 ** 10 ** 6",
    ],
)
def test_no_value_takes_the_testers_memory_or_time(value: str, run: Run) -> None:
    config = SandboxConfig(timeout_s=4, cpu_s=3, memory_mb=128)

    assert run(f"def f(x): return {value}", config=config).passed == 0


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
async def test_a_cancelled_judgement_ends_its_processes_at_once(
    anyio_backend: str,
) -> None:
    del anyio_backend
    programs = Programs(
        HybridConfig.model_validate(
            {
                "judge": {"type": "lexical"},
                "python_tests": True,
                "sandbox": {"timeout_s": 60, "cpu_s": 60},
            }
        )
    )
    check = read_python_tests("assert f() == 1")
    started_s = time.monotonic()

    with anyio.move_on_after(0.3):
        await programs.run(check, "```python\nwhile True: pass\n```")

    assert time.monotonic() - started_s < 30


@pytest.mark.slow
def test_a_killed_judge_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "judge.py"
    script.write_text(
        "from rubric_judge import SandboxConfig\n"
        "from rubric_sandbox import LinuxSandbox\n"
        "LinuxSandbox(SandboxConfig(timeout_s=1.5)).run_tests('while True: pass', 'assert True',"
        " check=lambda: print('up', flush=True))\n"
    )
    judge = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert judge.stdout is not None
    judge.stdout.read(2)
    time.sleep(0.3)
    children = (
        Path(f"/proc/{judge.pid}/task/{judge.pid}/children").read_text("utf-8").split()
    )
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    judge.stdout.close()

    assert children
    deadline_s = time.monotonic() + 5
    while Path(f"/proc/{children[0]}").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not Path(f"/proc/{children[0]}").exists()
