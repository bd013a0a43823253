"""Code run in the sandbox, which leaves nothing behind."""

import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rubric_judge import SandboxConfig, Tally
from rubric_sandbox import LinuxSandbox, confine, seccomp

CONFIG = SandboxConfig(timeout_s=10)
TESTS = """
assert f(2) == 4
assert f(3) == 9
def test_negative():
    assert f(-1) == 1
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip where the kernel lacks the walls; where it has them, a sandbox that fails is a fault."""
    if seccomp.is_supported() and confine.has_landlock():
        return
    skip = pytest.mark.skip(reason="needs Linux with Landlock and seccomp")
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(skip)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    yield
    assert len(list(descriptors.iterdir())) <= before
    # No zombie and no living process of ours.
    children = (
        Path(f"/proc/self/task/{os.getpid()}/children").read_text("utf-8").split()
    )
    names = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    assert not any(b"rubric_sandbox" in name for name in names)


@pytest.fixture
def run() -> Callable[..., Tally]:
    """Return a function that runs code with tests, three of a function `f` by default."""

    def run(code: str, tests: str = TESTS, *, config: SandboxConfig = CONFIG) -> Tally:
        return LinuxSandbox(config).run_tests(
            textwrap.dedent(code), textwrap.dedent(tests), check=lambda: None
        )

    return run
