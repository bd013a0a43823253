"""What code cannot reach, and where it is not run at all."""

import os
import platform
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_judge import SandboxConfig, SandboxError, Tally
from rubric_sandbox import LinuxSandbox, confine, seccomp

CONFIG = SandboxConfig(timeout_s=10)
Run = Callable[..., Tally]

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


def test_code_cannot_reach_out_of_its_process(run: Run) -> None:
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
    assert (
        run(code, f"assert allowed() == []\nassert deed_{len(REFUSED) - 1}").passed == 2
    )


@pytest.mark.parametrize(
    "deed",
    [
        "bytearray(2**31)",
        pytest.param("while True: x.append(bytearray(2**20))", marks=pytest.mark.slow),
    ],
)
def test_code_cannot_take_more_memory(deed: str, run: Run) -> None:
    code = (
        f"x = []\ndef f():\n  try:\n    {deed}\n  except MemoryError:\n    "
        "x.clear()\n    return 1"
    )

    assert run(code, "assert f() == 1") == Tally(1, "")


def test_the_environment_and_the_descriptors_of_the_judge_are_not_there(
    monkeypatch: pytest.MonkeyPatch, run: Run
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
        # Its socket; LC_CTYPE is Python's own.
        tests = "assert set(f()) <= {'LC_CTYPE'}\nassert g() == 1"
        assert run(code, tests) == Tally(2, "")


def test_tests_are_confined_as_well(run: Run) -> None:
    tests = (
        "import socket\ntry:\n  socket.socket()\nexcept PermissionError:\n  no = "
        "True\nassert no"
    )

    assert run("pass", tests).passed == 1


def test_without_the_wall_around_files_all_the_rest_stands(run: Run) -> None:
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

    assert (
        run(code, tests, config=SandboxConfig(isolation="files_readable")).passed == 5
    )


# --- refusing -------------------------------------------------------------------------------------


def test_a_machine_that_cannot_confine_code_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "sparc64")
    with pytest.raises(
        SandboxError, match=r"needs Linux on x86-64 or ARM64.*isolation: none"
    ):
        LinuxSandbox(CONFIG).check_isolation()
    monkeypatch.undo()
    monkeypatch.setattr(confine, "has_landlock", lambda: False)
    with pytest.raises(
        SandboxError, match=r"needs Landlock.*isolation: files_readable"
    ):
        LinuxSandbox(CONFIG).check_isolation()
    LinuxSandbox(SandboxConfig(isolation="files_readable")).check_isolation()


def test_isolation_given_up_by_name_still_has_its_limits(run: Run) -> None:
    config = SandboxConfig(isolation="none", timeout_s=0.5)

    assert run("def f(x): return x * x", config=config).passed == 3
    assert run("while True: pass", config=config).passed == 0


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
    found = re.findall(
        r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text("utf-8")
    )
    numbers = {name: int(number) for name, number in found}
    ours = seccomp._MACHINES[machine]

    theirs = {name: numbers.get(name) for name in ours.refused | seccomp._UNREADABLE}
    # Added to the kernel after the headers of some distributions.
    missing = {name for name, number in theirs.items() if number is None}
    assert missing <= {
        "process_mrelease",
        "openat2",
        "mount_setattr",
        "process_madvise",
    }
    assert {n: v for n, v in theirs.items() if n not in missing} == {
        n: v
        for n, v in (ours.refused | seccomp._UNREADABLE).items()
        if n not in missing
    }
    assert numbers["clone"] == ours.clone
    assert set(ours.opening) == {numbers[n] for n in ("open", "openat") if n in numbers}
