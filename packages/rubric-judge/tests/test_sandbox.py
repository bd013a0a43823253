from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from rubric_judge import HybridConfig, SandboxConfig, SandboxError
from rubric_judge.verification import Programs, parse_verification
from rubric_judge.verification.python_tests import PythonTests, read_python_tests, response_code
from rubric_judge.verification.sandbox import landlock, seccomp
from rubric_judge.verification.sandbox.launch import Tally, check_isolation, run_tests

CONFIG = SandboxConfig(timeout_s=10)
TESTS = """
assert f(2) == 4
assert f(3) == 9
def test_negative():
    assert f(-1) == 1
"""


def _confined() -> bool:
    try:
        check_isolation(CONFIG)
    except SandboxError:
        return False
    return True


pytestmark = pytest.mark.skipif(not _confined(), reason="needs Linux with Landlock and seccomp")


def _run(code: str, tests: str = TESTS, *, config: SandboxConfig = CONFIG) -> Tally:
    return run_tests(
        textwrap.dedent(code), textwrap.dedent(tests), config=config, check=lambda: None
    )


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    def seen() -> tuple[int, set[Path]]:
        return len(list(Path("/proc/self/fd").iterdir())), set(
            Path(tempfile.gettempdir()).iterdir()
        )

    before = seen()
    yield
    descriptors, _ = seen()
    assert descriptors <= before[0]
    # No zombie and no living process of ours.
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text("utf-8").split()
    names = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    assert not any(b"verification.sandbox" in name for name in names)


# --- honest code ----------------------------------------------------------------------------------


def test_the_score_is_the_share_of_tests_that_pass() -> None:
    assert _run("def f(x): return x * x") == Tally(3, "")
    assert _run("def f(x): return x * abs(x)").passed == 2
    assert _run("def f(x): return 0").passed == 0


HONEST = {
    "sorts in place": """
        def f(xs): xs.sort()
        # tests
        a = [3, 1]
        f(a)
        assert a == [1, 3]
    """,
    "changes a dictionary": """
        def f(d): d['k'] = {1}
        # tests
        d = {}
        f(d)
        assert d == {'k': {1}}
    """,
    "a counter": """
        from collections import Counter as C
        def f(s): return C(s)
        # tests
        assert f('aa') == {'a': 2}
    """,
    "plain data": """
        def f(): return (1, 2.5, 3j, b'x', None, {'a': [True]}, 2**100, float('inf'))
        # tests
        assert f() == (1, 2.5, 3j, b'x', None, {'a': [True]}, 2**100, float('inf'))
        assert type(f()[0]) is int
    """,
    "fractions": """
        from fractions import Fraction
        def f(): return Fraction(1, 3)
        # tests
        from fractions import Fraction
        assert f() == Fraction(1, 3)
    """,
    "a generator": """
        def f(n):
          for i in range(n): yield i
        # tests
        assert list(f(3)) == [0, 1, 2]
        assert 2 in f(3)
    """,
    "a callback": """
        def f(g, xs): return [g(x) for x in xs]
        # tests
        assert f(lambda x: x + 1, [1, 2]) == [2, 3]
    """,
    "nested callbacks": """
        def f(g): return g(lambda x: x * 2)
        # tests
        assert f(lambda h: h(21)) == 42
    """,
    "an error": """
        def f(x):
          if x < 0: raise ValueError('neg')
          return x
        # tests
        try:
          f(-1)
        except ValueError as error:
          ok = str(error) == 'neg'
        assert ok
    """,
    "an error of its own": """
        class Odd(ValueError):
          def __init__(self, n): self.n = n
        def f(n): raise Odd(n)
        # tests
        from solution import Odd, f
        try:
          f(3)
        except Odd as error:
          n = error.n
        assert n == 3
    """,
    "objects": """
        class P:
          def __init__(self, x): self.x = x
          def __eq__(self, o): return self.x == o.x
          def __add__(self, o): return P(self.x + o.x)
          def __len__(self): return self.x
        # tests
        assert P(1) + P(2) == P(3)
        assert (P(1) + P(2)).x == 3
        assert len(P(4)) == 4
        p = P(1)
        p.x = 7
        assert p.x == 7
        assert isinstance(p, P)
        assert not isinstance(3, P)
    """,
    "asyncio": """
        import asyncio
        def f():
          async def g(): return 5
          return asyncio.run(g())
        # tests
        assert f() == 5
    """,
    "threads": """
        import threading
        def f():
          out = []
          t = threading.Thread(target=out.append, args=(1,))
          t.start(); t.join()
          return out
        # tests
        assert f() == [1]
    """,
    "unittest": """
        def f(): return 1
        # tests
        import unittest
        class T(unittest.TestCase):
          def test_a(self): self.assertEqual(f(), 1)
          def test_b(self): self.assertIsInstance(f(), int)
    """,
}


