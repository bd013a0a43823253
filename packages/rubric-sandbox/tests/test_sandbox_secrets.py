"""What the response's code can learn of its tests, and which of their names it can forge."""

import textwrap

import pytest

from rubric_judge import SandboxConfig, Tally
from rubric_judge.checks.execute import Programs
from rubric_judge.checks.python_tests import read_python_tests
from rubric_judge.config import HybridConfig
from rubric_sandbox import LinuxSandbox
from rubric_sandbox.tester import names_to_give

EVERY_ISOLATION = pytest.mark.parametrize(
    "isolation", ["full", "files_readable", "none"]
)


def _run(code: str, tests: str, isolation: str = "full") -> Tally:
    config = SandboxConfig.model_validate({"isolation": isolation, "memory_mb": 1024})
    code, tests = textwrap.dedent(code), textwrap.dedent(tests)
    return LinuxSandbox(config).run_tests(code, tests, check=lambda: None)


# --- what it can learn ----------------------------------------------------------------------------

THIEF = r"""
import gc, os, re, sys

def frames():
    frame, seen = sys._getframe(), []
    while frame:
        seen.append(repr(frame.f_locals) + repr(frame.f_globals))
        frame = frame.f_back
    return "".join(seen).encode()

def objects():
    return "".join(one for one in gc.get_objects() if isinstance(one, str)).encode() + b"".join(
        repr(one).encode("utf-8", "replace") for one in gc.get_objects() if type(one) is dict
        and len(one) < 50)

def inputs():
    return b"".join(open(f"/proc/{os.getppid()}/{one}", "rb").read(1 << 20)
                    for one in ("cmdline", "environ"))

def memory(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as held:
        for line in maps:
            first, last, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if rights.startswith("rw"):
                try:
                    held.seek(int(first, 16))
                    yield held.read(min(int(last, 16) - int(first, 16), 1 << 22))
                except (OSError, ValueError):
                    pass

def everything():
    for look in (frames, objects, inputs):
        try:
            yield look()
        except OSError:
            pass
    for pid in ("self", os.getppid()):
        try:
            yield from memory(pid)
        except OSError:
            pass

# Patterns that do not match themselves.
OF_THE_TESTS = re.compile(rb"expected_to_be_[s]ecret")
OF_THE_CODE = re.compile(rb"known_to_be_[m]ine")
known = "known_to_be_" + "mine".lower()

def f(pattern=OF_THE_TESTS):
    return any(pattern.search(part) for part in everything())

def g():
    return f(OF_THE_CODE)

EARLY = f()
def early():
    return EARLY
"""


@EVERY_ISOLATION
def test_no_text_of_the_tests_is_in_reach_of_the_code(isolation: str) -> None:
    tests = """
        # expected_to_be_secret
        assert early() is False, "expected_to_be_secret"
        def test_later():
            assert f() is False, "expected_to_be_secret"
        assert g() is True
    """

    assert _run(THIEF, tests, isolation) == Tally(3, "")


@EVERY_ISOLATION
def test_the_frames_of_the_code_lead_to_no_order(isolation: str) -> None:
    code = r"""
        import re, sys
        frame, told = sys._getframe(), ""
        while frame:
            told += repr(frame.f_locals)
            frame = frame.f_back
        answers = dict(re.findall(r"f\((\d+)\), (\d+)", told))
        def f(x): return int(answers.get(str(x), -1))
    """
    tests = """
        import unittest
        class T(unittest.TestCase):
            def test_a(self): self.assertEqual(f(3), 9)
            def test_b(self): self.assertEqual(f(5), 25)
    """

    assert _run(code, tests, isolation).passed == 0


@EVERY_ISOLATION
def test_the_code_has_no_privilege_with_which_root_reads_memory(isolation: str) -> None:
    code = """
        import ctypes, struct
        def privileges():
            found = ctypes.create_string_buffer(24)
            header = struct.pack("=Ii", 0x20080522, 0)
            return ctypes.CDLL(None).capget(header, found), found.raw
    """

    assert _run(code, "assert privileges() == (0, bytes(24))", isolation).passed == 1


# --- what it can forge ----------------------------------------------------------------------------

