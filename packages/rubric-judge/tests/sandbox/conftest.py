"""Code run in the sandbox, which leaves nothing behind."""

import os
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from rubric_judge import SandboxConfig, SandboxError
from rubric_judge.checks.sandbox.launch import Tally, check_isolation, run_tests

CONFIG = SandboxConfig(timeout_s=10)
TESTS = """
assert f(2) == 4
assert f(3) == 9
def test_negative():
    assert f(-1) == 1
"""


@cache
def _confined() -> bool:
    try:
        check_isolation(CONFIG)
    except SandboxError:
        return False
    return True


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    if not _confined():
        pytest.skip("needs Linux with Landlock and seccomp")

    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    yield
    assert len(list(descriptors.iterdir())) <= before
    # No zombie and no living process of ours.
    children = (
        Path(f"/proc/self/task/{os.getpid()}/children").read_text("utf-8").split()
    )
    names = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    assert not any(b"checks.sandbox" in name for name in names)


@pytest.fixture
def run() -> Callable[..., Tally]:
    """Return a function that runs code with tests, three of a function `f` by default."""

    def run(code: str, tests: str = TESTS, *, config: SandboxConfig = CONFIG) -> Tally:
        return run_tests(
            textwrap.dedent(code),
            textwrap.dedent(tests),
            config=config,
            check=lambda: None,
        )

    return run