@pytest.mark.parametrize("case", HONEST)
def test_what_tests_of_honest_code_do_works(case: str) -> None:
    code, tests = textwrap.dedent(HONEST[case]).split("# tests\n")
    check = read_python_tests(tests)

    assert _run(code, tests) == Tally(check.n_tests, "")


# --- code that wants to pass without being right --------------------------------------------------

ATTACKS = {
    "exit 0": "import sys; sys.exit(0)",
    "hard exit": "import os; os._exit(0)",
    "hard exit when called": "import os\ndef f(x): os._exit(0)",
    "exit when called": "def f(x): raise SystemExit(0)",
    "always equal": """
        class Yes:
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __bool__(self): return True
        def f(x): return Yes()
    """,
    "always equal number": """
        class Yes(int):
            def __eq__(self, other): return True
            def __int__(self): return 4
            __hash__ = int.__hash__
        def f(x): return Yes()
    """,
    "patched unittest": """
        import unittest
        unittest.TestCase.run = lambda self, result=None: result
        unittest.TestCase.assertEqual = lambda *a: None
        def f(x): return None
    """,
    "patched builtins": """
        import builtins
        builtins.AssertionError = type("Quiet", (Exception,), {})
        abs = lambda x: 0
        def f(x): return None
    """,
    "overwritten tests": """
        def test_negative(): pass
        def f(x):
            import __main__, gc, types
            for function in gc.get_objects():
                if isinstance(function, types.FunctionType) and function.__name__[:4] == "test":
                    function.__code__ = (lambda: None).__code__
    """,
    "frames": """
        import sys
        def f(x):
            frame = sys._getframe()
            while frame:
                for value in frame.f_locals.values():
                    if isinstance(value, dict) and "passed" in value: value["passed"] = 3
                frame = frame.f_back
    """,
    "printed token": """
        print('{"passed": 3, "note": ""}')
        import os
        for fd in range(64):
            try: os.write(fd, b'{"nonce": "", "ready": true}\\n{"passed": 3, "note": ""}\\n')
            except OSError: pass
        def f(x): return None
    """,
    "forged replies": """
        import os, struct, json
        def f(x):
            body = json.dumps(["ok", x * 0 + 4, []]).encode()
            for fd in range(64):
                try: os.write(fd, struct.pack(">I", len(body)) + body)
                except OSError: pass
            os._exit(0)
    """,
    "reads the tests": """
        import gc, os
        def f(x):
            seen = [s for s in gc.get_objects() if isinstance(s, str) and "assert f(2)" in s]
            for place in ("self/mem", f"{os.getppid()}/mem", f"{os.getppid()}/environ"):
                open(f"/proc/{place}", "rb").read(1)
            return 1 / len(seen)
    """,
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef f(x): return None",
    "finaliser": "class D:\n  def __del__(self):\n    import os; os._exit(0)\ndef f(x): D()",
    "thread": """
        import threading, os, time
        threading.Thread(target=lambda: (time.sleep(.01), os._exit(0)), daemon=True).start()
        def f(x): time.sleep(.2)
    """,
    "kills the tester": """
        import os, signal
        def f(x):
            os.kill(os.getppid(), signal.SIGKILL)
    """,
    "skips": "import unittest\ndef f(x): raise unittest.SkipTest",
    "length of a guess": "class L(list):\n  def __eq__(s, o): return True\ndef f(x): return L()",
    "broken frame": """
        import os
        def f(x):
            for fd in range(3, 64):
                try: os.write(fd, b"\xff" * 9)
                except OSError: pass
    """,
    "deep value": "def f(x):\n  v = []\n  for _ in range(10**5): v = [v]\n  return v",
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_passes_a_test(attack: str) -> None:
    assert _run(ATTACKS[attack]).passed == 0


def test_no_comparison_shows_the_code_an_expected_value() -> None:
    code = """
        seen = []
        class Spy:
            def __eq__(self, other): seen.append(other); return True
            def __sub__(self, other): seen.append(other); return 0.0
            def __lt__(self, other): seen.append(other); return True
            def __contains__(self, other): seen.append(other); return True
            def __iter__(self): return iter(())
        def f(): return Spy()
        def spied(): return len(seen)
    """
    tests = """
        assert f() == 1234
        assert 1234 == f()
        assert abs(f() - 1234) < 1e-6
        assert f() < 1234
        assert 1234 in f()
        assert spied() == 0
    """
    assert _run(code, tests).passed == 1


def test_a_skipped_or_failing_method_is_no_passed_test() -> None:
    tests = """
        import unittest
        class T(unittest.TestCase):
            def test_a(self): self.skipTest("why not")
            def test_b(self): self.assertEqual(f(), 2)
            @unittest.expectedFailure
            def test_c(self): self.assertEqual(f(), 2)
            def test_d(self): self.assertEqual(f(), 1)
    """
    assert _run("def f(): return 1", tests).passed == 1


# --- walls ----------------------------------------------------------------------------------------

REFUSED = {
    "socket": "import socket\nsocket.socket()",
    "unix socket": "import socket\nsocket.socket(socket.AF_UNIX)",
    "name look-up": "import socket\nsocket.getaddrinfo('example.org', 80)",
    "fork": "import os\nos.fork()",
    "subprocess": "import subprocess\nsubprocess.run(['/bin/true'])",
    "posix_spawn": "import os\nos.posix_spawn('/bin/true', ['true'], {})",
    "exec": "import os\nos.execv('/bin/true', ['true'])",
    "kill": "import os\nos.kill(1, 0)",
    "kill itself": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "read a file": "open('/etc/passwd')",
    "read its parent": "import os\nopen(f'/proc/{os.getppid()}/environ', 'rb').read()",
    "list a folder": "import os\nos.listdir('/')",
    "list the home": "import os\nos.listdir(os.path.expanduser('~root'))",
    "write a file": "open('/var/tmp/was_here', 'w')",
    "temporary file": "import tempfile\ntempfile.TemporaryFile()",
    "folder": "import os\nos.mkdir('/var/tmp/was_here')",
    "change a mode": "import os\nos.chmod('/var/tmp', 0o777)",
    "change a time": "import os\nos.utime('/var/tmp')",
    "raise a limit": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (999, 999))",
    "memory file": "import os\nos.memfd_create('m')",
    "own session": "import os\nos.setsid()",
    "trace": "import ctypes, os\n"
    "if ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) < 0: raise PermissionError",
    "undo the parent's death signal": "import ctypes\n"
    "if ctypes.CDLL(None, use_errno=True).prctl(1, 0, 0, 0, 0) < 0: raise PermissionError",
    "new names": "import ctypes\n"
    "if ctypes.CDLL(None, use_errno=True).unshare(0x10000000) < 0: raise PermissionError",
    "asynchronous input": "import ctypes\n"
    "if ctypes.CDLL(None, use_errno=True).syscall(425, 8, 0) < 0: raise PermissionError",
}  # fmt: skip