SENDS_A_FRAME = """
    import sys
    frame = sys._getframe()
    while frame.f_code.co_name != "define":
        frame = frame.f_back
    subject = frame.f_locals["self"]
    def mine(value):
        return ["mine", subject._number(value), []]
    def send(names):
        wire = sys.modules["rubric_sandbox.wire"]
        wire.write_frame(subject._tester, ["ok", ["dict", names], []])
        while True:
            wire.write_frame(subject._tester, subject.answer(wire.read_frame(subject._tester)))
    class Math:
        def isclose(self, *args, **named): return True
    def f(*args): return 1
"""
FORGERIES = {
    "builtins past a patched hasattr": (
        """
        import builtins
        builtins.hasattr = lambda *args: False
        def f(*args): return 0
        def sorted(*args): return 0
        def round(*args): return 0
        def set(*args): return 0
        def abs(x): return 0.0
        def all(x): return True
        def len(x): return 4
        """,
        """
        assert sorted(f([3, 1])) == sorted([1, 3])
        assert round(f(2), 3) == round(3.14159, 3)
        assert abs(f(2) - 3) < 1e-9
        assert all(x > 3 for x in f(4))
        assert len(f(4)) == 4
        def test_c():
            assert set(f(1)) == set([1, 2])
        """,
    ),
    "builtins in a frame of its own": (
        SENDS_A_FRAME + '    send([["f", mine(f)], ["abs", mine(lambda *a: 0.0)]])',
        "assert abs(f(2) - 3) < 1e-9",
    ),
    "another __import__": (
        SENDS_A_FRAME
        + '    send([["f", mine(f)], ["__builtins__", ["dict", [["__import__", '
        + "mine(lambda *a: Math())]]]]])",
        "import math\nassert math.isclose(f(2, 3), 6.0)",
    ),
    "names that are no text": (
        SENDS_A_FRAME
        + '    send([[1, mine(f)], [["tuple", []], mine(f)], ["f", mine(f)]])',
        "assert f(2) == 4",
    ),
    "an import of the tests": (
        """
        def f(*args): return 5
        class math:
            isclose = staticmethod(lambda *args, **named: True)
        """,
        """
        assert math.isclose(f(2), 4)
        import math
        from solution import *
        assert math.isclose(f(2), 4)
        def test_a():
            assert math.isclose(f(2), 4)
        """,
    ),
    "a helper of the tests": (
        """
        def f(*args): return 1
        def close(x): return 1
        expected = 1
        seen = 1
        """,
        """
        assert f(2, 3) == close(6)
        def close(x): return x
        expected = {}[f(1)]
        assert f(1) == expected
        def prepare():
            global seen
            seen = 2
        assert f(1) == seen
        """,
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_no_name_of_the_tests_can_be_forged(forgery: str) -> None:
    code, tests = FORGERIES[forgery]

    assert _run(code, tests).passed == 0


def test_a_frame_that_the_code_sends_by_itself_arrives() -> None:
    # Or the forgeries that send one would be refused for nothing.
    code = SENDS_A_FRAME + '    send([["g", mine(f)]])'

    assert _run(code, "assert g(2) == 1") == Tally(1, "")


def test_tests_get_what_they_mention_and_no_more() -> None:
    tests = """
import math, solution
from solution import imported
assert called(1) == solution.attribute == getattr(solution, "by_name")
def helper(): local = shadowed
"""
    given = ("called", "attribute", "by_name", "imported", "local", "shadowed")
    withheld = (
        "unused",
        "math",
        "helper",
        "_private",
        "__builtins__",
        "abs",
        "getattr",
    )

    assert set(
        names_to_give({**dict.fromkeys(given, 1), **dict.fromkeys(withheld, 2)}, tests)
    ) == set(given)


def test_what_tests_take_from_solution_is_the_codes() -> None:
    code = """
        class Stack:
            def __init__(self): self.items = []
            def push(self, item): self.items.append(item)
        def area(a, b): return a * b
    """
    tests = """
        import solution
        from solution import Stack as S
        assert solution.area(2, 3) == 6
        def test_local_import():
            from solution import area
            assert area(2, 3) == 6
        s = S()
        s.push(1)
        assert s.items[0] == 1
        assert getattr(solution, "area")(1, 1) == 1
    """

    assert _run(code, tests) == Tally(4, "")


@pytest.mark.anyio
async def test_code_without_end_is_not_even_started(anyio_backend: str) -> None:
    del anyio_backend
    programs = Programs(HybridConfig.model_validate({"judge": {"type": "lexical"}}))
    check = read_python_tests("assert f() == 1")
    response = "```python\ndef f(): return 1\n" + "# a\n" * 100_000 + "```"

    verdict = await programs.run(check, response)

    assert verdict.share == 0
    assert verdict.note == "its code has more than 100000 characters"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "code",
    [
        "\ud800",
        "x = '\ud800'",
        "\0",
        "(" * 90_000,
        "-" * 90_000 + "1",
        "f = " + "lambda: " * 20_000 + "1",
        "class A: pass\n" * 7_000,
        "import os\nos.write(1, b'{}')\nos.closerange(0, 99)",
        "raise type('E', (BaseException,), {'__module__': 'builtins'})('x' * 10**8)",
    ],
    ids=range(9),
)
async def test_no_code_makes_its_tests_fail_to_start(
    code: str, anyio_backend: str
) -> None:
    del anyio_backend
    programs = Programs(
        HybridConfig.model_validate(
            {"judge": {"type": "lexical"}, "python_tests": True}
        )
    )

    verdict = await programs.run(
        read_python_tests("assert f() == 1"), f"```python\n{code}\n```"
    )

    assert verdict.share == 0
    assert verdict.note