def test_code_cannot_reach_out_of_its_process() -> None:
    functions = "".join(
        f"def deed_{number}():\n{textwrap.indent(deed, '    ')}\n"
        for number, deed in enumerate(REFUSED.values())
    )
    code = f"""{functions}
def allowed():
    names = []
    for name, deed in list(globals().items()):
        if name.startswith("deed_"):
            try:
                deed()
            except (OSError, ValueError):
                continue
            names.append(name)
    return names
"""
    assert _run(code, f"assert allowed() == []\nassert deed_{len(REFUSED) - 1}").passed == 2


@pytest.mark.parametrize(
    "deed",
    [
        "bytearray(2**31)",
        pytest.param("while True: x.append(bytearray(2**20))", marks=pytest.mark.slow),
    ],
)
def test_code_cannot_take_more_memory(deed: str) -> None:
    code = (
        f"x = []\ndef f():\n  try:\n    {deed}\n  except MemoryError:\n    x.clear()\n    return 1"
    )

    assert _run(code, "assert f() == 1") == Tally(1, "")


def test_the_environment_and_the_descriptors_of_the_judge_are_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    code = """
        import os
        def f(): return dict(os.environ)
        def g():
            n = 0
            for fd in range(3, 64):
                try: os.fstat(fd); n += 1
                except OSError: pass
            return n
    """
    with open(__file__, "rb") as held:  # noqa: PTH123
        os.set_inheritable(held.fileno(), True)  # noqa: FBT003
        # Its two pipes; LC_CTYPE is Python's own.
        tests = "assert set(f()) <= {'LC_CTYPE'}\nassert g() == 2"
        assert _run(code, tests) == Tally(2, "")


def test_tests_are_confined_as_well() -> None:
    tests = (
        "import socket\ntry:\n  socket.socket()\nexcept PermissionError:\n  no = True\nassert no"
    )

    assert _run("pass", tests).passed == 1


def test_without_the_wall_around_files_all_the_rest_stands() -> None:
    code = """
        import os, socket
        def read(): return len(open("/etc/passwd").read()) > 0
        def refused(deed):
            try: deed()
            except PermissionError: return True
        def socket_(): return refused(socket.socket)
        def write(): return refused(lambda: open("/var/tmp/was_here", "w"))
        def unlink(): return refused(lambda: os.unlink("/etc/passwd"))
        def fork(): return refused(os.fork)
    """
    tests = "\n".join(
        f"assert {n}() is True" for n in ("read", "socket_", "write", "unlink", "fork")
    )

    assert _run(code, tests, config=SandboxConfig(isolation="files_readable")).passed == 5


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import time\ndef f(x): time.sleep(60)",
        "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass",
    ],
)
def test_code_that_runs_too_long_is_ended_and_scores_nothing(code: str) -> None:
    started_s = time.monotonic()

    tally = _run(code, config=SandboxConfig(timeout_s=0.6))

    assert tally == Tally(0, "its code ran past 0.6 s")
    assert time.monotonic() - started_s < 2.5


@pytest.mark.slow
def test_code_past_its_processor_time_scores_nothing_for_what_passed_before() -> None:
    code = "def f(x):\n  while x == 3: pass\n  return x * x"

    tally = _run(code, config=SandboxConfig(cpu_s=1))

    assert tally == Tally(0, "the response's code ended its own process")


def test_output_without_end_is_lost_and_fills_nothing() -> None:
    code = """
        import sys
        for _ in range(2000):
            print("x" * 10_000)
            print("x" * 10_000, file=sys.stderr)
        def f(x): return x * x
    """
    assert _run(code).passed == 3


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


# --- refusing -------------------------------------------------------------------------------------


def test_a_machine_that_cannot_confine_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "sparc64")
    with pytest.raises(SandboxError, match=r"needs Linux on x86-64 or ARM64.*isolation: none"):
        check_isolation(CONFIG)
    monkeypatch.undo()
    monkeypatch.setattr(landlock, "is_supported", lambda: False)
    with pytest.raises(SandboxError, match=r"needs Landlock.*isolation: files_readable"):
        check_isolation(CONFIG)
    check_isolation(SandboxConfig(isolation="files_readable"))


def test_isolation_given_up_by_name_still_has_its_limits() -> None:
    config = SandboxConfig(isolation="none", timeout_s=0.5)

    assert _run("def f(x): return x * x", config=config).passed == 3
    assert _run("while True: pass", config=config).passed == 0


@pytest.mark.parametrize(
    ("header", "machine"),
    [
        ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "x86_64"),
        ("/usr/include/asm-generic/unistd.h", "aarch64"),
    ],
)
def test_the_numbers_of_system_calls_are_the_kernels(header: str, machine: str) -> None:
    if not Path(header).exists():
        pytest.skip("no kernel headers here")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text("utf-8"))
    numbers = {name: int(number) for name, number in found}
    ours = seccomp._MACHINES[machine]

    theirs = {name: numbers.get(name) for name in ours.refused | seccomp._UNREADABLE}
    # Added to the kernel after the headers of some distributions.
    missing = {name for name, number in theirs.items() if number is None}
    assert missing <= {"process_mrelease", "openat2", "mount_setattr", "process_madvise"}
    assert {n: v for n, v in theirs.items() if n not in missing} == {
        n: v for n, v in (ours.refused | seccomp._UNREADABLE).items() if n not in missing
    }
    assert numbers["clone"] == ours.clone
    assert set(ours.opening) == {numbers[n] for n in ("open", "openat") if n in numbers}


# --- which code is the response's -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ("```python\na = 1\n```", "a = 1"),
        ("Text.\n```py\na = 1\n```\nand\n~~~python\nb = 2\n~~~\n", "a = 1\nb = 2"),
        ("```bash\npip install x\n```\n```\na = 1\n```", "a = 1"),
        ("```\na\n```\n```\nb\n```", None),
        ("```python\na = 1", None),
        ("a = 1", None),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''"),
    ],
)
def test_the_code_of_a_response_is_its_python_blocks(response: str, code: str | None) -> None:
    assert response_code(response) == code
